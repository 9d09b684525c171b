"""Checks whether a SELECT over results of windows stays within one window, and says why if it doesn't.

Such a query groups, ranks and joins by ``window_end``, so it can be evaluated on the windows that have just
closed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ..aggregates.aggregate_builder import WINDOW_END, WINDOW_START
from ..aggregates.grouping import grouping
from ..errors import NotWithinWindows, QueryError
from ..sql.clauses import columns_left_out, conjuncts, first_aggregate
from ..sql.dialect import arguments, sql
from ..sql.nodes import every
from ..windows.window_columns import Columns, FromRelation, is_in_each_row, window_column
from ..windows.windows import Window
from .row_level import why_repeated_rows


def window_key(node: exp.Expr, sources: Sequence[FromRelation]) -> str | None:
    """Returns the window column that an expression equals in each row; None if there is none, or if it may be
    NULL."""
    # After an outer join, one of several columns that are coalesced has a value, as with those that USING merges.
    parts = arguments(node) if isinstance(node, exp.Coalesce) else [node]
    kinds = {window_column(part, sources) for part in parts}
    places = {
        place for place, source in enumerate(sources) if any(window_column(part, [source]) for part in parts)
    }
    is_there = is_in_each_row(places, [source.join for source in sources])
    return kinds.pop() if len(kinds) == 1 and is_there else None


def output_window_columns(select: exp.Select, sources: Sequence[FromRelation]) -> dict[str, str]:
    """Returns the window columns that a SELECT passes on.

    >>> from ..sql.dialect import parse
    >>> select = parse("select w.window_end as at, w.n from windows as w")
    >>> output_window_columns(select, [FromRelation("w", select, "", {"window_end": "window_end"})])
    {'at': 'window_end'}
    """
    found: dict[str, str] = {}
    joins = [source.join for source in sources]
    there = [source for place, source in enumerate(sources) if is_in_each_row({place}, joins)]
    for item in select.expressions:
        column = item.unalias()
        if isinstance(column, exp.Star):
            for source in there:
                found.update(_star_columns(column, source.window_columns))
        elif isinstance(column, exp.Column) and isinstance(column.this, exp.Star):
            for source in there:
                if source.alias.lower() == column.table.lower():
                    found.update(_star_columns(column.this, source.window_columns))
        elif kind := window_key(column, sources):
            found[item.alias_or_name.lower()] = kind
    return found


def _star_columns(star: exp.Expr, columns: Columns) -> dict[str, str]:
    """Returns the columns that a star passes on unchanged."""
    others = columns_left_out(star)
    return {name: what for name, what in columns.items() if name.lower() not in others}


def why_not_local(select: exp.Select, sources: Sequence[FromRelation], outputs: Columns) -> QueryError | None:
    """Returns the error about the first clause of a SELECT that doesn't stay within one window, which says how to change
    it; None if all do.

    Args:
        select: a SELECT over results of windows.
        sources: its relations.
        outputs: the result of `output_window_columns`.
    """
    problem = why_repeated_rows(sources) or _why_ranks_not_local(select, sources)
    if problem is not None:
        return problem
    if limit := select.args.get("limit") or select.args.get("fetch") or select.args.get("offset"):
        return QueryError(
            f"'{sql(limit).strip()}' cuts off rows across windows; to keep the first rows of each window, filter on "
            "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY …)."
        )
    group = select.args.get("group")
    if group and not _groups_by_window(select, sources):
        return NotWithinWindows(
            f"'{sql(group).strip()}' groups rows of different windows together; add window_start, window_end to it as they "
            "are, and to each of its grouping sets."
        )
    if not group and (select.args.get("having") or first_aggregate(select) is not None):
        return QueryError(
            "An aggregate over window results without GROUP BY mixes windows; add GROUP BY window_start, window_end."
        )
    if select.args.get("distinct") and "window_end" not in outputs.values():
        return QueryError(
            "SELECT DISTINCT over window results mixes windows; put window_end into the select list."
        )
    for place, source in enumerate(sources):
        before = [other for other in sources[:place] if other.kind == "result"]
        if before and source.kind == "result" and not _joins_by_window(source, before):
            return QueryError(
                f"The join with '{source.alias}' compares rows of different windows; add "
                "ON a.window_start = b.window_start AND a.window_end = b.window_end."
            )
    return None


def why_not_grouped_by_window(
    select: exp.Select, sources: Sequence[FromRelation], window: Window
) -> QueryError | None:
    """Returns the error about a GROUP BY over rows of a windowing table function that lacks a bound of the window, or has
    one in some grouping sets only; None if each group is in one window."""
    found = grouping(select)
    kinds = [window_column(key, sources) for key in found.keys]
    for needed in (WINDOW_START, WINDOW_END):
        if needed not in kinds:
            return QueryError(
                f"GROUP BY over {window.kind}() needs window_start and window_end among its keys; "
                f"{needed} is not there."
            )
    for place, kind in enumerate(kinds):
        if kind and not all(place in members for members in found.sets or ()):
            return QueryError(
                f"{kind} is inside GROUPING SETS, ROLLUP or CUBE; put it before them: "
                "GROUP BY window_start, window_end, GROUPING SETS (…)."
            )
    return None


def _groups_by_window(select: exp.Select, sources: Sequence[FromRelation]) -> bool:
    """Whether each group of a GROUP BY, in each grouping set, belongs to one window. An expression computed
    from the window's end doesn't count, since it may be equal for several windows."""
    found = grouping(select)
    ends = {place for place, key in enumerate(found.keys) if window_key(key, sources) == "window_end"}
    return bool(ends) if found.sets is None else all(ends & {*keys} for keys in found.sets)


def _why_ranks_not_local(select: exp.Select, sources: Sequence[FromRelation]) -> QueryError | None:
    """Returns the error about the first OVER clause of a SELECT without PARTITION BY ``window_end``; None if all have it."""
    for window in (each for item in select.expressions for each in every(item, exp.Window)):
        keys = window.args.get("partition_by") or ()
        if all(window_key(key, sources) != "window_end" for key in keys):
            return NotWithinWindows(
                f"'{sql(window)}' ranks rows of different windows together; write PARTITION BY "
                "window_start, window_end, ….",
            )
    return None


def _joins_by_window(source: FromRelation, before: Sequence[FromRelation]) -> bool:
    """Whether a result's join with the results before it stays within one window."""
    join = source.join
    assert join is not None
    for column in join.args.get("using") or ():
        name = exp.column(column.name)
        if window_column(name, [source]) == window_column(name, before) == "window_end":
            return True
    for test in conjuncts(join.args.get("on")):
        if isinstance(test, exp.EQ | exp.NullSafeEQ):
            left, right = test.this, test.expression
            for own, other in ((left, right), (right, left)):
                if window_column(own, [source]) == window_column(other, before) == "window_end":
                    return True
    return False
