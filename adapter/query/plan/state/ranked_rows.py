"""SQL of an append-only ranking: a row that isn't among the first N when it arrives never will be, so it isn't stored."""

from __future__ import annotations

from dataclasses import replace

from ....util.quoting import quote
from ...program import STEP, FullScan, Rows, StatePart, Step, clock_sql
from ..hidden_items import ROW_TIME
from ..operator import with_inputs
from ..relation import WEIGHT
from .generations import (
    DUE,
    NO_STEP,
    TIME,
    KeyGenerations,
    due_now_condition,
    equal_keys_condition,
    matching_rows,
    rows_of_keys,
    time_plus_sql,
    touched_keys_step,
)
from .ranking import PLACE, ROW, Ranking, TopNFields, first_rows

_FRESH = "__fresh"


class RankedRows(Ranking):
    """Steps and state of a `TopN` over rows.

    Args:
        part: name of the state table.
        ttl: microseconds after which a ranking without new members expires. None for never.
        time: input column with the time from which rows expire, and at which final rows are emitted. None for the
            watermark after the micro-batch in which they arrive.
        replayed: whether to return all rankings of the state as insertions.
    """

    def __init__(
        self, operator: TopNFields, part: str, ttl: int | None, time: str | None, replayed: bool = False
    ) -> None:
        by = range(len(operator.top.partition))
        super().__init__(operator, part, [quote(f"{part}_by_{number}") for number in by])
        self.time, self.replayed = time, replayed
        self.generations = KeyGenerations(operator.name, self.part, self.keys, ttl)
        self.rows = f"{self.name}_rows"

    @property
    def is_timed(self) -> bool:
        """Whether rows need their own time, for expiry or final results."""
        return self.time is not None and (self.generations.ttl is not None or self.operator.final)

    @property
    def _columns(self) -> list[str]:
        due = [DUE] if self.operator.final else []
        return [STEP, *self.generations.columns, *due, *self.keys, ROW]

    def rows_compared_with_watermark(self, views: tuple[str, ...]) -> list[Rows]:
        """Returns the input if rows need a time: rows without one are dropped and counted.

        Args:
            views: views of the streams that are ranked.
        """
        if not self.is_timed:
            return []
        text = f"select {TIME} as event_time, own.* from (\n{self._rows_to_rank()}\n) as own"
        return [Rows(self.rows, text, views, expires=False, forgets=self.operator.final)]

    def _rows_to_rank(self) -> str:
        """Returns the micro-batch's rows with their partition columns."""
        (below,) = self.operator.inputs
        source, row, time = f"select * from {below.name}", "struct(*)", []
        if self.generations.ttl is not None or self.operator.final:
            row_time = (
                f"cast(own.{quote(self.time)} as timestamp)"
                if self.time is not None
                else clock_sql("watermark_after")
            )
            source = f"select own.*, {row_time} as `{ROW_TIME}` from {below.name} as own"
            row, time = f"struct(* except (`{ROW_TIME}`))", [f"`{ROW_TIME}` as {TIME}"]
        rows = f"select {', '.join([f'{row} as {ROW}', *time])} from (\n{with_inputs(self.operator.sql, [source])}\n)"
        time = [TIME] if time else []
        keys = [
            f"{ROW}.{by} as {key}" for by, key in zip(self.operator.top.partition, self.keys, strict=True)
        ]
        return f"select {', '.join([f'{clock_sql(STEP)} as {STEP}', *time, *keys, ROW])} from (\n{rows}\n)"

    def _first_rows(self, rows: str, tie: str = "") -> str:
        """Returns the rows that are in the rankings, with their ranks. `tie` breaks ties."""
        top = self.operator.top
        if tie and top.function == "row_number":
            top = replace(top, order=f"{top.order}, {tie}")
        return first_rows(rows, top, self.keys, ROW)

    def steps(self) -> list[Step]:
        """Returns the steps up to the affected rankings after the micro-batch."""
        columns = ", ".join(self._columns)
        new = self.generations.with_generation(f"select *{self._added_columns()} from {self.rows}")
        fresh = of_batch = f"select {columns}, true as {_FRESH} from (\n{new}\n)"
        if self.operator.final:
            # The first rows of these keys have been emitted: later rows are ignored.
            done = (
                f"(select * from (\n{self._stored_rows()}\n) where {DUE} <= {clock_sql('watermark_before')})"
            )
            on = equal_keys_condition("new", "done", [*self.keys, *self.generations.generation_columns])
            fresh = f"select new.* from (\n{fresh}\n) as new left anti join {done} as done on {on}"
        both = f"{fresh}\nunion all\nselect {columns}, false as {_FRESH} from (\n{self._stored_rows()}\n)"
        # Of equal rows, stored ones are preferred.
        ranked, initial = (
            self._first_rows(rows, _FRESH) for rows in (self.generations.latest_rows(both), of_batch)
        )
        input_rows = Step(self.rows, self._rows_to_rank(), persist=True, full_scan=self._possible_rows())
        return [
            *([] if self.is_timed else [input_rows]),
            *self.generations.steps(f"select {self.listed_keys} from {self.rows}"),
            Step(self.now, ranked, persist=True, initial=initial),
        ]

    def _possible_rows(self) -> FullScan | None:
        """Returns the input without rows behind the last member of a full ranking, by the first order column, to sort fewer
        rows. None if that can't be decided, members may expire, or all rankings are replayed."""
        may_leave_out = self.operator.descends is not None and self.generations.ttl is None
        if not may_leave_out or self.operator.final or self.replayed:
            return None
        last = self.last_places(f"(\n{self._first_rows(self._stored_rows_of(None))}\n)")
        rows = (
            f"select /*+ broadcast(last) */ own.* from (\n{self._rows_to_rank()}\n) as own\n"
            f"left join (\n{last}\n) as last on {equal_keys_condition('own', 'last', self.keys)}\n"
            f"where not {self.behind_condition}"
        )
        return FullScan(rows, self.part, of_many=True)

    def _stored_rows(self) -> str:
        """Returns the stored rows of the affected rankings; of all if they are replayed."""
        return self._stored_rows_of(None if self.replayed else self.rows)

    def _stored_rows_of(self, touched: str | None) -> str:
        return (
            f"select *, {self.stored_row} as {ROW} from (\n{matching_rows(self.part, self.keys, touched)}\n)"
        )

    def _added_columns(self) -> str:
        added = self.generations.expiry_items(TIME)
        if self.operator.final:
            # From then on only late rows can precede it.
            added.append(f"{time_plus_sql(TIME, 1)} as {DUE}")
        return "".join(f", {text}" for text in added)

    def change_step(self) -> Step:
        """Returns the step with the change of the result."""
        if self.replayed:
            after = f"select {ROW}, {PLACE}, 1L as {WEIGHT} from {self.now}"
            return Step(self.name, self.output_rows(after), persist=True)
        before = self._first_rows(self.generations.rows_of_current_generation(self._stored_rows()))
        return self.changed_ranks_step(before)

    def emit_steps(self) -> list[Step]:
        """Returns the steps after the commit: with the changed rankings (or all), or with final rows that are due."""
        if self.replayed:
            every = self._first_rows(self.generations.unexpired_rows(self._stored_rows_of(None)))
            return [Step(self.output, self.current_output_rows(every))]
        rows = self._first_rows(self.generations.latest_rows(self._stored_rows_of(self.touched)))
        if self.operator.final:
            due = due_now_condition("state")
            touched = f"select distinct {self.listed_keys} from state\nwhere part = '{self.part}' and {due}"
            due = due_now_condition("ranked")
            rows = f"select ranked.* from (\n{rows}\n) as ranked where {due}"
            return [
                Step(self.touched, touched, persist=True),
                Step(self.output, self.current_output_rows(rows)),
            ]
        added = f"(select * from {self.now} where {_FRESH})"
        fresh = self.current_output_rows(rows_of_keys(self.now, self.keys, self.touched, in_memory=True))
        return [
            touched_keys_step(self.touched, self.part, self.keys, added),
            Step(self.output, self.current_output_rows(rows), fresh=fresh),
        ]

    def state(self) -> StatePart:
        """Returns the state table: rows that are, or were, members."""
        columns = [name for name in self._columns if name not in (STEP, ROW)]
        listed = ", ".join([*columns, f"{ROW} as {self.stored_row}"])
        members = self._first_rows(self.generations.unexpired_rows(self._stored_rows_of(None)))
        return StatePart(
            self.part,
            f"select {STEP}, {listed} from {self.now} where {_FRESH}",
            f"select {NO_STEP}, {listed} from (\n{members}\n)",
            forgets=self.generations.ttl,
            closes=DUE if self.operator.final else None,
        )
