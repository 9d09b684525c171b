"""SQL of OVER ordered by event time: rows wait for the watermark, and are stored while frames of later rows include
them.

Under a TTL an idle partition starts again: rows before the gap are of another *generation*. Generations depend only on
event times, so they are independent of how the input is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ....util.quoting import quote
from ...program import STEP, Rows, StatePart, Step, clock_sql
from ...sql import intervals
from ...sql.intervals import HOUR
from ..author_text import over_clauses_text, until_text
from ..explanation import BOUNDED, WHEN_EMITTED, Context, Explanation
from ..frame_extent import FrameExtent
from ..operator import Operator, QueryOperator, Until, Wiring, with_inputs
from ..relation import EVENT_TIME, WEIGHT, Relation
from ..relations.passed import passed_columns
from ..running import RunningValue
from ..state.buffered_rows import ROW
from ..state.generations import (
    DUE,
    NO_STEP,
    due_time_sql,
    not_reached_condition,
    passed_condition,
    rows_of_keys,
    time_plus_sql,
)
from ..time_bounds import storage_end_sql
from .source import views_below

GENERATION = "__life"
"""Column with the generation of a partition, by which an `OverAggregate` also partitions under a TTL."""


@dataclass(frozen=True, kw_only=True)
class OverAggregate(QueryOperator):
    """OVER in order of event time over append-only input (LAG, running and sliding aggregates): each row is
    emitted once, when no row before it can arrive any more. Keeps rows that wait, and rows that frames of
    later rows reach back to; for running totals one row per partition.

    Its query passes on the weight: 1 for a row to emit, 0 for a row that is only part of other rows' frames.
    """

    keys: tuple[str, ...]
    """SQL of the partition keys, over `alias`."""
    alias: str
    time: str
    """First column of ORDER BY."""
    reach: FrameExtent
    waits: bool = True
    """Whether rows are buffered until the watermark has passed their time; False if they arrive in order."""
    until: Until = ()
    """Watermark until which a partition may get rows, from a key with event time; empty if unknown."""
    running: tuple[RunningValue, ...] = ()
    """Running aggregates, stored in the last row of a partition; empty if all rows of frames are stored."""
    written: exp.Select | None = None
    """The query with the author's aggregates, if `query` has `running` values instead."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the input's rows, in order of time, all rows of a time together."""
        (rows,) = below
        passed = passed_columns(self.query)
        complete_by = {**rows.complete_by, **({self.time: EVENT_TIME} if self.waits else {})}
        return Relation(complete_by=passed.with_output_names(complete_by), keys=passed.passed_keys(rows.keys))

    @property
    def inputs_compared_with_watermark(self) -> tuple[Operator, ...]:
        """Returns its input if rows wait for the watermark."""
        return self.inputs if self.waits else ()

    def generate(self, wiring: Wiring) -> None:
        """Stores rows while they wait, and while frames of later rows include them, and emits each once."""
        ordered = OrderedRows(self, wiring.name_in_state(self.name), wiring.ttl)
        wiring.rows += ordered.rows()
        wiring.steps += ordered.steps()
        wiring.add_state_table(ordered.state(), self)

    def explain(self, context: Context) -> Explanation:
        """Returns its aggregates, and which rows are stored."""
        state = context.state_tables({}, (self._stored_rows_phrase(), self._clearing_phrase(context)))
        waits = (
            (f"A row is emitted once, when the watermark has passed its {self.time}.",) if self.waits else ()
        )
        calls = over_clauses_text(self.written or self.query)
        return self.explanation(context, calls, state=state, notes=waits)

    def _stored_rows_phrase(self) -> str:
        waits = f"a row that waits for the watermark to pass its {self.time}"
        if self.running:
            return "a partition's last row with what its rows come to" + (
                f", or {waits}" if self.waits else ""
            )
        reached = "that frames of later rows reach back to"
        return f"{waits}, or {reached}" if self.waits else f"a row {reached}"

    def _clearing_phrase(self, context: Context) -> str:
        reach, events = self.reach, list[str]()
        idle = context.ttl_after("its partition's last row")
        if self.running:
            events.append("a later row of its partition, which takes its place")
        elif reach.everything and not self.until:
            return idle or BOUNDED
        else:
            if reach.rows:
                events.append(f"{reach.rows} later row{'' if reach.rows == 1 else 's'} of its partition")
            if reach.micros:
                events.append(f"{intervals.format(reach.micros)} after its {self.time}")
        if self.until:
            events.append(f"when the watermark has passed {until_text(self.until)}")
        clears = " or ".join(events) or WHEN_EMITTED
        return clears if idle is None or reach.everything else f"{clears}, or {idle}"


_TIME, _BEFORE = "__time", "__before"
_SLACK = 3 * HOUR
"""Microseconds by which a frame may reach further back: Spark counts days in the session's time zone, whose clock may
change."""


class OrderedRows:
    """Steps and state of an `OverAggregate`.

    Args:
        part: name of the state table.
        ttl: microseconds of event time after which an idle partition starts again. None for never.
    """

    def __init__(self, operator: OverAggregate, part: str, ttl: int | None) -> None:
        self.operator, self.part, self.ttl = operator, part, ttl
        (self.below,) = operator.inputs
        self.row = quote(f"{self.part}_row")
        self.keys = [f"__key_{n}" for n in range(len(operator.keys))]
        self.runs = [each.column for each in operator.running]
        self.new_rows, self.due, self.touched = (
            f"{operator.name}_{name}" for name in ("rows", "due", "touched")
        )

    def rows(self) -> list[Rows]:
        """Returns the input, without its late rows; empty if rows arrive in order, so that none is late."""
        if not self.operator.waits:
            return []
        time = f"own.{quote(self.operator.time)}"
        due = due_time_sql(f"cast({time} as timestamp)")
        text = f"select struct(own.*) as {ROW}, {time} as event_time, {due} as expires_at\nfrom {self.below.name} as own"
        return [Rows(self.new_rows, text, views_below(self.below))]

    def steps(self) -> list[Step]:
        """Returns the steps with the rows to emit, their partitions, and the result over the frames."""
        new, stored = self._new_rows(), self._stored_rows()
        if self.operator.waits:
            had_passed = passed_condition(_TIME, "watermark_before")
            waited = f"{new}\nunion all\nselect * from (\n{stored}\n) where not {had_passed}"
            due, of_batch = (
                f"select * from (\n{rows}\n) where {passed_condition(_TIME)}" for rows in (waited, new)
            )
            stored = f"select * from (\n{stored}\n) where {had_passed}"
        else:
            due = of_batch = new
        reached = rows_of_keys(f"(\n{self._with_keys(stored)}\n)", self.keys, self.touched)
        emitted = f"select *, 1L as {WEIGHT} from {self.due}"
        touched = f"select distinct {', '.join(self.keys) or 'true as anything'} from {self.due}"
        return [
            Step(self.due, self._with_keys(due), persist=True, initial=self._with_keys(of_batch)),
            Step(self.touched, touched, persist=True),
            Step(
                self.operator.name,
                self._result_rows(f"{emitted}\nunion all\nselect *, 0L as {WEIGHT} from (\n{reached}\n)"),
                persist=True,
                initial=self._result_rows(emitted),
            ),
        ]

    def state(self) -> StatePart:
        """Returns the state table: rows that wait, and rows that later rows' frames include."""
        ends = [micros for _, micros in self.operator.until]
        lengths = [each for each in (self.ttl, self.operator.reach.micros, *ends) if each]
        return StatePart(
            self.part,
            f"select {clock_sql(STEP)} as {STEP}, {self._stored_items()} from (\n{self._new_rows()}\n)",
            self._fold_sql(),
            closes=DUE if self.operator.waits else None,
            forgets=min(lengths, default=None),
        )

    # -- rows --------------------------------------------------------------------------------------

    def _new_rows(self) -> str:
        source = (
            self.new_rows if self.operator.waits else f"(select struct(*) as {ROW} from {self.below.name})"
        )
        rows = f"select {ROW}, {self._time} as {_TIME} from {source}"
        if not self.runs:
            return rows
        values = [f"{each.value} as {each.column}" for each in self.operator.running]
        return f"select {', '.join([ROW, _TIME, *values])}\nfrom {self._expression_rows(rows)}"

    def _stored_rows(self) -> str:
        runs = [f"{self._state_column_of_run(name)} as {name}" for name in self.runs]
        stored = f"select {', '.join([f'{self.row} as {ROW}', *runs])} from state where part = '{self.part}'"
        return f"select {', '.join([ROW, f'{self._time} as {_TIME}', *self.runs])} from (\n{stored}\n)"

    def _state_column_of_run(self, name: str) -> str:
        return quote(f"{self.part}{name}")

    def _expression_rows(self, rows: str, runs: Sequence[str] = ()) -> str:
        """Returns the relation that expressions of the query read: rows, also as structs, with time and running values."""
        columns = ", ".join([f"{ROW}.*", ROW, _TIME, *runs])
        return f"(\nselect {columns} from (\n{rows}\n)\n) as {quote(self.operator.alias)}"

    def _with_keys(self, rows: str) -> str:
        keys = [f"{key} as {name}" for key, name in zip(self.operator.keys, self.keys, strict=True)]
        return f"select {', '.join([ROW, _TIME, *self.runs, *keys])}\nfrom {self._expression_rows(rows, self.runs)}"

    def _stored_items(self) -> str:
        """Returns the select items of a stored row: the row, its running values, and when it is due if it waits."""
        runs = [f"{name} as {self._state_column_of_run(name)}" for name in self.runs]
        return ", ".join([f"{ROW} as {self.row}", *runs]) + (
            f", {due_time_sql(_TIME)} as {DUE}" if self.operator.waits else ""
        )

    @property
    def _time(self) -> str:
        return f"cast({ROW}.{quote(self.operator.time)} as timestamp)"

    def _over_clause(self, order: str = "") -> str:
        """SQL of an OVER clause for the partitions."""
        by = f"partition by {', '.join(self.keys)}" if self.keys else ""
        return f"over ({' '.join(filter(None, (by, order)))})"

    def _result_rows(self, rows: str) -> str:
        """Returns the query over rows with complete frames, without rows that are only part of frames."""
        generation = ""
        if self.ttl is not None:
            generation = f", {GENERATION}"
            gap = f"unix_micros({_TIME}) - unix_micros({_BEFORE}) >= {self.ttl}"
            so_far = self._over_clause(f"order by {_TIME}")  # rows of one time are of one generation
            rows = f"select *, lag({_TIME}) {so_far} as {_BEFORE} from (\n{rows}\n)"
            rows = f"select *, sum(if({gap}, 1, 0)) {so_far} as {GENERATION}\nfrom (\n{rows}\n)"
        runs = "".join(f", {name}" for name in self.runs)
        text = with_inputs(
            self.operator.sql, [f"select {ROW}.*, {WEIGHT}{runs}{generation} from (\n{rows}\n)"]
        )
        return f"select * except ({WEIGHT}) from (\n{text}\n) where {WEIGHT} = 1"

    def _fold_sql(self) -> str:
        reach = self.operator.reach
        conditions = [f"__place <= {reach.rows}"] if reach.rows else []
        conditions += (
            [not_reached_condition(time_plus_sql(_TIME, reach.micros + _SLACK + 1))] if reach.micros else []
        )
        conditions += ["true"] if reach.everything else []
        needed = f"({' or '.join(conditions) or 'false'})"
        if self.ttl is not None:
            needed += f" and {not_reached_condition(time_plus_sql('__newest', self.ttl))}"
        if self.operator.until:
            needed += f" and {not_reached_condition(storage_end_sql(self.operator.until, ROW))}"
        rows = self._with_keys(self._stored_rows())
        before = (
            f"select * from (\n{rows}\n) where {passed_condition(_TIME)}" if self.operator.waits else rows
        )
        # Rows of one time share a rank: all of them are stored, since any may be in a frame.
        placed = (
            f"select *, rank() {self._over_clause(f'order by {_TIME} desc')} as __place, "
            f"max({_TIME}) {self._over_clause()} as __newest from (\n{before}\n)"
        )
        kept = (
            self._running_totals(before)
            if self.runs
            else f"select {ROW}, {_TIME} from (\n{placed}\n) where {needed}"
        )
        if self.operator.waits:
            listed = ", ".join([ROW, _TIME, *self.runs])
            kept += f"\nunion all\nselect {listed} from (\n{rows}\n) where not {passed_condition(_TIME)}"
        return f"select {NO_STEP}, {self._stored_items()} from (\n{kept}\n)"

    def _running_totals(self, rows: str) -> str:
        """Returns the last row of each partition with the merged running values of all its rows."""
        so_far = self._over_clause(f"order by {_TIME}")
        runs = [f"{each.merge_sql(so_far)} as {each.column}" for each in self.operator.running]
        place = f"row_number() {self._over_clause(f'order by {_TIME} desc')} as __place"
        placed = f"select {', '.join([ROW, _TIME, *runs, place])} from (\n{rows}\n)"
        return f"select {', '.join([ROW, _TIME, *self.runs])} from (\n{placed}\n) where __place = 1"
