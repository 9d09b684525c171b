"""Puts the queries that stand in a GROUP BY's keys, in an aggregate's argument or beside OVER into a query below, as columns
of its rows.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select k, sum(v - (select avg(w) from t)) as s, max(v) as m from r group by k")
>>> put(tree, list(tree.find_all(exp.Query))[1:])
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
from ..sql.dialect import canonical, from_clause
from ..sql.nodes import every
from . import split_joins

_NAME = "__asked_{}"


def put(select: exp.Select, inner: Sequence[exp.Query]) -> bool:
    """Puts queries below, those of them that are asked for each row. Changes the tree.

    Args:
        select: it groups, or has OVER.
        inner: queries in its expressions.

    Returns:
        Whether all of them were. (Of those that stay above, columns of their own would be taken for the rows'.)
    """
    keys = {canonical(key) for key in grouping(select).keys}
    nodes = [_whole(query) for query in inner]
    if is_grouped(select) and not all(_is_of_rows(node, select, keys) for node in nodes):
        return False
    if not all(map(_is_of_one_row, nodes)):
        return False
    # What was put below before stands beside it.
    taken = {column.name for column in every(select, exp.Column)}
    free = (name for name in map(_NAME.format, count()) if name not in taken)
    names: dict[str, str] = {}
    asked: dict[str, exp.Expr] = {}
    for node in nodes:
        text = canonical(node)
        name = names[text] = names.get(text) or next(free)
        asked[name] = node.copy()
        node.replace(exp.column(name, quoted=True))
    split_joins.split(select)
    source = from_clause(select)
    assert source is not None
    for item in source.this.this.expressions:
        column = item.unalias()
        if isinstance(column, exp.Column) and column.name in asked:
            column.replace(asked[column.name])
    return True


def of_tables(select: exp.Select) -> list[exp.Query]:
    """The queries over no stream that a GROUP BY computes for each of its rows and that can't stay where they are: in its
    aggregates and keys those with an aggregate of their own, and what is asked in a key that is put out, too."""
    keys = {canonical(key) for key in grouping(select).keys}
    put_out = _outermost(select, (*select.expressions, select.args.get("having")))
    asked = keys & {canonical(each) for query in put_out for each in _around(_whole(query), select)}
    return [
        query
        for query in in_groups(select)
        if (query.find(exp.AggFunc) and _is_of_rows(_whole(query), select, keys))
        or any(canonical(each) in asked for each in _around(_whole(query), select))
    ]


def in_groups(select: exp.Select) -> list[exp.Query]:
    """All queries that a GROUP BY asks, of its rows or its groups."""
    return _outermost(select, (*select.expressions, select.args.get("having"), select.args.get("group")))


def _outermost(select: exp.Select, clauses: Sequence[exp.Expr | None]) -> list[exp.Query]:
    """The queries in clauses of a SELECT that stand in no other."""
    return [
        query
        for clause in clauses
        if clause is not None
        for query in every(clause, exp.Query)
        if query.find_ancestor(exp.Select) is select and not isinstance(query, exp.Subquery)
    ]


def _around(node: exp.Expr, select: exp.Select) -> Iterator[exp.Expr]:
    """An expression in a SELECT, and what stands around it."""
    above: exp.Expr | None = node
    while above is not None and above is not select:
        yield above
        above = above.parent


def _whole(query: exp.Query) -> exp.Expr:
    """The expression whose value a query makes: a scalar subquery, EXISTS or IN."""
    node: exp.Expr = query
    while isinstance(node.parent, exp.Subquery):
        node = node.parent
    if not isinstance(node.parent, exp.Exists | exp.In):
        return node
    node = node.parent
    # NOT IN is one question: what Spark makes of IN alone is false where that is NULL.
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return above if isinstance(above, exp.Not) and isinstance(node, exp.In) else node


def _is_of_one_row(node: exp.Expr) -> bool:
    """Whether what is asked for is of the row alone: neither OVER or an aggregate is, nor another query's answer."""
    value = node.find(exp.In) if isinstance(node, exp.Not | exp.In) else None
    return value is None or value.this.find(exp.AggFunc, exp.Window, exp.Query) is None


def _is_of_rows(node: exp.Expr, select: exp.Select, keys: set[str]) -> bool:
    """Whether an expression of a GROUP BY is computed for each row: inside an aggregate, or of a key."""
    # FILTER is of rows, too, and OVER of groups.
    return any(
        (isinstance(each, exp.AggFunc | exp.Filter) and not is_over(each)) or canonical(each) in keys
        for each in _around(node, select)
    )
