"""Moves subqueries in a GROUP BY's keys or aggregate arguments, or next to OVER, to a query below, as columns of its
rows.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select k, sum(v - (select avg(w) from t)) as s, max(v) as m from r group by k")
>>> move_queries_below(tree, list(tree.find_all(exp.Query))[1:])
True
>>> print(sql(tree))
SELECT `k` AS `k`, SUM(`v` - `__asked_0`) AS s, MAX(`v`) AS m FROM (SELECT k AS `k`, v AS `v`, \
(SELECT AVG(w) FROM t) AS `__asked_0` FROM r) AS joined GROUP BY `k`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from sqlglot import exp

from ..aggregates.grouping import grouping
from ..frontend.select_kind import is_grouped
from ..sql.clauses import is_over
from ..sql.dialect import canonical, from_clause, outermost_queries
from ..sql.nodes import every
from . import split_joins

_PREFIX = "__asked_"


def move_queries_below(select: exp.Select, inner: Sequence[exp.Query]) -> bool:
    """Moves queries that are evaluated for each row to a query below. Changes the tree.

    Args:
        select: a SELECT with groups or OVER.

    Returns:
        Whether all were moved. (The columns of any that stay would be confused with the rows'.)
    """
    keys = {canonical(key) for key in grouping(select).keys}
    nodes = [_expression_around(query) for query in inner]
    if is_grouped(select) and not all(_is_evaluated_per_row(node, select, keys) for node in nodes):
        return False
    if not all(map(_depends_on_row_alone, nodes)):
        return False
    # Earlier moved queries are columns now.
    taken = {column.name for column in every(select, exp.Column)}
    free = (name for name in (f"{_PREFIX}{number}" for number in count()) if name not in taken)
    names: dict[str, str] = {}
    asked: dict[str, exp.Expr] = {}
    for node in nodes:
        text = canonical(node)
        name = names[text] = names.get(text) or next(free)
        asked[name] = node.copy()
        node.replace(exp.column(name, quoted=True))
    split_joins.move_join_below(select)
    source = from_clause(select)
    assert source is not None
    for item in source.this.this.expressions:
        column = item.unalias()
        if isinstance(column, exp.Column) and column.name in asked:
            column.replace(asked[column.name])
    return True


def with_moved_queries(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """Returns an expression of a SELECT with the queries that `move_queries_below` has moved, as its author wrote it."""
    source = from_clause(select)
    below = source.this.unnest() if source is not None else None
    if not isinstance(below, exp.Select):
        return node
    moved = {item.alias: item.unalias() for item in below.expressions if item.alias.startswith(_PREFIX)}

    def written(each: exp.Expr) -> exp.Expr:
        return moved[each.name].copy() if isinstance(each, exp.Column) and each.name in moved else each

    return node.transform(written) if moved else node


def row_level_table_queries(select: exp.Select) -> list[exp.Query]:
    """Returns the subqueries without streams that have to be moved, because a GROUP BY evaluates them for each row: queries
    with an aggregate in its aggregates or keys, and queries in a key that is also selected."""
    keys = {canonical(key) for key in grouping(select).keys}
    queries = queries_in_clauses(select)
    asked = keys & {
        canonical(each)
        for query in queries
        if query.find_ancestor(exp.Group, exp.Select) is select
        for each in _ancestors(_expression_around(query), select)
    }
    return [
        query
        for query in queries
        if (query.find(exp.AggFunc) and _is_evaluated_per_row(_expression_around(query), select, keys))
        or any(canonical(each) in asked for each in _ancestors(_expression_around(query), select))
    ]


def queries_in_clauses(select: exp.Select) -> list[exp.Query]:
    """All queries in the select list, HAVING and GROUP BY of a SELECT."""
    clauses = (*select.expressions, select.args.get("having"), select.args.get("group"))
    return [query for clause in clauses if clause is not None for query in outermost_queries(clause)]


def _ancestors(node: exp.Expr, select: exp.Select) -> Iterator[exp.Expr]:
    """Yields an expression and those around it, up to the SELECT."""
    above: exp.Expr | None = node
    while above is not None and above is not select:
        yield above
        above = above.parent


def _expression_around(query: exp.Query) -> exp.Expr:
    """Returns the expression around a query: the scalar subquery, EXISTS, [NOT] IN."""
    node: exp.Expr = query
    while isinstance(node.parent, exp.Subquery):
        node = node.parent
    if not isinstance(node.parent, exp.Exists | exp.In):
        return node
    node = node.parent
    # NOT IN is kept whole: Spark evaluates IN alone to false where NOT IN is NULL.
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return above if isinstance(above, exp.Not) and isinstance(node, exp.In) else node


def _depends_on_row_alone(node: exp.Expr) -> bool:
    """Whether the left side of IN depends on the row alone: no OVER, aggregate or subquery."""
    value = node.find(exp.In) if isinstance(node, exp.Not | exp.In) else None
    return value is None or value.this.find(exp.AggFunc, exp.Window, exp.Query) is None


def _is_evaluated_per_row(node: exp.Expr, select: exp.Select, keys: set[str]) -> bool:
    """Whether an expression of a GROUP BY is evaluated for each row: in an aggregate, or as part of a key."""
    # FILTER is evaluated for rows, too; OVER for groups.
    return any(
        (isinstance(each, exp.AggFunc | exp.Filter) and not is_over(each)) or canonical(each) in keys
        for each in _ancestors(node, select)
    )
