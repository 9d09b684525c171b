"""SQL of a window aggregation that stores partial aggregates per slice.

Fixed windows (tumble, hop) store the *occurrences* of DISTINCT values, a row per slice, key and value, and count them
when a window closes. Growing windows (cumulate) would have to count all of them at each step. Instead they store the
*first occurrence* of each value in its window, and add 1 to the partial aggregates of its slice. If an earlier
occurrence arrives later, its slice gets +1 and the previous one −1 (a Z-set), so running sums over slices are exact, and
emitting a result reads no distinct set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....util.quoting import quote
from ...aggregates.aggregate_builder import EVENT_TIME, GROUPING_ID, SLICE_END, WINDOW_START
from ...aggregates.model import FIRST, SEEN, DistinctSet, WindowAggregateSpec
from ...aggregates.partials import Partials, rows_with_values_of
from ...program import EXPIRES_AT, StateLookup, StatePart, Step
from ...sql.dialect import sql
from ...windows.emission import Emission
from .window_steps import WindowSteps
from .window_trigger import WindowTrigger, window_column_items


class SlicedWindows(Partials, WindowSteps):
    """Steps and state of a `WindowAggregateSpec`."""

    spec: WindowAggregateSpec

    def __init__(self, spec: WindowAggregateSpec, name: str, emission: Emission) -> None:
        super().__init__(spec, name)
        self.window = spec.window
        self.trigger = WindowTrigger(spec.window, emission)
        self.first_occurrences = self.window.has_known_start
        self.part = f"{name}_slices"
        # Columns that identify a slice in the state and in running totals.
        self.point = [EXPIRES_AT, *([WINDOW_START] if self.window.grows else []), SLICE_END]
        self.slice = self.point
        # Columns that identify a closing window.
        self.window_keys = ["end_micros"]
        self.windows_step = f"{spec.name}_windows"
        self.stored_metrics = self.metrics if self.first_occurrences else self.plain
        self.stores_finest = spec.has_finest_set
        self.flag_suffix = FIRST if self.first_occurrences else SEEN

    # -- before the commit -------------------------------------------------------------------------

    def rows_sql(self, raw: str, clock: bool) -> str:
        """Returns the window operator's rows from the user's query below it."""
        return self._rows_on_time(raw) if clock and self.first_occurrences else raw

    def ingest_steps(self) -> list[Step]:
        """Returns the steps before the state is written."""
        steps = []
        for members in self.spec.distinct_sets if self.first_occurrences else ():
            initial, text = self._first_values(members), self._firsts_with_stored(members)
            firsts = self._first_slices(members)
            asks = StateLookup(
                self._set_table(members),
                found=self._any_not_null_condition([self._known_column(first) for first in firsts]),
                asked=self._any_not_null_condition(firsts),
            )
            looked_up = Step(self._firsts_view(members), text, initial=initial, state_lookups=(asks,))
            if self.stores_finest:
                steps.append(replace(looked_up, persist=True))
                initial, new = (
                    self._firsts_per_grouping_set(members, initial=True),
                    self._firsts_per_grouping_set(members, initial=False),
                )
            else:
                new = f"select * from {self._firsts_view(members)}\nwhere {self._earlier_first_slice_condition(members)}"
                steps.extend(self._cached_values_steps(members, initial))
                steps.append(looked_up)
            # First occurrences that are new, or earlier than the stored ones, with the stored ones.
            steps.append(Step(self._new_values_view(members), new, persist=True, initial=initial))
        return steps

    def parts(self) -> list[StatePart]:
        changing = self.spec.distinct_sets if self.first_occurrences else ()
        slices = self._union_all([self._slice_partials(), *(self._slice_changes(m, False) for m in changing)])
        initial = self._union_all([self._slice_partials(), *(self._slice_changes(m, True) for m in changing)])
        zone = self.window.time_zone
        parts = [StatePart(self.part, slices, self._fold_slices(), initial, time_zone=zone)]
        for members in self.spec.distinct_sets:
            if self.first_occurrences:
                finest = f"\nwhere {GROUPING_ID} = 0" if self.stores_finest else ""
                columns = ", ".join([*self._identity_columns(members), *self._first_slices(members)])
                append = f"select {columns}\nfrom {self._new_values_view(members)}{finest}"
            else:
                append = self._distinct_inputs(members, self.slice)
            fold = self._fold_values(members)
            # Compaction merges no first occurrences, unless a value may occur with another enumerated key.
            lasts = self.window.size if self.first_occurrences and self.spec.enumerated is None else None
            parts.append(StatePart(self._set_table(members), append, fold, time_zone=zone, lasts=lasts))
        return parts

    def _rows_on_time(self, raw: str) -> str:
        """Returns the rows of growing windows. A late row is put into the first slice that hasn't been emitted."""
        columns = [column for column in self._row_columns() if column != SLICE_END]
        first = f"timestamp_micros({self.trigger.first_unfired_end()})"
        return (
            f"select {', '.join([EVENT_TIME, *columns])}, greatest({SLICE_END}, {first}) as {SLICE_END}\n"
            f"from (\n{raw}\n)"
        )

    def _row_columns(self) -> list[str]:
        names = [*self.group_keys]
        if self.spec.enumerated is not None:
            names.append(quote(self.spec.enumerated.number))
        for metric in self.spec.metrics:
            names += [quote(name) for name in (*metric.arguments, metric.filter) if name and name != "*"]
        return list(dict.fromkeys([*self.slice, *names]))

    def _slice_partials(self) -> str:
        made = {name: text for metric in self.plain for name, text in metric.make().items()}
        return (
            f"select {', '.join([*self.slice, *self._selected_keys(), *self._state_items(made)])}\n"
            f"from {self.rows}\n{self._group_by_clause(self.slice)}"
        )

    # -- distinct values ---------------------------------------------------------------------------

    def _first_slices(self, members: DistinctSet) -> list[str]:
        """Columns with the first slice of a value, one per FILTER and combination of enumerated keys."""
        return self._columns_per_condition(members, FIRST)

    def _identity_columns(self, members: DistinctSet) -> list[str]:
        """Columns that identify a value in its window."""
        return [EXPIRES_AT, WINDOW_START, *self._set_keys(), *self._value_columns(members)]

    def _first_values(self, members: DistinctSet, in_all_sets: bool = False) -> str:
        """Returns the first occurrences in the batch. `in_all_sets`: in each grouping set, even if only the finest one is
        stored."""
        firsts = [
            f"min({SLICE_END}){f' filter (where {condition})' if condition else ''} as {first}"
            for first, condition in zip(self._first_slices(members), self._conditions(members), strict=True)
        ]
        fixed = [EXPIRES_AT, WINDOW_START, *self._value_columns(members)]
        having = (
            ""
            if None in members.filters
            else f"\nhaving {self._any_not_null_condition(self._first_slices(members))}"
        )
        keys, by = self._selected_set_keys(), self._group_by_clause_of_set(fixed)
        if in_all_sets and self.stores_finest:
            keys, by = self._selected_keys(), self._group_by_clause(fixed)
        return (
            f"select {', '.join([*fixed, *keys, *firsts])}\n"
            f"from {self.rows}\nwhere {self._not_null_condition(members)}\n{by}{having}"
        )

    @staticmethod
    def _any_not_null_condition(columns: Sequence[str]) -> str:
        return f"coalesce({', '.join(columns)}) is not null"

    def _firsts_with_stored(self, members: DistinctSet) -> str:
        """Returns the first occurrences in the batch, each with the stored one of the same value."""
        values, keys = self._value_columns(members), self._set_keys()
        both, firsts = ", ".join(self._identity_columns(members)), self._first_slices(members)
        if self.stores_finest:
            # In a coarser grouping set a value is new unless it is stored with some value of the missing keys. All rows
            # of a value go to one task, where each set finds them.
            sets = self.spec.grouping_sets or ()
            in_all = [quote(key.name) for key in self.spec.keys if all(key.name in each for each in sets)]
            together = [WINDOW_START, *in_all, *values]
            gathered = f"\n  distribute by {', '.join(together)}"
        else:
            together, gathered = [WINDOW_START, *keys, *values], ""
        # It may return values that aren't in the batch: they don't become earlier.
        from_state = rows_with_values_of(together, "select * from batch", self._set_table(members))
        fresh = [f"min(case when fresh then {first} end) as {first}" for first in firsts]
        older = [
            f"min(case when not fresh then {first} end) as {self._known_column(first)}" for first in firsts
        ]
        if self.stores_finest or self.spec.grouping_sets is None:
            # The GROUP BY below merges them.
            batch = self._values_of_rows(members)
        else:
            batch = f"select * from {self._batch_values_view(members)}"
        return (
            f"with batch as (\n{batch}\n),\n"
            f"known as (\n"
            f"  select {both}, {', '.join(firsts)}\n"
            f"  from {from_state}\n"
            f"  where part = '{self._set_table(members)}'\n"
            f"),\n"
            f"sights as (\n"
            f"  select {both}, {', '.join(firsts)}, true as fresh from batch\n"
            f"  union all\n"
            f"  select {both}, {', '.join(firsts)}, false as fresh from known{gathered}\n"
            f"),\n"
            f"seen as (\n"
            f"  select {both}, {', '.join([*fresh, *older])}\n"
            f"  from sights\n"
            f"  group by {both}\n"
            f")\n"
            f"select * from seen"
        )

    def _earlier_first_slice_condition(self, members: DistinctSet) -> str:
        return " or ".join(
            f"{first} < {self._known_column(first)} or ({self._known_column(first)} is null and {first} is not null)"
            for first in self._first_slices(members)
        )

    def _firsts_per_grouping_set(self, members: DistinctSet, initial: bool) -> str:
        """Returns the first occurrences in each grouping set, computed from those in the set with all keys.

        Args:
            initial: whether the state is empty.
        """
        firsts = self._first_slices(members)
        columns = firsts if initial else [*firsts, *map(self._known_column, firsts)]
        made = [f"min({column}) as {column}" for column in columns]
        fixed = [EXPIRES_AT, WINDOW_START, *self._value_columns(members)]
        branches = []
        # GROUPING SETS would shuffle all rows once per set. Separate GROUP BYs read them as they are distributed.
        for keys, number in self._grouping_set_keys():
            listed = [key if key in keys else f"null as {key}" for key in self.group_keys]
            items = [*fixed, *listed, f"{number}L as {GROUPING_ID}"]
            if number == 0:
                branches.append(f"select {', '.join([*items, *columns])}\nfrom {self._firsts_view(members)}")
            else:
                branches.append(
                    f"select {', '.join([*items, *made])}\nfrom {self._firsts_view(members)}\n"
                    f"group by {', '.join([*fixed, *keys])}"
                )
        united = self._union_all(branches)
        return (
            united
            if initial
            else f"select * from (\n{united}\n)\nwhere {self._earlier_first_slice_condition(members)}"
        )

    def _grouping_set_keys(self) -> list[tuple[list[str], int]]:
        """Returns the keys and grouping_id() of each grouping set, the one with all keys first."""
        found = []
        for members in self.spec.grouping_sets or ():
            missing = [key.name not in members for key in self.spec.keys]
            number = int("".join(map(str, map(int, missing))) or "0", 2)
            found.append(([quote(key.name) for key in self.spec.keys if key.name in members], number))
        return sorted(found, key=lambda each: each[1])

    def _firsts_view(self, members: DistinctSet) -> str:
        return f"{self._set_table(members)}_met"

    def _values_of_rows(self, members: DistinctSet) -> str:
        """Returns the values of each row of the batch, with its slice."""
        firsts = [
            f"{f'case when {condition} then {SLICE_END} end' if condition else SLICE_END} as {first}"
            for first, condition in zip(self._first_slices(members), self._conditions(members), strict=True)
        ]
        columns = ", ".join([*self._identity_columns(members), *firsts])
        return f"select {columns}\nfrom {self.rows}\nwhere {self._not_null_condition(members)}"

    @staticmethod
    def _known_column(first: str) -> str:
        return first[:-1] + "_known`"

    def _slice_changes(self, members: DistinctSet, initial: bool) -> str:
        """Returns the changes of the slices' partial aggregates, from new first occurrences."""
        shared = ", ".join([EXPIRES_AT, WINDOW_START, *self.keys, *self._value_columns(members)])
        columns_of_value, firsts = self._identity_columns(members), self._first_slices(members)
        columns = [firsts] if initial else [firsts, [self._known_column(first) for first in firsts]]
        new = self._rows_by_value(members, self._new_values_view(members), columns_of_value, *columns)
        branches = []
        for number, first in enumerate(firsts[: len(members.filters)]):
            known = self._known_column(first)
            is_earlier = "" if initial else f" and ({known} is null or {first} < {known})"
            branches.append(
                f"select {shared}, {first} as {SLICE_END}, {number} as condition, 1 as sign from {new} "
                f"where {first} is not null{is_earlier}"
            )
            if not initial:
                branches.append(
                    f"select {shared}, {known} as {SLICE_END}, {number} as condition, -1 as sign from {new} "
                    f"where {first} < {known}"
                )
        made: dict[str, str] = {}
        for metric in self._metrics_over(members):
            number = members.flag_index(metric.metric)
            made |= metric.make(f"condition = {number}" if len(members.filters) > 1 else None, sign="sign")
        listed = "\n  union all\n  ".join(branches)
        items = [f"{made.get(name, 'null')} as {quote(name)}" for name in self._all_columns()]
        return (
            f"select {', '.join([*self.point, *self.keys, *items])}\n"
            f"from (\n  {listed}\n)\ngroup by {', '.join([*self.point, *self.keys, 'sign'])}"
        )

    # -- compaction --------------------------------------------------------------------------------

    def _fold_slices(self) -> str:
        """Returns the compacted slices: per key one row for all emitted slices, and one for each slice after them."""
        alive = f"part = '{self.part}' and {self.trigger.needed_condition()}"
        source = f"select * from state where {alive}"
        if self.first_occurrences:
            columns = [
                c for c in [*self.slice, *self.keys, *map(quote, self._stored_columns())] if c != SLICE_END
            ]
            source = (
                f"select {', '.join(columns)}, {self._emitted_slice_sql(SLICE_END)} as {SLICE_END}\n"
                f"  from state where {alive}"
            )
        return self._merged_rows(f"({source})", [*self.slice, *self.keys])

    def _emitted_slice_sql(self, slice_end: str) -> str:
        """SQL of a row's slice after compaction, which merges all emitted slices."""
        return f"greatest({slice_end}, timestamp_micros({self.trigger.last_cleared_end()}))"

    def _fold_values(self, members: DistinctSet) -> str:
        where = f"from state where part = '{self._set_table(members)}' and {self.trigger.needed_condition()}"
        if self.first_occurrences:
            identity = self._identity_columns(members)
            made = [f"min({first}) as {first}" for first in self._first_slices(members)]
        else:
            identity = [*self.slice, *self._set_keys(), *self._value_columns(members)]
            made = [f"bool_or({flag}) as {flag}" for flag in self._flag_columns(members)]
        return f"select {', '.join([*identity, *made])}\n{where}\ngroup by {', '.join(identity)}"

    # -- after the commit --------------------------------------------------------------------------

    def emit_steps(self) -> list[Step]:
        """Returns the steps that emit the closed windows."""
        return self._emitting_steps(clock=True)

    def batch_steps(self) -> list[Step]:
        """Returns the steps that compute all windows without state."""
        steps = []
        if self.first_occurrences:
            for members in self.spec.distinct_sets:
                steps.append(
                    Step(self._new_values_view(members), self._first_values(members, in_all_sets=True))
                )
        for part in self.parts():
            if not (self.first_occurrences and part.name != self.part):
                steps.append(Step(part.name, part.initial or part.append))
        return steps + self._emitting_steps(clock=False)

    def _relation_of_part(self, part: str, clock: bool) -> str:
        return f"(select * from state where part = '{part}')" if clock else part

    def _emitting_steps(self, clock: bool) -> list[Step]:
        name = self.spec.name
        windows = self._growing_windows(clock) if self.window.grows else self._fixed_windows(clock)
        finished = [f"{metric.finish()} as {quote(metric.metric.name)}" for metric in self.metrics]
        columns = [
            *window_column_items(self.window, self._start_sql()),
            *self.keys,
            *finished,
        ]
        return [
            Step(self.windows_step, f"select {', '.join(columns)}\nfrom (\n{windows}\n)"),
            Step(name, sql(self.spec.output)),
        ]

    def _start_sql(self) -> str:
        """SQL of a closing window's start, in microseconds."""
        return f"unix_micros({WINDOW_START})" if self.window.grows else f"end_micros - {self.window.size}"

    def _rows_of_closing_windows(self, part: str, columns: str, clock: bool) -> str:
        """Returns the rows of a state table in the closing windows."""
        return self.trigger.rows_per_firing_window(self._relation_of_part(part, clock), columns, clock)

    def _fixed_windows(self, clock: bool) -> str:
        """Returns tumble, hop and session windows: the merged slices of each window."""
        keys = [*self.window_keys, *self.keys]
        columns = ", ".join([*self.keys, *map(quote, self._stored_columns())]) or "1 as one"
        closing = self._rows_of_closing_windows(self.part, columns, clock)
        plain = self._merged_rows(f"(\n{closing}\n)", keys)
        if not self.spec.distinct_sets:
            return plain
        branches = [self._with_missing_columns(f"(\n{plain}\n)", keys, self.plain)]
        for members in self.spec.distinct_sets:
            metrics = self._metrics_over(members)
            branches.append(
                self._with_missing_columns(
                    f"(\n{self._metrics_over_values(members, clock)}\n)", keys, metrics
                )
            )
        # One branch has a value for a column, the others have NULL.
        made = [
            f"any_value({quote(c)}, true) as {quote(c)}" for metric in self.metrics for c in metric.columns()
        ]
        listed = "\nunion all\n".join(branches)
        return f"select {', '.join([*keys, *made])}\nfrom (\n{listed}\n)\ngroup by {', '.join(keys)}"

    def _metrics_over_values(self, members: DistinctSet, clock: bool) -> str:
        """Returns the metrics over the distinct values of each window."""
        flags, values = self._flag_columns(members), self._value_columns(members)
        columns = ", ".join([*self._set_keys(), *values, *flags])
        closing = self._rows_of_closing_windows(self._set_table(members), columns, clock)
        keys = [*self.window_keys, *self.keys]
        seen = [f"bool_or({flag}) as {flag}" for flag in flags]
        made = []
        for metric in self._metrics_over(members):
            flag = flags[members.flag_index(metric.metric)]
            made += [f"{text} as {quote(name)}" for name, text in metric.make(flag).items()]
        set_keys, by = self._stored_set_keys([*self.window_keys, *values])
        of_set = [*self.window_keys, *set_keys, *values]
        once = f"(\nselect {', '.join([*of_set, *seen])}\nfrom (\n{closing}\n)\n{by}\n)"
        counted = self._rows_with_flag(members, once, of_set)
        return f"select {', '.join([*keys, *made])}\nfrom {counted}\ngroup by {', '.join(keys)}"

    def _open_slices(self, clock: bool) -> str:
        """Returns the slices of all windows that haven't reached the end of allowed lateness."""
        relation = self._relation_of_part(self.part, clock)
        if not clock:
            return relation
        watermark = self.trigger.before
        return (
            f"(select state.* from {relation} as state\n"
            f"where {watermark} is null or state.{EXPIRES_AT} > {watermark})"
        )

    def _growing_windows(self, clock: bool) -> str:
        """Returns cumulate windows: running totals over the slices of a window. A total is the result of all steps until
        the key's next slice, so a step without new rows costs only its result row."""
        partition = [WINDOW_START, EXPIRES_AT, *self.keys]
        slices = self._merged_rows(self._open_slices(clock), [*self.point, *self.keys], self.metrics)
        ordered = f" order by {SLICE_END} rows between unbounded preceding and current row"
        lifted = self._with_lifted_columns(f"(\n{slices}\n)", partition, self.metrics, ordered)
        over = f"over (partition by {', '.join(partition)}{ordered})"
        running = [
            f"{text} {over} as {quote(name)}"
            for metric in self.metrics
            for name, text in metric.merge().items()
        ]
        next_slice = (
            f"lead({SLICE_END}) over (partition by {', '.join(partition)} order by {SLICE_END}) as next_slice"
        )
        totals = f"select {', '.join([*partition, SLICE_END, *running, next_slice])}\nfrom {lifted}"
        columns = [WINDOW_START, *self.keys]
        columns += [
            f"{text} as {quote(name)}" for metric in self.metrics for name, text in metric.lower().items()
        ]
        first = f"unix_micros({SLICE_END})"
        if self.window.emit == "on_change":
            # If the time zone skips this time, the next one that exists.
            last = (
                self.window.first_end_after(f"({self.window.next_local_time(first)} - 1)")
                if self.window.time_zone
                else first
            )
        else:
            last = f"coalesce(unix_micros(next_slice) - {self.window.step}, unix_micros({EXPIRES_AT}))"
        final = f"unix_micros({EXPIRES_AT})"
        return self.trigger.rows_per_firing_end(f"(\n{totals}\n)", columns, first, last, clock, final)
