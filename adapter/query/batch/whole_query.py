"""Writes a model's whole query for batch, with the rows of the stream.

Batch is one micro-batch over all rows, with an empty state and no watermark. A query that stays within windows has the
operators of a stream, and where these read ``state``, batch reads the query that would write it. Any other query is plain
SQL over such queries, even if it can't be planned as a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...util.quoting import quote, time_name_text
from ..errors import QueryError
from ..frontend import mini_batch
from ..frontend.streams import RelationInfo
from ..normalize import model_text
from ..normalize.names import own_names
from ..plan.plain_batch_text import SliceWriter, in_plain_sql, plain_batch_text
from ..plan.plan import Plan
from ..plan.untimed_rows import DroppedRows
from ..plan.window_operator import WindowOperator
from ..planner.plan_query import plan, plan_windows
from ..program import Step
from ..sql import instants
from ..sql.functions import QueryRunner


def whole_input_text(
    text: str, ask: QueryRunner | None = None, known: Mapping[str, RelationInfo] | None = None
) -> str:
    """Returns the batch text for a view, `dbt show` or a test, which read the whole input. It breaks ties of rankings as in
    the model's table, and omits the rows and steps that a stream omits. Macros can't, since they know no keys.

    Raises:
        QueryError: nothing says which steps are omitted.
    """
    if model_text.leaves_out_steps(text):
        return batch_text(text, ask, known)
    return text_in_batch(text, ask, known) if model_text.reads_streams(text) else text


def batch_text(
    text: str, ask: QueryRunner | None = None, known: Mapping[str, RelationInfo] | None = None
) -> str:
    """Returns a model's text for batch. Its queries that stay within windows are planned as in a stream, so that they give
    the same rows (also for ties of a ranking) and compute each window from slices. Everything else stays plain SQL: batch
    supports queries that a stream doesn't."""
    mini_batch.check_hint(text)
    if not model_text.reads_streams(text):
        return text
    return within_windows(text, ask) or text_in_batch(text, ask, known, within_windows)


def batch_sql(plan: Plan) -> str:
    """Returns the text for batch of a stream's plan, as `batch_text` does of a model's text."""
    windows = plan.dataflow.windows
    return (
        plan.batch(within_windows)
        if windows is None
        else windows_batch_sql(plan, windows.windows, windows.sql)
    )


def within_windows(text: str, ask: QueryRunner | None = None) -> str | None:
    """Returns a query with its windows computed from slices; None if it doesn't stay within windows, or only passes on their
    rows."""
    try:
        found = plan_windows(text, batch=True, ask=ask)
    except QueryError:
        return None
    return batch_sql(found) if found.dataflow.window_specs else None


def windows_batch_sql(plan: Plan, windows: Sequence[WindowOperator], output: str) -> str:
    """Returns one SELECT over windows, which are computed as in a stream.

    Args:
        plan: plan whose streams and tables are read.
        windows: the windows, lower ones first.
        output: query over their results.
    """
    steps = _table_steps(plan)
    for each in windows:
        spec, window_steps = each.spec, each.window_steps()
        rows = window_steps.rows_sql(spec.rows, clock=False)
        steps.append(Step(f"{spec.name}_all_rows", rows))
        steps.append(
            Step(
                f"{spec.name}_rows",
                f"select * from {spec.name}_all_rows where {instants.usable_time_condition('event_time')}",
            )
        )
        steps += window_steps.batch_steps()
    return _query_with_steps(plan, steps, output)


def event_times_sql(plan: Plan) -> str | None:
    """Returns a SELECT with the event time of each window over streams, whose types are checked; None unless the query
    consists of windows only. (The times of cascading windows are generated.)"""
    windows = plan.dataflow.windows
    if windows is None or not windows.specs:
        return None
    steps = _table_steps(plan)
    columns = ", ".join(
        f"(select first(event_time) from (\n{_indent(spec.rows)}\n)) as {quote(time_name_text(spec.window.time_col))}"
        for spec in windows.specs
        if not spec.reads
    )
    return _query_with_steps(plan, steps, f"select {columns}")


def _query_with_steps(plan: Plan, steps: Iterable[Step], text: str) -> str:
    """Returns a query that reads steps, as one SELECT."""
    names = ",\n".join(f"{step.name} as (\n{_indent(step.sql)}\n)" for step in steps)
    return own_names.separate_names(f"with {names}\n{text}", plan.taken)


def text_in_batch(
    text: str,
    ask: QueryRunner | None = None,
    known: Mapping[str, RelationInfo] | None = None,
    from_slices: SliceWriter = in_plain_sql,
) -> str:
    """Returns the text for batch of a query that doesn't stay within windows, even if it can't be planned as a stream.

    Args:
        text: compiled text of a model.
        ask, known: see `plan`.
        from_slices: writes the queries in it that stay within windows.

    Raises:
        QueryError: as plain SQL it would return rows that a stream leaves out.
    """
    return plain_batch_text(text, ask, known or {}, _dropped_rows(text, ask, known or {}), from_slices)


def _dropped_rows(
    text: str, ask: QueryRunner | None, known: Mapping[str, RelationInfo]
) -> tuple[DroppedRows, ...]:
    """Returns the places where a stream of the text drops rows without an event time."""
    timed = {name.lower() for name, what in known.items() if what.event_time is not None}
    try:
        if not timed or timed.isdisjoint(name.lower() for name in model_text.stream_relations(text)):
            return ()
        return plan(text, known, ask=ask, may_grow=True).dropped
    except QueryError:
        return ()  # it can't be planned as a stream


def _table_steps(plan: Plan) -> list[Step]:
    """Returns the steps with all rows of streams and lookup tables, and with the watermark if an operator reads it."""
    read = {stream.view: stream.relation for stream in plan.streams}
    read |= {table.view: table.relation for table in plan.lookups}
    steps = [Step(view, f"select * from {relation}") for view, relation in read.items()]
    if plan.dataflow.filters_on_arrival:
        # As in a stream's first micro-batch, there is no watermark.
        steps.append(Step("clock", "select cast(null as timestamp) as now_before"))
    return steps


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())
