"""Puts the queries that stand in a GROUP BY's keys, in an aggregate's argument or beside OVER into a query below, as columns
of its rows.

>>> from ..dialect import parse, sql
>>> tree = parse("select k, sum(v - (select avg(w) from t)) as s, max(v) > (select 1) as m from r group by k")
>>> put(tree, list(tree.find_all(exp.Query))[1:])
True
>>> print(sql(tree))
SELECT `k` AS `k`, SUM(`v` - `__asked_0`) AS s, MAX(`v`) > (SELECT 1) AS m FROM (SELECT k AS `k`, v AS `v`, \
(SELECT AVG(w) FROM t) AS `__asked_0` FROM r) AS joined GROUP BY `k`
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ..clauses import is_over
from ..dialect import canonical, from_clause
from ..grouping import grouping
from ..unwindowed import joins
from ..unwindowed.select_kind import is_grouped

_NAME = "__asked_{}"


def put(select: exp.Select, inner: Sequence[exp.Query]) -> bool:
    """Puts queries below, those of them that are asked for each row. Changes the tree.

    Args:
        select: it groups, or has OVER.
        inner: queries in its expressions.

    Returns:
        Whether there was any.
    """
    keys = {canonical(key) for key in grouping(select).keys}
    grouped = is_grouped(select)
    names: dict[str, str] = {}
    asked: dict[str, exp.Expr] = {}
    for query in inner:
        node = _whole(query)
        if not grouped or _is_of_rows(node, select, keys):
            name = names.setdefault(canonical(node), _NAME.format(len(names)))
            asked[name] = node.copy()
            node.replace(exp.column(name, quoted=True))
    if not asked:
        return False
    joins.split(select)
    source = from_clause(select)
    assert source is not None
    for item in source.this.this.expressions:
        column = item.unalias()
        if isinstance(column, exp.Column) and column.name in asked:
            column.replace(asked[column.name])
    return True


def _whole(query: exp.Query) -> exp.Expr:
    """The expression whose value a query makes: a scalar subquery, EXISTS or IN."""
    node: exp.Expr = query
    while isinstance(node.parent, exp.Subquery):
        node = node.parent
    return node.parent if isinstance(node.parent, exp.Exists | exp.In) else node


def _is_of_rows(node: exp.Expr, select: exp.Select, keys: set[str]) -> bool:
    """Whether an expression of a GROUP BY is computed for each row: inside an aggregate, or of a key."""
    above: exp.Expr | None = node
    while above is not None and above is not select:
        # FILTER is of rows, too, and OVER of groups.
        if isinstance(above, exp.AggFunc | exp.Filter) and not is_over(above):
            return True
        if canonical(above) in keys:
            return True
        above = above.parent
    return False
