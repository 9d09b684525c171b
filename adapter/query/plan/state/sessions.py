"""SQL for windows whose bounds depend on their rows: sessions, and the steps of dynamic_cumulate.

Rows of one key are in one session while the gaps between them aren't longer than the window's. Each row of a
micro-batch gets the bounds of its session, from the batch and the open sessions in the state, and is stored with them.
A later row may extend a session, or merge two. The stored bounds overlap then, and are merged when they are read.

A closed session never gets another row, even one within its bounds: such a row begins a new session. To distinguish
them, a row has ``merge_from``: it is merged only with sessions that end at or after that time, which is after the end of
all sessions that had closed when the row arrived.

All times here are local times in the window's time zone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....util.quoting import quote
from ...aggregates.aggregate_builder import (
    MERGE_FROM,
    SESSION_END,
    SESSION_START,
    SLICE_END,
    WINDOW_END,
    WINDOW_START,
    session_keys,
)
from ...aggregates.model import DistinctSet, WindowAggregateSpec
from ...program import EXPIRES_AT, Step
from ...sql.instants import usable_time_condition
from ...windows.emission import Emission
from .sliced import SlicedWindows
from .window_steps import WindowBufferSpec, WindowSteps
from .window_trigger import WindowTrigger


class Sessions:
    """Bounds of a window operator's sessions, which are stored with the rows of the state table `part`."""

    def __init__(
        self, spec: WindowAggregateSpec | WindowBufferSpec, part: str, trigger: WindowTrigger
    ) -> None:
        self.window, self.trigger = spec.window, trigger
        self.keys = [quote(name) for name in session_keys(spec.window)]
        self.columns = [*self.keys, SESSION_START, SESSION_END, MERGE_FROM]
        self._open = f"{spec.name}_open"
        self.name = f"{spec.name}_sessions"
        self._part = part
        self._by = f"partition by {', '.join(self.keys)} " if self.keys else ""

    # -- before the commit -------------------------------------------------------------------------

    def open_step(self, raw: str) -> Step:
        """Returns the step with the sessions that are open before the batch."""
        bounds = [self._time_item("event_time", name) for name in (SESSION_START, SESSION_END)]
        nothing = f"select {', '.join([*self.keys, *bounds])}\nfrom (\n{raw}\n)\nwhere false"
        watermark = self.trigger.before
        is_open = f"{watermark} is null or {self._window_end_sql(SESSION_END)} > {watermark}"
        return Step(
            self._open,
            f"select {', '.join([*self.keys, SESSION_START, SESSION_END])}\n"
            f"from (\n{self._stored_sessions()}\n)\nwhere {is_open}",
            initial=nothing,
        )

    def new_rows_with_sessions(self, raw: str, clock: bool) -> str:
        """Returns the window operator's rows with the bounds of their sessions."""
        listed = ", ".join([*self.keys, ""])
        # A row without a usable time, which is dropped later, is in no session.
        time = f"case when {usable_time_condition('event_time')} then event_time end"
        found = f"select struct(*) as `row`, {listed}{self._time_item(time, 'since')},\n"
        found += f"  {self._time_item(time, 'until', self.window.size)}\nfrom (\n{raw}\n)"
        if clock:
            found += (
                f"\nunion all\nselect null as `row`, {listed}{SESSION_START} as since, {SESSION_END} as until "
                f"from {self._open}"
            )
        of_session = f"over (partition by {listed}session)"
        items = [
            "`row`.*",
            SESSION_START,
            SESSION_END,
            f"{self._window_end_sql(SESSION_END)} as {EXPIRES_AT}",
        ]
        if clock:
            until = self.window.last_end_until(f"unix_micros({self.trigger.before})")
            closed = f"timestamp_micros({until} + 1)"
            items.append(f"greatest({SESSION_START}, {closed}) as {MERGE_FROM}")
        else:
            items.append(f"{SESSION_START} as {MERGE_FROM}")
        if self.window.grows:
            slice_end = f"timestamp_micros({self.window.slice_end(self.window.micros('`row`.event_time'))})"
            if clock:
                slice_end = f"greatest({slice_end}, timestamp_micros({self.trigger.first_unfired_end()}))"
            items.append(f"{slice_end} as {SLICE_END}")
        return (
            f"select {', '.join(items)}\n"
            f"from (\n"
            f"  select `row`, min(since) {of_session} as {SESSION_START}, max(until) {of_session} as {SESSION_END}\n"
            f"  from (\n{self._numbered_sessions(f'({chr(10)}{found}{chr(10)})', 'since', 'until')}\n  )\n"
            f")\n"
            f"where `row` is not null"
        )

    # -- from the state ----------------------------------------------------------------------------

    def bounds_as_instants(self, names: Sequence[str], relation: str | None = None) -> str:
        """Returns the keys and bounds of sessions as instants, and ``merge_from``: a stored session that ends before it is
        another session.

        Args:
            names: names for the columns that sessions are partitioned by.
            relation: a relation of sessions. None for the sessions that emit a result.
        """
        items = [f"{key} as {quote(name)}" for key, name in zip(self.keys, names, strict=True)]
        start, merge_from = f"unix_micros({SESSION_START})", f"unix_micros({MERGE_FROM})"
        items.append(f"{self.window.instant(start)} as {WINDOW_START}")
        items.append(f"{self.window.latest_instant(f'unix_micros({SESSION_END})')} as {WINDOW_END}")
        items.append(f"{self.window.instant(merge_from)} as {MERGE_FROM}")
        return f"select {', '.join(items)} from {relation or self.name} as sessions"

    def firing_step(self) -> Step:
        """Returns the step with the sessions that emit a result: those that close, or one of whose windows does."""
        start, end = self.window_start_sql(), self._window_end_sql(SESSION_END)
        columns = [*self.columns, f"{start} as {WINDOW_START}", f"{end} as {EXPIRES_AT}"]
        bounds = self._stored_sessions()
        fires = self.trigger.firing_condition(EXPIRES_AT)
        if self.window.grows:
            first = f"timestamp_micros(unix_micros({WINDOW_START}) + {self.window.step})"
            fires = self.trigger.may_fire_condition(first, EXPIRES_AT)
        else:
            # Only keys with a session that may fire are read.
            touched = (
                f"select distinct {', '.join(self.keys) or '1 as one'} from state\n"
                f"where part = '{self._part}' and {self.trigger.may_fire_condition(SESSION_END, SESSION_END)}"
            )
            same = " and ".join(f"state.{key} <=> touched.{key}" for key in self.keys) or "true"
            bounds = self._stored_sessions(f"left semi join (\n{touched}\n) as touched on {same}")
        return Step(
            self.name,
            f"select sessions.* from (\nselect {', '.join(columns)} from (\n{bounds}\n)\n) as sessions\n"
            f"where {fires}",
            persist=True,
        )

    def open_after_batch(self) -> str:
        """Returns the sessions that are open after the batch."""
        columns = ", ".join([*self.columns, f"{self._window_end_sql(SESSION_END)} as {EXPIRES_AT}"])
        bounds = f"select {columns} from (\n{self._stored_sessions()}\n)"
        return f"(\nselect sessions.* from (\n{bounds}\n) as sessions\nwhere {self.trigger.needed_condition()}\n)"

    def open_ends_query(self) -> str:
        """Returns the query for the first and the last end of the windows that end after ``:watermark``, a local time, and
        for the number of their sessions."""
        end, start = (
            f"unix_micros({self._window_end_sql(SESSION_END)})",
            f"unix_micros({self.window_start_sql()})",
        )
        first = end
        if self.window.grows:
            first = f"greatest({start} + {self.window.step}, {self.window.first_end_after(':watermark')})"
        return (
            f"select min({first}) as first, max({end}) as last, count(*) as sessions\n"
            f"from (\n{self._stored_sessions()}\n)\nwhere {end} > :watermark"
        )

    def stored_rows_with_sessions(self, part: str, columns: Sequence[str], sessions: str) -> str:
        """Returns stored rows, each with the session that it is in.

        Args:
            part: the state table.
            columns: select items. Columns of the session are qualified by ``sessions``.
            sessions: relation with the sessions' bounds.
        """
        same = [f"state.{key} <=> sessions.{key}" for key in self.keys]
        same.append(f"state.{SESSION_END} between sessions.{MERGE_FROM} and sessions.{SESSION_END}")
        return (
            f"select {', '.join(columns)}\nfrom (select * from state where part = '{part}') as state\n"
            f"join {sessions} as sessions on {' and '.join(same)}"
        )

    def _stored_sessions(self, only: str = "") -> str:
        """Returns the sessions of stored rows, with their bounds."""
        rows = f"(select distinct {', '.join(self.columns)} from state {only}\nwhere part = '{self._part}')"
        return (
            f"select {', '.join([*self.keys, ''])}min({SESSION_START}) as {SESSION_START}, "
            f"max({SESSION_END}) as {SESSION_END}, min({MERGE_FROM}) as {MERGE_FROM}\n"
            f"from (\n{self._numbered_sessions(rows, MERGE_FROM, SESSION_END)}\n)\n"
            f"group by {', '.join([*self.keys, 'session'])}"
        )

    def _numbered_sessions(self, relation: str, since: str, until: str) -> str:
        """Returns `relation` with a number ``session`` that rows with overlapping or touching bounds share."""
        order = f"order by {since}, {until}"
        latest = f"max({until}) over ({self._by}{order} rows between unbounded preceding and 1 preceding)"
        return (
            f"select *, sum(opens) over ({self._by}{order}) as session\n"
            f"from (select *, case when {since} <= {latest} then 0 else 1 end as opens from {relation})"
        )

    def _time_item(self, column: str, name: str, later: int = 0) -> str:
        return f"timestamp_micros({self.window.micros(column)}{f' + {later}' if later else ''}) as {name}"

    def window_start_sql(self) -> str:
        """SQL of a window's start, from the start of its session."""
        return f"timestamp_micros({self.window.start_of_first(f'unix_micros({SESSION_START})')})"

    def _window_end_sql(self, column: str) -> str:
        return (
            f"timestamp_micros({self.window.end_of_last(f'unix_micros({column})')})"
            if self.window.grows
            else column
        )


class InSessions(WindowSteps):
    """Windows whose bounds are those of sessions."""

    sessions: Sessions

    def open_sessions(self) -> list[Step]:
        """Returns the step with the open sessions."""
        return [self.sessions.open_step(self.spec.rows)]

    def rows_sql(self, raw: str, clock: bool) -> str:
        """Returns the rows with their sessions."""
        return self.sessions.new_rows_with_sessions(raw, clock)

    def _open_ends_query(self) -> str:
        return self.sessions.open_ends_query()


class SessionWindows(InSessions, SlicedWindows):
    """Steps and state of a window aggregation over sessions."""

    def __init__(self, spec: WindowAggregateSpec, name: str, emission: Emission) -> None:
        super().__init__(spec, name, emission)
        self.sessions = Sessions(spec, self.part, self.trigger)
        self.slice = [EXPIRES_AT, *self.sessions.columns, *([SLICE_END] if self.window.grows else [])]
        self.window_keys = ["start_micros", "end_micros"]

    def emit_steps(self) -> list[Step]:
        """Returns the steps that emit the closed windows."""
        return [self.sessions.firing_step(), *super().emit_steps()]

    def _emitting_steps(self, clock: bool) -> list[Step]:
        counted = [
            Step(self._new_values_view(m), self._first_occurrences(m, clock)) for m in self.spec.distinct_sets
        ]
        return [*(counted if self.window.grows else []), *super()._emitting_steps(clock)]

    def _start_sql(self) -> str:
        return super()._start_sql() if self.window.grows else "start_micros"

    def _rows_of_closing_windows(self, part: str, columns: str, clock: bool) -> str:
        """Returns the rows of a state table with the bounds of their sessions: of the sessions that the watermark closes or,
        without a `clock`, of all sessions."""
        bounds = [
            f"unix_micros({{0}}{SESSION_START}) as start_micros",
            f"unix_micros({{0}}{SESSION_END}) as end_micros",
        ]
        qualifier = "sessions." if clock else ""
        listed = [columns, *(bound.format(qualifier) for bound in bounds)]
        if not clock:
            return f"select {', '.join(listed)} from {part}"
        return self.sessions.stored_rows_with_sessions(part, listed, self.sessions.name)

    # -- dynamic_cumulate --------------------------------------------------------------------------

    def _rows_in_windows(self, part: str, columns: Sequence[str], clock: bool) -> str:
        """Returns rows of a state table, each with its window and the end of its slice: the window's results have the row
        from then on."""
        qualifier = "sessions." if clock else ""
        listed = [f"{qualifier}{EXPIRES_AT}", f"{qualifier}{WINDOW_START}", SLICE_END, *columns]
        if clock:
            return self.sessions.stored_rows_with_sessions(part, listed, self.sessions.name)
        start = self.sessions.window_start_sql()
        return f"select {', '.join(listed)} from (select *, {start} as {WINDOW_START} from {part})"

    def _first_occurrences(self, members: DistinctSet, clock: bool) -> str:
        """Returns the first occurrence of each value in its window."""
        values = self._value_columns(members)
        columns = [*self._set_keys(), *values, *self._flag_columns(members)]
        rows = self._rows_in_windows(self._set_table(members), columns, clock)
        fixed = [EXPIRES_AT, WINDOW_START, *values]
        keys, by = self._stored_set_keys(fixed)
        firsts = [
            f"min({SLICE_END}) filter (where {flag}) as {first}"
            for flag, first in zip(self._flag_columns(members), self._first_slices(members), strict=True)
        ]
        return f"select {', '.join([*fixed, *keys, *firsts])}\nfrom (\n{rows}\n)\n{by}"

    def _open_slices(self, clock: bool) -> str:
        stored = set(self._stored_columns())
        columns = [quote(c) if c in stored else f"null as {quote(c)}" for c in self._all_columns()]
        branches = [self._rows_in_windows(self.part, [*self.keys, *columns], clock)]
        branches += [self._slice_changes(members, True) for members in self.spec.distinct_sets]
        return f"(\n{self._union_all(branches)}\n)"

    # -- compaction --------------------------------------------------------------------------------

    def _with_session_bounds(self, part: str, columns: Sequence[str]) -> str:
        """Returns stored rows of open sessions, each with its session's bounds."""
        of_session = [f"sessions.{column}" for column in (*self.sessions.columns, EXPIRES_AT)]
        if self.window.grows:
            columns = [*columns, f"{SLICE_END} as row_{SLICE_END}"]
        rows = self.sessions.stored_rows_with_sessions(
            part, [*of_session, *columns], self.sessions.open_after_batch()
        )
        if not self.window.grows:
            return f"(\n{rows}\n)"
        slice_end = self._emitted_slice_sql(f"row_{SLICE_END}")
        return f"(select *, {slice_end} as {SLICE_END} from (\n{rows}\n))"

    def _fold_slices(self) -> str:
        columns = [*self.keys, *map(quote, self._stored_columns())]
        return self._merged_rows(self._with_session_bounds(self.part, columns), [*self.slice, *self.keys])

    def _fold_values(self, members: DistinctSet) -> str:
        columns = [*self._set_keys(), *self._value_columns(members)]
        rows = self._with_session_bounds(self._set_table(members), [*columns, *self._flag_columns(members)])
        identity = ", ".join([*self.slice, *columns])
        made = [f"bool_or({flag}) as {flag}" for flag in self._flag_columns(members)]
        return f"select {', '.join([identity, *made])}\nfrom {rows}\ngroup by {identity}"
