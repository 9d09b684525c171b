"""Plans a SELECT by splitting it into steps that do one thing each."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints, select_numbers
from ..frontend.select_kind import is_grouped
from ..normalize import (
    asked_relations,
    conditions,
    event_clock,
    on_change,
    single_rows,
    split_joins,
    subqueries_below,
)
from ..normalize.rankings import ranks
from ..plan.operator import Operator, inputs_first
from ..plan.operators.project import Project
from ..plan.operators.source import Source
from ..plan.operators.union_all import UnionAll
from ..plan.operators.window_results import WindowResults
from ..plan.operators.window_rows import WindowRows
from ..sql.clauses import filters, over_clauses, relations, set_filters
from ..windows.window_columns import FromRelation as From
from . import temporal_joins
from .closing import closed_inputs, passes_window_end
from .context import Planner
from .from_items import FromItem, filter_relation
from .groups import plan_group, plan_over_groups
from .inputs import relations_in_from
from .joins import plan_join
from .over import plan_over
from .projections import plan_projection, plan_temporal_filter
from .row_level import why_repeated_rows
from .set_operations import plan_distinct
from .temporal_joins import plan_temporal_join


def plan_select(planner: Planner, select: exp.Select) -> Operator:
    """Plans a SELECT: each call turns one step into an operator, or into a query below.

    Raises:
        QueryError: it isn't supported over streams.
    """
    ranks.check_rankings(select)
    if planner.ttl is None:
        # With a TTL the counts might expire before the rows that use them.
        for query in conditions.inner_queries(select):
            asked_relations.rewrite_exists_as_count(query)
    single_rows.join_single_rows(select)
    if is_grouped(select) and on_change.drop_unchanged_steps_in_group(select):
        return planner.query(select)
    for clause in ("cluster", "distribute", "sort", "order", "hint"):
        select.set(clause, None)
    if select.args.get("distinct"):
        return plan_distinct(planner, select)
    read = relations_in_from(planner, select)
    inner = conditions.inner_queries(select)
    streams = [each for each in read if each.operator is not None]
    over = over_clauses(select)
    grouped = is_grouped(select)
    if tests := event_clock.watermark_conditions(select):
        by_row = len(streams) == 1 and not (inner or over or grouped)
        if (over or grouped) and len(read) > 1 and not inner:
            return _plan_over_join(planner, select)
        if not by_row or not passes_window_end(select, streams[0]):
            return planner.select(_move_clock_predicates_below(select, read, tests))
        if not any(map(hints.is_replacement, tests[0].walk())):
            return plan_temporal_filter(planner, select, tests[0])
        _check_clock_predicate(tests[0], streams[0])
    kinds = [From(e.alias, e.node, "rows" if e.changes else "static", {}, e.join) for e in read]
    if (problem := why_repeated_rows(kinds)) is not None:
        raise problem
    of_windows = next(hints.windows_under(select), None) is not None
    if grouped and not (inner or of_windows) and (asked := subqueries_below.row_level_table_queries(select)):
        if subqueries_below.move_queries_below(select, asked):
            return _plan_over_moved(planner, select)
    if grouped or over:
        if len(read) > 1 or inner or (grouped and select.args.get("laterals")):
            if asked := conditions.inner_queries(select, ("expressions", "having", "group")):
                # Subqueries over static tables too have columns that aren't the row's.
                if subqueries_below.move_queries_below(
                    select, subqueries_below.queries_in_clauses(select) if grouped else asked
                ):
                    return _plan_over_moved(planner, select)
                if over or conditions.inner_queries(select, ("group",)):
                    raise QueryError(
                        "A subquery over a stream can't be in a GROUP BY, or in a SELECT with OVER or LIMIT; join it in a "
                        "subquery in FROM instead, and group, rank or limit the rows of that."
                    )
                return plan_over_groups(planner, select)
            return _plan_over_join(planner, select)
        if grouped:
            return plan_group(planner, select, read[0])
        return plan_over(planner, select, *closed_inputs(planner, select, read, False))
    if (place := temporal_joins.index_of_versions(read)) is not None:
        return plan_temporal_join(planner, select, closed_inputs(planner, select, read, False), place, inner)
    if len(streams) == 1 and not inner:
        return plan_projection(planner, select, closed_inputs(planner, select, read, True))
    return plan_join(planner, select, closed_inputs(planner, select, read, False), inner)


def _plan_over_join(planner: Planner, select: exp.Select) -> Operator:
    """Plans a SELECT with its join moved to a query below. Changes the tree."""
    split_joins.move_join_below(select)
    return _plan_over_moved(planner, select)


def _plan_over_moved(planner: Planner, select: exp.Select) -> Operator:
    """Plans a SELECT whose join was moved to a query below, which gets its number, so that the rows that it drops are
    found in the author's text. Changes the tree."""
    (below,) = relations(select)
    select_numbers.copy_number(below.this, select)
    return planner.select(select)


def _move_clock_predicates_below(
    select: exp.Select, read: Sequence[FromItem], tests: Sequence[exp.Expr]
) -> exp.Select:
    """Moves predicates on the current time into queries in FROM, over the streams whose rows they filter.
    Changes the tree and returns it."""
    streams = [each for each in read if each.operator is not None]
    preserved = not any((each.join is not None and each.join.side in ("RIGHT", "FULL")) for each in read)
    by_source: dict[str, list[exp.Expr]] = {}
    for test in tests:
        column = event_clock.compared_column(test)
        found = [
            each
            for each in (read if column.table else streams)
            if column.table.lower() in ("", each.alias.lower())
        ]
        inner = found[0].join is None or conditions.is_inner_join(found[0].join) if found else False
        if len(found) != 1 or found[0].operator is None or not inner or not preserved:
            raise QueryError(
                f"'{event_clock.written_condition(test)}' is next to a join, and rows are filtered by the current time "
                "before they are joined; write it in a query in FROM, over the stream alone."
            )
        by_source.setdefault(found[0].alias, []).append(test)
    rest = [test for test in filters(select) if test not in tests]
    for each in streams:
        if own := by_source.get(each.alias):
            filter_relation(each.node, each.alias, own)
    set_filters(select, rest)
    return select


def _check_clock_predicate(test: exp.Expr, source: FromItem) -> None:
    """Raises unless a predicate on the current time applies to rows as they arrive.

    Raises:
        QueryError: rows may be retracted, or arrive later than the stream's.
    """
    operator = source.stream_operator
    if operator.relation.changes:
        raise QueryError(
            f"'{event_clock.written_condition(test)}' over an updating input: in a query with windows, a row is filtered "
            "when it arrives, and its retraction might be filtered differently; write it over the stream itself, below the "
            "windowing table function."
        )
    for each in inputs_first(operator):
        at_once = isinstance(each, Source | Project | UnionAll | WindowRows)
        if not (at_once or (isinstance(each, WindowResults) and not each.specs)):
            raise event_clock.buffered_rows_filter_error(test)
