"""Replaces each subquery without FROM by its select item, an expression over the outer row.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select (select s.k + (select v)) as x, (select v where v > 1) as w from s where exists(select 1 where k)")
>>> inline_values([tree])
>>> sql(tree)
'SELECT (s.k + (v)) AS x, CASE WHEN v > 1 THEN v END AS w FROM s WHERE COALESCE(k, FALSE)'
>>> tree = parse("select v in ((select k)) as x, (select max(v)) as y, (select k) from s, ((select 1)) group by (select 1)")
>>> text = sql(tree)
>>> inline_values([tree])
>>> sql(tree) == text
True
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from ..sql.dialect import from_clause
from ..sql.functions import makes_rows
from ..sql.nodes import every, holds, selects_around

_ITEM = frozenset({"expressions", "where"})
"""Clauses of a SELECT that returns at most one row for each outer row."""


def inline_values(selects: Iterable[exp.Select]) -> None:
    """Replaces SELECTs without FROM by their value. Changes the trees.

    The query of IN is kept: in a select list Spark returns false for it where a comparison would be NULL.

    Args:
        selects: SELECTs that may be changed.
    """
    found = list(selects)
    within = {id(each) for each in found}
    for select in found:
        if any(id(each) in within for each in selects_around(select)):
            continue  # its subqueries are among those of a SELECT around it
        # Innermost first, because outer ones copy inner ones.
        for node in reversed(list(every(select, exp.Subquery, exp.Exists))):
            if (value := _replacement(node)) is not None:
                node.replace(value)


def _replacement(node: exp.Expr) -> exp.Expr | None:
    """Returns the expression that a subquery without FROM, or an EXISTS, can be replaced by; None if there is none."""
    select = node.this
    if not isinstance(select, exp.Select) or not _has_one_value_per_row(select) or _names_its_column(node):
        return None
    value, where = select.expressions[0].unalias(), select.args.get("where")
    condition = None if where is None else where.this
    if isinstance(node, exp.Exists):
        return exp.true() if condition is None else exp.func("coalesce", condition, exp.false())
    place = node
    while isinstance(place, exp.Subquery):
        if place.alias or place.arg_key == "query":
            return None
        assert place.parent is not None
        place = place.parent
    if isinstance(place, _PLACES_OF_QUERIES):
        return None
    return exp.paren(value) if condition is None else exp.Case(ifs=[exp.If(this=condition, true=value)])


_PLACES_OF_QUERIES = (
    exp.From,
    exp.Join,
    exp.Lateral,
    exp.SetOperation,
    exp.CTE,
    exp.Exists,
    exp.Any,
    exp.All,
)


def _names_its_column(node: exp.Expr) -> bool:
    """Whether an expression is part of an unnamed select item, whose column is named after its text."""
    while node.parent is not None and not isinstance(node.parent, exp.Select):
        node = node.parent
    reads = isinstance(node.parent, exp.Select) and from_clause(node.parent) is not None
    return reads and node.arg_key == "expressions" and not isinstance(node, exp.Alias)


def _has_one_value_per_row(select: exp.Select) -> bool:
    """Whether a SELECT returns at most one value for each outer row. (A constant in GROUP BY would be an ordinal.)"""
    if {name for name, arg in select.args.items() if arg} - _ITEM or len(select.expressions) != 1:
        return False
    if not holds(select, exp.Column):
        return False
    own = (each for each in every(select, exp.Expr) if each.find_ancestor(exp.Select) is select)
    return not any(isinstance(each, exp.AggFunc | exp.Window | exp.Star) or makes_rows(each) for each in own)
