"""Generates the part of a program that writes the model's table: a `Program` with the fields that the result decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ...util.quoting import quote
from ..plan import lookup_keys
from ..plan.dataflow import Dataflow
from ..plan.operators.top_n import TopN
from ..plan.operators.window_results import WindowResults
from ..plan.relation import WEIGHT
from ..plan.state.buffered_rows import ROW, TIMES, packed_change, packed_rows, present_rows, repeated_rows
from ..plan.upsert_keys import upsert_of_windows
from ..plan.upserts import ResultOperator, result_operator
from ..program import (
    EVERYTHING,
    STEP,
    TABLE_BEFORE,
    Program,
    StatePart,
    Step,
    TargetCondition,
    Upsert,
    clock_sql,
    limit_reads,
)
from .generator import Generator

RESULT = "result_change"
"""Step with the changes of the result."""
OUTPUT, OUTPUT_ROW, OUTPUT_TIMES = "output", "output_row", "output_times"
"""State table with the output of a micro-batch, and its columns."""


def can_be_rebuilt(flow: Dataflow) -> bool:
    """Whether the whole table can be rebuilt: it is an updating table, and if rows are upserted, they have a key."""
    found = result_operator(flow)
    return flow.root.relation.changes and (found is None or found.key is not None)


def compares_whole_table(found: ResultOperator | None) -> bool:
    """Whether a rebuild is compared with all rows of the table, which may have several rows per key from before an edit to a
    Top-1."""
    return found is not None and isinstance(found.operator, TopN) and found.operator.top.rows == 1


def stored_result(flow: Dataflow) -> Program:
    """Returns the changes of the result, computed before the commit, which stores a copy of them."""
    changes = flow.root.relation.changes
    weight = f", {WEIGHT} as {OUTPUT_TIMES}" if changes else ""
    out = f"struct(* except ({WEIGHT}))" if changes else "struct(*)"
    emitted = StatePart(
        OUTPUT,
        f"select {clock_sql(STEP)} as {STEP}, {out} as {OUTPUT_ROW}{weight} from {RESULT}",
        # Only the last micro-batch's rows may have to be emitted again, and only until it is over.
        f"select * except (part) from state where part = '{OUTPUT}' and false",
        closes=None,
        reads=(OUTPUT,),
    )
    # A row may be retracted by one operator and inserted by another.
    packed = packed_change(flow.root)
    net = f"select {ROW}.*, sum({TIMES}) as {WEIGHT} from (\n{packed}\n) group by {ROW} having sum({TIMES}) <> 0"
    listed = f"{OUTPUT_ROW}.*{f', {OUTPUT_TIMES} as {WEIGHT}' if weight else ''}"
    from_state = Step(
        RESULT,
        f"select {listed} from state where part = '{OUTPUT}' and {STEP} = {clock_sql(STEP)}",
        persist=True,
        reads=(OUTPUT,),
    )
    output, upsert = _result_and_upsert(flow)
    change = Step(RESULT, net if changes else f"select * from {flow.root.name}", persist=True)
    return Program(
        (), (change, emitted), output, None, upsert=upsert, output_steps=(from_state,), skip_if_empty=RESULT
    )


def _result_and_upsert(flow: Dataflow) -> tuple[str, Upsert | None]:
    """Returns the query for the inserted rows of `RESULT`, and how they replace rows of the table."""
    if not flow.root.relation.changes:
        return f"select * from {RESULT}", None
    if flow.key is None:
        # Nothing identifies a row: the new table is the table plus the changes.
        before = f"select struct(*) as {ROW}, 1L as {TIMES} from {TABLE_BEFORE}"
        rows = f"{before}\nunion all\n{packed_rows(RESULT, True)}"
        return repeated_rows(present_rows(rows, True), True), Upsert(
            None, f"select true as anything from {RESULT}", (), None, change=RESULT
        )
    keys = [quote(name) for name in flow.key]
    listed = ", ".join(keys) or "true as anything"
    target_filter = tuple(TargetCondition(name, "<=>", quote(name)) for name in flow.key)
    return _inserted_rows(), Upsert(
        flow.key, f"select {listed} from {RESULT}", target_filter, None, key_is_unique=not keys
    )


def _inserted_rows() -> str:
    """Returns the query for the inserted rows of `RESULT`."""
    return repeated_rows(
        f"select {ROW}, {TIMES} from (\n{packed_rows(RESULT, True)}\n) where {TIMES} > 0", True
    )


def result_of_operator(made: Generator) -> Program:
    """Returns the result of the affected groups, read from the state after the commit."""
    root, steps = made.result_operator, made.result_steps
    assert root is not None and steps is not None
    return Program(
        (),
        (),
        root.output_sql(steps.rows),
        None,
        upsert=root.upsert(steps.touched, steps.columns),
        output_steps=limit_reads(
            steps.steps, [made.parts[part] for part in made.parts_of[root.operator.name]]
        ),
        lookups=root.lookups(steps.rows, made.tables),
        skip_if_empty=steps.steps[-1].name,
    )


def windows_result(made: Generator, root: WindowResults, emitted: Iterable[Step], replaces: bool) -> Program:
    """Returns the result of windows, read from the state after the commit."""
    boundaries = [each.trigger.boundaries for each in made.window_steps]
    upsert = upsert_of_windows(root, made.window_steps, made.emission) if replaces else None
    if upsert is not None:
        upsert = replace(
            upsert,
            column_origins={
                name: _origin_in_state(made, what) for name, what in upsert.column_origins.items()
            },
        )
    return Program(
        (),
        (),
        root.sql,
        None if None in boundaries else tuple(at for each in boundaries for at in each or ()),
        upsert=upsert,
        # Materialized, since the plan for the output depends on how many windows close.
        output_steps=tuple(replace(step, sees_changes=False, materialize=step.persist) for step in emitted),
        lookups=lookup_keys.required_lookups([root.query], made.tables),
    )


def _origin_in_state(made: Generator, origin: str) -> str:
    """Returns an origin of `Upsert.column_origins` with the name that the state has for its window operator."""
    operator, dot, key = origin.partition(".")
    return f"{made.name_in_state(operator)}{dot}{key}"


def result_program(
    made: Generator, emitted: Iterable[Step], replaces: bool, replayed: Collection[str] | None
) -> Program:
    """Returns how a dataflow's result is written.

    Args:
        made: the dataflow's steps and state.
        emitted: steps with the results of windows.
        replaces: whether results of windows replace those of the same key.
        replayed: names of groups and rankings that are read from the state as if they were new; None if none is.
    """
    if made.flow.windows is not None:
        return windows_result(made, made.flow.windows, emitted, replaces)
    result = stored_result(made.flow) if made.result_operator is None else result_of_operator(made)
    if result.upsert is None or replayed is None:
        return result
    if result.upsert.key and not compares_whole_table(made.result_operator):
        return replace(
            result, upsert=replace(result.upsert, affected_keys="select true as anything", target_filter=())
        )
    # The output is the full result, whatever the table has.
    output = result.output if made.result_operator is not None else _inserted_rows()
    return replace(result, output=output, upsert=Upsert(None, EVERYTHING, (), None))
