"""Breaks ties of ROW_NUMBER by all output columns in order, so that stream and batch give the same numbers.

>>> from .dialect import parse, sql
>>> tree = parse("select a, b, row_number() over (partition by a order by b) as rn from t")
>>> break_ties(tree)
>>> sql(tree)
'SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, STRUCT(a, b)) AS rn FROM t'
"""

from __future__ import annotations

from sqlglot import exp

from ...util import nested_types
from ...util.quoting import quote
from .dialect import DIALECT
from .maps import has_map, orderable
from .nodes import copied, every, holds

_BROKEN, _FIELDS = "ties_broken", "fields_of_ties"
_DECIDED, _ORDERED = "ties_decided", "ordered_value"
_EXTREMES = (exp.ArgMax, exp.ArgMin)


def break_ties(select: exp.Select) -> None:
    """Adds the select list to the ORDER BY of each ROW_NUMBER. Changes the tree."""
    if select.meta_get(_BROKEN) or not listed(select):
        return
    select.meta[_BROKEN] = True
    numbers = (each for each in every(select, exp.Window) if isinstance(each.this, exp.RowNumber))
    ranked = [each for each in numbers if each.args.get("order") and each.parent_select is select]
    row = tie_breaker(select) if ranked else None
    if row is not None:
        for each in ranked:
            each.args["order"].append("expressions", exp.Ordered(this=copied(row), nulls_first=True))


def decide_extremes(query: exp.Expr) -> None:
    """Makes each MIN_BY (MAX_BY) return the least (greatest) value of tied rows, as its incremental state does.
    Changes the tree.

    >>> from .dialect import parse, sql
    >>> tree = parse("select max_by(v, x) filter (where y) as m from t")
    >>> decide_extremes(tree)
    >>> sql(tree)
    'SELECT MAX_BY(v, CASE WHEN NOT x IS NULL THEN STRUCT(x, v) END) FILTER(WHERE y) AS m FROM t'
    """
    for call in undecided_extremes(query):
        by = call.expression.copy()
        value = exp.maybe_parse(call.meta_get(_ORDERED) or call.this.copy(), dialect=DIALECT)
        both = exp.Anonymous(this="STRUCT", expressions=[by, value])
        there = by.copy().is_(exp.null()).not_()
        call.set("expression", exp.Case(ifs=[exp.If(this=there, true=both)]))
        call.meta[_DECIDED] = True


def undecided_extremes(query: exp.Expr) -> list[exp.Expr]:
    """The MIN_BY and MAX_BY calls of a query that may return the value of any tied row."""
    found = (each for each in every(query, *_EXTREMES) if not each.args.get("count"))
    return [each for each in found if not is_decided(each) and not isinstance(each.this, exp.Distinct)]


def is_decided(node: exp.Expr) -> bool:
    """Whether a MIN_BY or MAX_BY is deterministic."""
    return bool(node.meta_get(_DECIDED))


def note_order(call: exp.Expr, kind: str) -> None:
    """Notes how to order the values of a MIN_BY or MAX_BY if their type has no order (a MAP)."""
    if has_map(kind):
        call.meta[_ORDERED] = orderable(call.this.sql(DIALECT), kind)


def tie_breaker(select: exp.Select) -> exp.Expr | None:
    """Returns the tie-breaking value: a struct of the select list without ranks. None if the list is empty."""
    items = values(select)
    return exp.Anonymous(this="STRUCT", expressions=items) if items else None


def values(select: exp.Select) -> list[exp.Expr]:
    """Returns the tie-breaking values one by one."""
    if (fields := fields_of(select)) is not None:
        return [exp.maybe_parse(text, dialect=DIALECT) for text in fields]
    return [copied(item.unalias()) for item in listed(select)]


def listed(select: exp.Select) -> list[exp.Expr]:
    """Returns the select items without OVER."""
    return [item for item in select.expressions if not holds(item, exp.Window)]


def fields_of(select: exp.Select) -> list[str] | None:
    """Returns SQL of the tie-breaking values if some select items can't be ordered. None otherwise, or if types are
    unknown."""
    found: list[str] | None = select.meta.get(_FIELDS)
    return found


def note_types(select: exp.Select, row: str) -> None:
    """Notes the tie-breaking values that replace MAPs, which have no order.

    Args:
        select: a SELECT with ROW_NUMBER. It is changed.
        row: type of its select list without ranks, a struct as `typeof` prints it.
    """
    if not has_map(row):
        return
    fields, items = nested_types.fields_of(row) or [], listed(select)
    stars = [item for item in items if item.is_star]
    of_several = any(not isinstance(star, exp.Column) for star in stars) and bool(select.args.get("joins"))
    if len(stars) > 1 or of_several:
        return  # the relation of a column is unknown
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
    select.meta[_FIELDS] = [orderable(text, kind) for text, (_, kind) in zip(texts, fields, strict=True)]
