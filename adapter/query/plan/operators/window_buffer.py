"""`WindowBuffer`: rows that are stored until their windows close, for queries that can't be stored as partial
aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....util.quoting import quote
from ...aggregates.aggregate_builder import SESSION_END, SLICE_END, WINDOW_START
from ...program import EXPIRES_AT, NEW_STATE, StateNames, StatePart, Step
from ...windows.emission import FINAL, Emission
from ..explanation import RETRACT, Changelog, Context, Explanation
from ..state.ranking import first_rows
from ..state.sessions import InSessions, Sessions
from ..state.window_steps import WindowBufferSpec, WindowSteps
from ..state.window_trigger import WindowTrigger, window_column_items
from ..window_operator import WindowOperator


@dataclass(frozen=True, kw_only=True)
class WindowBuffer(WindowOperator):
    """Rows of open windows, for queries that can't be computed from partial aggregates. Keeps those rows; for
    a ranking only the first ones."""

    spec: WindowBufferSpec

    def window_steps(self, emission: Emission = FINAL, names: StateNames = NEW_STATE) -> BufferedWindows:
        """Returns the steps and state of windows whose bounds are known, or of sessions."""
        kind = SessionBuffer if self.spec.window.merges else BufferedWindows
        return kind(self.spec, names.get(self.name, self.name), emission)

    @property
    def source(self) -> str:
        """Text of the input rows, without the names of their relations if they are known."""
        return self.spec.plain or self.spec.source

    def definition(self, below: Mapping[str, str]) -> dict[str, object]:
        """Returns what identifies the stored rows, without their name."""
        top = self.spec.top
        return {
            **super().definition(below),
            "top": top and [top.function, list(top.partition), top.order, top.rows],
        }

    def explain(self, context: Context) -> Explanation:
        """Returns its windows, the rows that are stored, and why."""
        spec, top = self.spec, self.spec.top
        rows = "a row of open windows, stored once even if it is in several"
        notes = [f"Why rows are kept: {spec.reason}."]
        if top is not None:
            named = [key.replace("`row`.", "").replace("`", "") for key in top.partition]
            per = f" per {', '.join(named)}" if named else ""
            rows = f"a row that is among the first {top.rows} of its slice{per}"
            notes.append("No other row can be in the ranking.")
            if top.buckets is not None:
                notes.append(f"Rows are ranked in {top.buckets} buckets first.")
        state = context.state_tables({}, (rows, self.clearing_phrase(context)))
        found = self.explanation(
            context, f"{spec.window}{self.rows_suffix()}", state=state, notes=tuple(notes)
        )
        # Nothing identifies a row of a window.
        return replace(found, changelog=Changelog(RETRACT)) if context.emission.may_update_results else found


class BufferedWindows(WindowSteps):
    """Steps and state of a `WindowBufferSpec`.

    Args:
        name: begins the name of its state table.
    """

    spec: WindowBufferSpec

    def __init__(self, spec: WindowBufferSpec, name: str, emission: Emission) -> None:
        self.spec = spec
        self.window = spec.window
        self.trigger = WindowTrigger(spec.window, emission)
        self.part, self.rows = f"{name}_rows", f"{spec.name}_rows"
        self.windows_step = spec.name
        # Rows of other windows may have other columns.
        self.kept_row = quote(f"{name}_row")

    def parts(self) -> list[StatePart]:
        """Returns the state table. Each row is stored once, though it may be in many windows."""
        columns, stored = f"{EXPIRES_AT}, {SLICE_END}, `row`", f"{EXPIRES_AT}, {SLICE_END}, {self.kept_row}"
        into_state = f"{EXPIRES_AT}, {SLICE_END}, `row` as {self.kept_row}"
        new = f"select {columns} from {self.rows}"
        from_state = f"from state where part = '{self.part}' and {self.trigger.needed_condition()}"
        append, initial = f"select {into_state} from {self.rows}", None
        fold = f"select {stored} {from_state}"
        if self.spec.top is not None:
            stored_rows = f"select {EXPIRES_AT}, {SLICE_END}, {self.kept_row} as `row` {from_state}"
            both = f"select *, true as fresh from (\n{new}\n)\nunion all\nselect *, false as fresh from (\n{stored_rows}\n)"
            append = f"select {into_state} from (\n{self._first_rows(both)}\n) where fresh"
            fold = f"select {into_state} from (\n{self._first_rows(stored_rows)}\n)"
            initial = f"select {into_state} from (\n{self._first_rows(new)}\n)"
        return [StatePart(self.part, append, fold, initial, time_zone=self.window.time_zone)]

    def _first_rows(self, rows: str) -> str:
        """Returns the rows that may be in the ranking."""
        top = self.spec.top
        assert top is not None
        return first_rows(rows, top, [SLICE_END, *top.partition], "`row`")

    def emit_steps(self) -> list[Step]:
        """Returns the steps with the rows of the closed windows."""
        return [self._window_rows_step(clock=True)]

    def batch_steps(self) -> list[Step]:
        """Returns the steps with the rows of all windows."""
        return [self._window_rows_step(clock=False)]

    def _window_rows_step(self, clock: bool) -> Step:
        relation = self.rows
        if clock:
            relation = f"(select *, {self.kept_row} as `row` from state where part = '{self.part}')"
        closing = self.trigger.rows_per_firing_window(relation, "`row`", clock)
        start = self.window.start("(end_micros - 1)") if self.window.grows else None
        return self._emitting_step(closing, start or f"end_micros - {self.window.size}")

    def _emitting_step(self, closing: str, start: str) -> Step:
        columns = ",\n  ".join(["`row`.*", *window_column_items(self.window, start)])
        return Step(self.spec.name, f"select {columns}\nfrom (\n{closing}\n)")


class SessionBuffer(InSessions, BufferedWindows):
    """Steps and state of a `WindowBufferSpec` over sessions."""

    def __init__(self, spec: WindowBufferSpec, name: str, emission: Emission) -> None:
        super().__init__(spec, name, emission)
        self.sessions = Sessions(spec, self.part, self.trigger)
        self.slice_columns = [SLICE_END] if self.window.grows else []

    def parts(self) -> list[StatePart]:
        """Returns the state table: rows with the bounds that their session had when they arrived."""
        columns = [EXPIRES_AT, *self.sessions.columns, *self.slice_columns]
        of_session = [f"sessions.{column}" for column in (EXPIRES_AT, *self.sessions.columns)]
        fold = self.sessions.stored_rows_with_sessions(
            self.part, [*of_session, *self.slice_columns, self.kept_row], self.sessions.open_after_batch()
        )
        append = f"select {', '.join([*columns, '`row`'])} as {self.kept_row} from {self.rows}"
        return [StatePart(self.part, append, fold, time_zone=self.window.time_zone)]

    def emit_steps(self) -> list[Step]:
        """Returns the steps with the rows of the closed windows."""
        return [self.sessions.firing_step(), *super().emit_steps()]

    def _window_rows_step(self, clock: bool) -> Step:
        qualifier = "sessions." if clock else ""
        bounds = [f"{qualifier}{WINDOW_START}", f"{qualifier}{EXPIRES_AT}"]
        if clock:
            columns = [f"{self.kept_row} as `row`", *bounds, *self.slice_columns]
            rows = self.sessions.stored_rows_with_sessions(self.part, columns, self.sessions.name)
        else:
            rows = f"select `row`, {self.sessions.window_start_sql()} as {WINDOW_START}, {EXPIRES_AT}, {SESSION_END}"
            rows = ", ".join([rows, *self.slice_columns]) + f" from {self.rows}"
        start, last = f"unix_micros({WINDOW_START})", f"unix_micros({EXPIRES_AT})"
        items = ["`row`", f"{start} as start_micros"]
        if self.window.grows:
            first = f"unix_micros({SLICE_END})"
            closing = self.trigger.rows_per_firing_end(f"(\n{rows}\n)", items, first, last, clock, last)
        else:
            closing = f"select {', '.join(items)}, {last} as end_micros from (\n{rows}\n)"
        return self._emitting_step(closing, "start_micros")
