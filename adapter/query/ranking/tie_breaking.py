"""Ties of ROW_NUMBER broken by all output columns in order, so that stream and batch number alike.

>>> from ..text.dialect import parse, sql
>>> tree = parse("select a, b, row_number() over (partition by a order by b) as rn from t")
>>> break_ties(tree)
>>> sql(tree)
'SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, STRUCT(a, b)) AS rn FROM t'
"""

from __future__ import annotations

from sqlglot import exp

from ..text import nested_types
from ..text.dialect import DIALECT
from ..text.maps import has_map, ordered
from ..text.nodes import every, holds
from ..windowing.windows import quote

_BROKEN, _FIELDS = "ties_broken", "fields_of_ties"


def break_ties(select: exp.Select) -> None:
    """Adds the select list to the ORDER BY of each ROW_NUMBER in it. Changes the tree it is given."""
    row = tie(select)
    if row is None or select.meta.get(_BROKEN):
        return
    select.meta[_BROKEN] = True
    for window in every(select, exp.Window):
        order = window.args.get("order")
        if isinstance(window.this, exp.RowNumber) and order and window.parent_select is select:
            order.append("expressions", exp.Ordered(this=row.copy(), nulls_first=True))


def tie(select: exp.Select) -> exp.Expr | None:
    """What ties are broken by: a row of the select list without ranks. None: there is nothing else in it."""
    items = values(select)
    return exp.Anonymous(this="STRUCT", expressions=items) if items else None


def values(select: exp.Select) -> list[exp.Expr]:
    """What ties are broken by, one value after the other."""
    if (fields := fields_of(select)) is not None:
        return [exp.maybe_parse(text, dialect=DIALECT) for text in fields]
    return [item.unalias().copy() for item in listed(select)]


def listed(select: exp.Select) -> list[exp.Expr]:
    """A select list without ranks."""
    return [item for item in select.expressions if not holds(item, exp.Window)]


def fields_of(select: exp.Select) -> list[str] | None:
    """SQL of the values that ties are broken by, where the select list has some that can't be ordered; None: it hasn't, as
    far as is known."""
    found: list[str] | None = select.meta.get(_FIELDS)
    return found


def note_types(select: exp.Select, row: str) -> None:
    """Notes what ties are broken by in place of MAPs, which have no order.

    Args:
        select: has a ROW_NUMBER. Is changed.
        row: the type of its list without ranks as a struct, as Spark's `typeof` prints it.
    """
    if not has_map(row):
        return
    fields, items = nested_types.fields_of(row) or [], listed(select)
    stars = [item for item in items if item.is_star]
    of_several = any(not isinstance(star, exp.Column) for star in stars) and bool(select.args.get("joins"))
    if len(stars) > 1 or of_several:
        return  # of which relation a column is isn't known
    texts: list[str] = []
    for item in items:
        many = len(fields) - len(items) + 1 if item.is_star else 1
        names = fields[len(texts) : len(texts) + many]
        table = f"{quote(item.table)}." if isinstance(item, exp.Column) and item.table else ""
        texts += (
            [f"{table}{quote(name)}" for name, _ in names] if item.is_star else [item.unalias().sql(DIALECT)]
        )
    if len(texts) != len(fields):
        return
    select.meta[_FIELDS] = [ordered(text, kind) for text, (_, kind) in zip(texts, fields, strict=True)]
