"""A ranking over a whole stream, taken apart: what it is within, its order, and whether places only get better."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from .. import hints, ranks
from ..aggregate_stage import RESERVED
from ..clauses import left_out, relations
from ..dialect import DIALECT, canonical, sql
from ..errors import QueryError
from ..locality import Source, output_columns
from ..names import Names
from ..plan import GroupStage, Key, KeyedStage
from ..tie_breaking import fields_of, listed
from ..windows import quote
from .groups import identity_columns

_HELPER = re.compile(r"__(?:by|order)_\d+")


def the_only(select: exp.Select, windows: Sequence[exp.Window]) -> tuple[str, exp.Window, int]:
    """The only ranking of a SELECT: its column, itself, and the last place that is asked for.

    Raises:
        QueryError: there is something else, or no end to it.
    """
    ranks.check(select)
    found = ranks.ranks(select)
    over = select.find_ancestor(exp.Select)
    ended = ranks.ended(select)
    if over is not None and isinstance(select.parent, exp.Subquery):
        ranks.check(over)
    others = [window for window in windows if window not in found.values()]
    if others:
        raise QueryError(
            f"'{hints.quoted(others[0])}' looks at other rows of a whole stream; put a window function such as tumble() "
            "around the stream, and PARTITION BY window_start, window_end."
        )
    if len(found) > 1:
        raise QueryError(
            f"{' and '.join(map(ranks.written, found.values()))} rank one stream in two ways; put each into a "
            "query of its own."
        )
    ((name, rank),) = found.items()
    if name not in ended:
        raise QueryError(ranks.refusal(rank, name, "all rows that ever come"))
    item = next(item for item in select.expressions if item.alias_or_name.lower() == name)
    return item.alias_or_name, rank, ended[name]


def taken_apart(
    select: exp.Select, name: str, rank: exp.Window, row: str
) -> tuple[list[Key], str, exp.Select]:
    """What a ranking is within, its order over the column of rows, and the SELECT of the rows."""
    rows = select.copy()
    rows.set("expressions", [item for item in rows.expressions if item.alias_or_name != name])
    names, order = Names(RESERVED), []
    keys = [Key(names.new(canonical(key)), sql(key)) for key in rank.args.get("partition_by") or ()]
    for number, key in enumerate(rank.args.get("partition_by") or ()):
        rows.append("expressions", exp.alias_(key.copy(), f"__by_{number}"))
    for number, each in enumerate(rank.args["order"].expressions):
        rows.append("expressions", exp.alias_(each.this.copy(), f"__order_{number}"))
        copy = each.copy()
        copy.set("this", exp.column(f"__order_{number}", table=row, quoted=True))
        order.append(sql(copy))
    for clause in ("order", "hint"):
        rows.set(clause, None)
    if isinstance(rank.this, exp.RowNumber) and (fields := fields_of(select)) is not None:
        name = f"__order_{len(order)}"
        rows.append("expressions", exp.alias_(f"STRUCT({', '.join(fields)})", name, dialect=DIALECT))
        order.append(f"{quote(row)}.`{name}`")
    elif isinstance(rank.this, exp.RowNumber):
        order.append(quote(row))
    return keys, ", ".join(order), rows


def is_helper(name: str) -> bool:
    """Whether a column of the rows is one that `taken_apart` adds."""
    return _HELPER.fullmatch(name) is not None


def group_keys(
    keys: Sequence[exp.Expr], sources: Sequence[Source], group: GroupStage | KeyedStage
) -> tuple[str, ...] | None:
    """The keys of a grouping that expressions are; None: one is none."""
    names = [carried(key, sources, group) for key in keys]
    found = tuple(name for name in names if name in identity_columns(group))
    return found if len(found) == len(names) else None


def carried(node: exp.Expr, sources: Sequence[Source], group: GroupStage | KeyedStage) -> str | None:
    """The column of a grouping that an expression is; None: something else."""
    if not isinstance(node, exp.Column) or node.is_star:
        return None
    found = output_columns(exp.Select(expressions=[node.copy()]), sources)
    name, _, column = next(iter(found.values()), "").partition(".")
    return column if name == group.name else None


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
    if below is None or star.args.get("replace") or star.args.get("rename"):
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
