"""Whether places in a ranking over groups only get better as rows come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ..aggregates.model import GroupStage
from ..sql.clauses import left_out, passes_columns, relations
from ..sql.tie_breaking import listed
from .operators.group_state import identity_columns


def only_improves(
    select: exp.Select,
    function: exp.Expr,
    order: Sequence[exp.Expr],
    group: GroupStage,
    carries: Callable[[exp.Expr], str | None],
    of_star: Sequence[str] | None,
) -> bool:
    """Whether a group's place in its ranking can only get better through its own rows, where it stays in that ranking.

    Args:
        select: with the ranking.
        function: that ranks.
        order: by what, without what breaks ties.
        group: the groups, to which rows are only added.
        carries: says which column of the groups an expression is; None: something else.
        of_star: the columns of what the SELECT reads, in their order; None: that isn't known.
    """
    if isinstance(function, exp.DenseRank) or not all(
        _improves(each, carries(each.this), group) for each in order
    ):
        return False
    if not isinstance(function, exp.RowNumber):
        return True  # who is equal shares a place
    # Equal rows are told apart by the select list. What comes in it before the group's keys may change and leave the
    # place that is ordered by as it is.
    keys = frozenset(identity_columns(group))
    seen = {carries(each.this) for each in order}
    for item in listed(select):
        columns: Sequence[exp.Expr] = [item.unalias()]
        if item.is_star:
            columns = [exp.column(name, quoted=True) for name in _of_star(item, of_star) or ("",)]
        for column in columns:
            if keys <= seen:
                return True
            if (what := carries(column)) not in keys:
                return False
            seen.add(what)
    return keys <= seen


def listed_names(query: exp.Expr) -> list[str] | None:
    """The columns of a query or relation in their order; None: that isn't known."""
    if isinstance(query, exp.Subquery):
        return listed_names(query.this)
    if not isinstance(query, exp.Select):
        return None
    found: list[str] = []
    for item in query.expressions:
        if item.is_star:
            nodes = relations(query)
            of_star = _of_star(item, listed_names(nodes[0]) if len(nodes) == 1 else None)
            if of_star is None:
                return None
            found += of_star
        else:
            found.append(item.alias_or_name)
    return found


def _of_star(item: exp.Expr, below: Sequence[str] | None) -> list[str] | None:
    """The columns that a '*' stands for, of those below it; None: that isn't known."""
    star = item if isinstance(item, exp.Star) else item.this
    if below is None or not passes_columns(star):
        return None
    hidden = left_out(star)
    return [name for name in below if name.lower() not in hidden]


def _improves(ordered: exp.Expr, what: str | None, group: GroupStage) -> bool:
    """Whether a group only moves up in this order, or not at all, as its rows come in."""
    if what in identity_columns(group):
        return True
    metric = next((metric for metric in group.metrics if metric.name == what), None)
    if metric is None:
        return False
    down = bool(ordered.args.get("desc"))
    counts = metric.function in ("count", "count_if")
    # A value in the place of NULL must not come later than NULL did.
    grows = counts or (metric.function in ("max", "bool_or") and not ordered.args.get("nulls_first"))
    shrinks = metric.function in ("min", "bool_and") and not ordered.args.get("nulls_first")
    return (down and grows) or (not down and shrinks)
