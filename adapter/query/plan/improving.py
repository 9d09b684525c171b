"""Decides whether ranks of groups only get better as rows arrive (updatable Top-N)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ..aggregates.model import GroupAggregateSpec
from ..sql.clauses import columns_left_out, passes_columns, relations
from ..sql.tie_breaking import items_without_over
from .state.group_state import identity_columns


def is_monotonic(
    select: exp.Select,
    function: exp.Expr,
    order: Sequence[exp.Expr],
    group: GroupAggregateSpec,
    group_column: Callable[[exp.Expr], str | None],
    star_columns: Sequence[str] | None,
) -> bool:
    """Whether a group's rank in its ranking can only get better when rows are added to the group, as long as
    it stays in that ranking.

    Args:
        select: SELECT with the ranking, over the groups.
        function: the ranking's function.
        order: order keys, without those that only break ties.
        group: the groups; their input is append-only.
        group_column: returns the column of the groups that an expression is; None if it is something else.
        star_columns: columns of the SELECT's input, in order; None if unknown.
    """
    if isinstance(function, exp.DenseRank) or not all(
        _only_moves_up(each, group_column(each.this), group) for each in order
    ):
        return False
    if not isinstance(function, exp.RowNumber):
        return True  # equal groups share a rank
    # Ties are broken by the select list in order: an item before the group's keys may change, and with it the rank.
    keys = frozenset(identity_columns(group))
    seen = {group_column(each.this) for each in order}
    for item in items_without_over(select):
        columns: Sequence[exp.Expr] = [item.unalias()]
        if item.is_star:
            columns = [exp.column(name, quoted=True) for name in _star_columns(item, star_columns) or ("",)]
        for column in columns:
            if keys <= seen:
                return True
            if (origin := group_column(column)) not in keys:
                return False
            seen.add(origin)
    return keys <= seen


def listed_names(query: exp.Expr) -> list[str] | None:
    """Returns the names of the columns of a query or relation, in order; None if unknown."""
    if isinstance(query, exp.Subquery):
        return listed_names(query.this)
    if not isinstance(query, exp.Select):
        return None
    found: list[str] = []
    for item in query.expressions:
        if item.is_star:
            nodes = relations(query)
            expanded = _star_columns(item, listed_names(nodes[0]) if len(nodes) == 1 else None)
            if expanded is None:
                return None
            found += expanded
        else:
            found.append(item.alias_or_name)
    return found


def _star_columns(item: exp.Expr, below: Sequence[str] | None) -> list[str] | None:
    """Returns the columns that a '*' expands to, given the columns below it; None if unknown."""
    star = item if isinstance(item, exp.Star) else item.this
    if below is None or not passes_columns(star):
        return None
    hidden = columns_left_out(star)
    return [name for name in below if name.lower() not in hidden]


def _only_moves_up(ordered: exp.Expr, column: str | None, group: GroupAggregateSpec) -> bool:
    """Whether added rows never move a group down in its ranking. `column` is the order key; None if that is no column of the
    groups."""
    if column in identity_columns(group):
        return True
    metric = next((metric for metric in group.metrics if metric.name == column), None)
    if metric is None:
        return False
    is_descending = bool(ordered.args.get("desc"))
    counts = metric.function in ("count", "count_if")
    # A value that replaces NULL must not sort after NULL.
    grows = counts or (metric.function in ("max", "bool_or") and not ordered.args.get("nulls_first"))
    shrinks = metric.function in ("min", "bool_and") and not ordered.args.get("nulls_first")
    return (is_descending and grows) or (not is_descending and shrinks)
