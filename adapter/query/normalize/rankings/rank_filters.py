"""Pushes a filter on a rank down to the ranking, through plain queries and join conditions.

>>> from ...sql.dialect import parse, sql
>>> ranked = "select k, row_number() over (order by v) as rn from (select /*+ STREAM */ * from t)"
>>> print(sql(push_down_bounds(parse(f"select k from (select k, rn as place from ({ranked})) where place < 3 and k > 1"))))
SELECT k FROM (SELECT k, rn AS place FROM (SELECT * FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY v) AS rn \
FROM (SELECT /*+ STREAM */ * FROM t)) WHERE `rn` <= 2)) WHERE place < 3 AND k > 1
>>> print(sql(push_down_bounds(parse(f"select u.k from u left join ({ranked}) as r on r.k = u.k and r.rn = 1"))))
SELECT u.k FROM u LEFT JOIN (SELECT * FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY v) AS rn \
FROM (SELECT /*+ STREAM */ * FROM t)) WHERE `rn` = 1) AS r ON r.k = u.k AND r.rn = 1

A filter over a set operation is pushed into both sides. Without a filter, aggregates above the ranking bound it if they
ignore all other ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from ...frontend import hints
from ...sql.clauses import column_names, conjuncts, filters, relations, relations_with_joins
from ...sql.nodes import every
from . import ranks
from .rank_aggregates import greatest_ranks_read
from .rank_bounds import bounds_of_condition

_CHANGES_ROWS = ("group", "having", "distinct", "limit", "offset", "qualify", "pivots")


@dataclass(frozen=True)
class _RankBound:
    """An upper bound of a rank column."""

    column: str
    last: int
    is_only_rank: bool
    """Whether only rank `last` is selected."""


def push_down_bounds(tree: exp.Query) -> exp.Query:
    """Pushes upper bounds of ranks down to rankings that aren't bounded by the query directly above. Changes the
    tree."""
    for select in list(every(tree, exp.Select)):
        for name, last in greatest_ranks_read(select).items():
            _push_down(relations(select)[0], _RankBound(name, last, False), at_top=True)
        several = len(relations(select)) > 1
        for node, join in relations_with_joins(select):
            alias = node.alias_or_name.lower()
            for test in filters(select):
                for bound in _bounds_in(test, alias, several):
                    _push_down(node, bound, at_top=False)
            # A join condition doesn't filter the preserved side.
            if join is not None and (join.side or "").upper() in ("", "LEFT"):
                for test in conjuncts(join.args.get("on")):
                    for bound in _bounds_in(test, alias, True):
                        _push_down(node, bound, at_top=True)
    return tree


def _bounds_in(test: exp.Expr, alias: str, several: bool) -> Iterator[_RankBound]:
    """Yields a condition's bounds on a relation's columns. If FROM has several relations, only qualified columns count."""
    for (table, name), places in bounds_of_condition(test).items():
        if places.last is not None and (table == alias or not (table or several)):
            is_only_rank = isinstance(test, exp.EQ | exp.NullSafeEQ) and places.first == places.last
            yield _RankBound(name, places.last, is_only_rank)


def _push_down(relation: exp.Expr, bound: _RankBound, at_top: bool) -> None:
    """Puts a filter by the bound around the ranking that computes a relation's column.

    Args:
        at_top: whether the filter is also added if the relation itself is that ranking.
    """
    if (
        isinstance(relation, exp.Subquery)
        and not relation.args.get("pivots")
        and not relation.alias_column_names
    ):
        _push_into(relation.unnest(), bound, at_top)


def _push_into(query: exp.Expr, bound: _RankBound, at_top: bool) -> None:
    """Adds the filter to the query of a relation; bound and `at_top` are as in `_push_down`."""
    if isinstance(query, exp.SetOperation):
        _push_into_branches(query, bound)
        return
    if not isinstance(query, exp.Select):
        return
    rank = ranks.rankings(query).get(bound.column)
    if rank is not None:
        if (
            at_top
            and bound.column not in ranks.greatest_ranks_in_outer_select(query)
            and not _is_within_windows(query, rank)
        ):
            _filter_ranking(query, bound)
        return
    combines_rows = any(item.find(exp.AggFunc, exp.Window) for item in query.expressions)
    if combines_rows or any(query.args.get(clause) for clause in _CHANGES_ROWS):
        return
    read = relations(query)
    for item in query.expressions:
        made = item.unalias()
        if item.is_star:
            if len(query.expressions) == len(read) == 1 and isinstance(item, exp.Star):
                _push_down(read[0], bound, at_top=True)
            return
        if item.alias_or_name.lower() == bound.column and isinstance(made, exp.Column):
            for node in read:
                is_own = made.table.lower() == node.alias_or_name.lower()
                if is_own or (not made.table and len(read) == 1):
                    _push_down(
                        node, _RankBound(made.name.lower(), bound.last, bound.is_only_rank), at_top=True
                    )
            return


def _push_into_branches(query: exp.SetOperation, bound: _RankBound) -> None:
    """Adds the filter to both sides of a set operation: a row is compared with rows of equal ranks."""
    if any(query.args.get(clause) for clause in ("limit", "offset", "by_name", "on")):
        return
    left, right = (column_names(side.unnest()) for side in (query.this, query.expression))
    if left is None or right is None or len(left) != len(right) or left.count(bound.column) != 1:
        return
    for side, names in ((query.this, left), (query.expression, right)):
        column = names[left.index(bound.column)]
        if names.count(column) == 1:
            _push_into(side.unnest(), _RankBound(column, bound.last, bound.is_only_rank), at_top=True)


def _is_within_windows(query: exp.Select, rank: exp.Window) -> bool:
    """Whether a ranking is partitioned by its window, so it ends with the window."""
    within = {key.name.lower() for key in rank.args.get("partition_by") or ()}
    return bool(within & {"window_start", "window_end"}) and any(hints.windows_under(query))


def _filter_ranking(query: exp.Select, bound: _RankBound) -> None:
    if not any(hints.is_marked_as_stream(each) or hints.window_of(each) for each in every(query, exp.Select)):
        return  # batch relations aren't ranked incrementally
    column, last = exp.column(bound.column, quoted=True), exp.Literal.number(bound.last)
    kind = exp.EQ if bound.is_only_rank else exp.LTE
    query.replace(ranks.filtered_ranking(query.copy(), [kind(this=column, expression=last)]))
