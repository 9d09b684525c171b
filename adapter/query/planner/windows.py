"""Plans windows: those that a query stays within (`within_windows`), and those over joined, grouped or ranked rows."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ..aggregates.model import WindowAggregateSpec
from ..errors import QueryError, UnintendedQueryError
from ..frontend import hints
from ..normalize import conditions, on_change
from ..normalize.names import ctes
from ..plan.operator import Operator, UnboundedState, input_name, ttl_of_stored_rows
from ..plan.operators.project import Project
from ..plan.operators.recompute import Recompute
from ..plan.operators.window_changes import WindowChanges
from ..plan.operators.window_results import WindowResults
from ..plan.operators.window_rows import WindowRows
from ..plan.relations.windowed import RowsInWindows
from ..plan.state import generations
from ..sql.dialect import canonical, parse_select
from ..sql.names import digest
from ..sql.nodes import every, quoted_column, shape
from ..windows import expansion
from ..windows.windows import Window
from .closing import count_late_rows, hold_back_open_windows
from .context import Planner
from .sources import plan_source

_OF_MACRO = exp.Select()
"""Used as the SELECT that a window macro prints. It isn't part of the author's text, and it drops rows without an event
time in batch, too, so batch needs no filter for them."""


def plan_window_results(planner: Planner, node: exp.Query) -> Operator | None:
    """Plans a query over windows that stays within each window as one operator. None if the query leaves its windows: then
    each window is planned on its own, and operators above compute the rest."""
    changes = planner.emission.may_update_results
    if _reads_updates_or_shared_ctes(planner, node):
        return None
    if changes and len(set(map(shape, hints.windows_under(node)))) > 1:
        return None
    found = planner.within.plan(node, planner.streams, keeps_rows=changes)
    if isinstance(found, QueryError):
        return None
    return _plan_changing_results(planner, node, found) if changes else _plan_results(planner, node, found)


def _reads_updates_or_shared_ctes(planner: Planner, node: exp.Query) -> bool:
    """Whether a query reads an updating stream, or a non-deterministic CTE that is read more than once."""
    return (
        any(
            hints.is_stream(table) and planner.streams.known(table.name).replaces
            for table in every(node, exp.Table)
        )
        or any(ctes.random_cte_identity(each) in planner.reread_ctes for each in every(node, exp.Subquery))
        or bool(ctes.random_ctes_read_twice(node))
    )


def _plan_results(planner: Planner, node: exp.Query, found: WindowResults) -> Operator:
    """Plans the results of windows that fire once; without windows, a query that works row by row."""
    label = ", ".join(dict.fromkeys(str(spec.window) for spec in found.specs)) or "windows"
    made = replace(found, label=label, is_repeatable=conditions.is_repeatable(node))
    if found.specs:
        return _add_results(planner, replace(made, name=f"windows_{digest(canonical(node))}"))
    holder = hints.windows_under(node)
    names = {t.name for each in holder for t in every(each, exp.Table) if hints.is_stream(t)}
    inputs = tuple(
        plan_source(planner, next(t for t in every(node, exp.Table) if t.name == name))
        for name in sorted(names)
    )
    return _add_results(planner, replace(made, name=f"rows_{digest(canonical(node))}", inputs=inputs))


def _add_results(planner: Planner, results: WindowResults) -> Operator:
    """Adds the inputs of a query over windows, and the query with the rewrites that it requests."""
    for each in results.inputs:
        planner.add(each)
    planner.ranks |= dict.fromkeys(results.ranks)
    return planner.add(replace(results, query=planner.rewrites.split_rankings_of_output(results.query)))


def _plan_changing_results(planner: Planner, node: exp.Query, found: WindowResults) -> Operator | None:
    """Plans the results of one window operator that may fire several times. None if there are several window operators, or
    the columns don't say which windows the rows are of."""
    carried = {what: column.lower() for column, what in reversed(list(found.column_origins.items()))}
    end, start = carried.get("window_end"), carried.get("window_start")
    if len(found.specs) != 1 or not found.closed or end is None:
        return None
    (spec,) = found.specs
    window, by = spec.window, []
    if isinstance(spec, WindowAggregateSpec):
        by = [(carried.get(f"{spec.name}.{name}"), name) for name in spec.session_keys]
        sets = spec.grouping_sets or ()
        if any(name not in members for members in sets for name in spec.session_keys):
            return None
    elif window.merges:
        if hints.window_of(node) is None or window.emit == "on_change":
            return None  # what sessions are partitioned by may be another column
        by = [(name, name) for name in window.partition_by]
    if window.merges and (start is None or len(by) < len(window.partition_by)):
        return None
    seen = tuple((column, name) for column, name in by if column is not None)
    if len(seen) < len(by):
        return None
    identity = digest(canonical(node), *(["as it comes"] if found.at_once else []))
    results = replace(found, name=f"windows_{identity}", label=str(window), closed=False)
    return planner.add(
        WindowChanges(
            name=f"changes_{identity}",
            inputs=(_add_results(planner, results),),
            end=end,
            start=start if window.merges else None,
            by=seen,
            label=str(window),
        )
    )


def plan_window_rows(planner: Planner, select: exp.Select, window: Window) -> Operator:
    """Plans windows over joined, grouped or ranked rows, or over an updating table: each row is assigned on
    arrival."""
    planner.streams.exclude_from_watermark(select)
    planner.under_windows += 1
    below = planner.visit(hints.window_input(select))
    planner.under_windows -= 1
    if below is None:
        raise QueryError(f"{window} is over a table that isn't a stream.")
    changes = planner.emission.may_update_results
    if changes and window.merges:
        raise UnintendedQueryError(
            f"{window} is over joined, grouped or ranked rows, and with early or late firing those rows change, and "
            "with them the bounds of its sessions; put it into a separate model, or leave first_result_offset and "
            "late_updates out."
        )
    if window.emit == "on_change":
        raise QueryError(on_change.ungrouped_message(window))
    if not changes:
        below = hold_back_open_windows(planner, below)
    text = f"select * from {expansion.expand_window(input_name(0), window)}"
    # Windows over other windows' results get no rows after their own state has expired. Others, such as
    # windows over a join, can: such a row isn't late in its stream.
    windowed = RowsInWindows(window, below.relation, changes)
    open_for = windowed.open_for
    if windowed.expires_in_time or open_for is not None:
        text = generations.rows_within_ttl(f"({text})", "own.window_end", open_for or 0)
    name = f"windows_{digest(below.name, window.hint())}"
    if window.merges:
        return _plan_recomputed_windows(planner, below, window, name=name, text=text)
    if open_for is not None:
        below = count_late_rows(planner, below, _OF_MACRO, "")
        name = f"windows_{digest(below.name, window.hint(), f'open for {open_for}')}"
    return planner.add(
        WindowRows(
            name=name, inputs=(below,), sql=text, label=str(window), window=window, fires_again=changes
        )
    )


def _plan_recomputed_windows(
    planner: Planner, below: Operator, window: Window, name: str, text: str
) -> Operator:
    """Plans windows whose bounds depend on other rows, which are recomputed per partition.

    Args:
        planner: planner of the tree.
        below: operator of the rows.
        window: the windows.
        name: name of the operator.
        text: SQL of the rows with their windows.

    Raises:
        QueryError: the rows aren't deterministic.
    """
    if not below.relation.repeatable and below.relation.changes:
        raise QueryError(f"{window} is over non-deterministic values; compute these in a separate model.")
    growth = None if below.relation.bounded else UnboundedState("every row", None)
    by = tuple(quoted_column(column, "own") for column in window.partition_by)
    made = Recompute(
        name=name,
        inputs=(below,),
        query=parse_select(text),
        keys=(by,),
        aliases=("own",),
        label=str(window),
        growth=growth,
        window=window,
    )
    made = replace(made, inputs=(_drop_expired_rows(planner, below, str(made.busy)),))
    return hold_back_open_windows(planner, planner.add(made))


def _drop_expired_rows(planner: Planner, operator: Operator, until: str) -> Operator:
    """Returns rows without those that expired more than one TTL ago."""
    ttl = ttl_of_stored_rows(operator, planner.ttl)
    if ttl is None:
        return operator
    text = generations.rows_within_ttl(input_name(0), until, ttl)
    return planner.add(
        Project(
            name=f"project_{digest(operator.name, text)}",
            inputs=(operator,),
            query=parse_select(text),
            label="rows that may still count",
        )
    )
