"""SQL predicates for the windows that fire in a micro-batch, and the state that is cleared after it."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ...program import EXPIRES_AT, Boundaries, clock_column, clock_sql
from ...sql.intervals import DAY
from ...windows.emission import FINAL, Emission
from ...windows.windows import Window

NOW_BEFORE, NOW_AFTER = "now_micros_before", "now_micros_after"
"""Columns with the watermark in microseconds since 1970."""


class WindowTrigger:
    """Decides when windows fire and when their state is cleared, from the columns of ``clock``.

    State is cleared `Emission.last` after a window's end. ``watermark_before`` and ``watermark_after`` are delayed by
    that much, so state is cleared when they reach its time. ``now_before`` and ``now_after`` aren't delayed.
    """

    def __init__(self, window: Window, emission: Emission = FINAL) -> None:
        self.window, self.emission = window, emission
        self.before = clock_sql(clock_column("watermark_before", window.time_zone))
        self.after = clock_sql(clock_column("watermark_after", window.time_zone))
        self._now_before = f"unix_micros({clock_sql('now_before')})"
        self._now_after = f"unix_micros({clock_sql('now_after')})"
        # Local times in the window's time zone.
        self._shown_before = f"unix_micros({clock_sql(clock_column('now_before', window.time_zone))})"
        self._shown_after = f"unix_micros({clock_sql(clock_column('now_after', window.time_zone))})"

    @property
    def boundaries(self) -> tuple[Boundaries, ...] | None:
        """Returns the watermarks at which results may be emitted; None for any.

        >>> tumble = Window("tumble", "ts", 60, 60)
        >>> WindowTrigger(tumble).boundaries
        (Boundaries(step=60, offset=0, time_zone=None, extra_delay=0),)
        >>> len(WindowTrigger(tumble, Emission(first=-50, update=10)).boundaries)
        2
        """
        if self.emission.late_updates:
            return None
        first, update, complete = self.emission.first, self.emission.update, self.emission.complete
        step, phase = self.window.step, self.window.phase
        if zone := self.window.time_zone:
            # Where a clock is changed, an hour later isn't the local time an hour later.
            return (Boundaries(step, phase, zone, complete),) if first is None else None
        found = [(step, phase + complete)]
        if first is not None:
            # A window ends at each step, so early firings are at multiples of one length.
            found.append((gcd(step, update) if update else step, phase + first))
        return tuple(dict.fromkeys(Boundaries(length, at % length) for length, at in found))

    def needed_condition(self) -> str:
        """SQL predicate: a state row is still needed after the batch."""
        return f"({self.after} is null or {EXPIRES_AT} > {self.after})"

    def first_unfired_end(self) -> str:
        """SQL of the first window end whose result still includes a late row."""
        return self.window.first_end_after(f"unix_micros({self.before})")

    def last_cleared_end(self) -> str:
        """SQL of the last window end whose state is cleared after the batch."""
        return self.window.last_end_until(f"unix_micros({self.after})")

    def firing_condition(self, column: str) -> str:
        """SQL predicate: a window with this end emits a result."""
        return (
            self._firing_due_condition(f"unix_micros({column})")
            if self.emission.may_update_results
            else self.may_fire_condition(column, column)
        )

    def may_fire_condition(self, first: str, last: str) -> str:
        """SQL predicate: a window that ends from `first` to `last` may emit a result."""
        if not self.emission.may_update_results:
            return f"{first} <= {self.after} and ({self.before} is null or {last} > {self.before})"
        alive = f"({self._shown_before} is null or unix_micros({last}) > {self._cleared_until_sql()})"
        return (
            alive
            if self.emission.at_once
            else f"unix_micros({first}) <= {self._firing_until_sql()} and {alive}"
        )

    def rows_per_firing_window(self, relation: str, columns: str, clock: bool) -> str:
        """Returns rows of slices, each once per firing window that has the slice, with the window's end as ``end_micros``.

        `relation` has a column ``slice_end``. Without a `clock` all windows fire.
        """
        window, end = self.window, "unix_micros(slice_end)"
        if window.is_one_slice:
            rows = f"select {columns}, {end} as end_micros from {relation}"
            return f"{rows}\nwhere {self.firing_condition('slice_end')}" if clock else rows
        first, last = window.first_end(f"({end})"), window.last_end(f"({end})")
        return self.rows_per_firing_end(relation, [columns], first, last, clock, last)

    def rows_per_firing_end(
        self, relation: str, columns: Sequence[str], first: str, last: str, clock: bool, final: str
    ) -> str:
        """Returns the rows of `relation`, each once per firing window end in [first, last], as ``end_micros``.

        `final` is the last end of the longest window. It fires even if its local time doesn't exist.
        """
        window = self.window
        ends = f"sequence({first}, {last}, {window.step})"
        if clock:
            ends = f"sequence(first_micros, last_micros, {window.step})"
        if window.grows and (exists := window.local_time_exists("each")):
            ends = f"filter({ends}, each -> {exists} or each = {final})"
        if clock and self.emission.may_update_results:
            # Subqueries aren't allowed in a lambda.
            ends = f"filter({ends}, each -> {self._firing_due_condition('each', NOW_BEFORE, NOW_AFTER)})"
        rows = f"select {', '.join(columns)}, explode({ends}) as end_micros\nfrom "
        if not clock:
            return f"{rows}{relation}"
        after_it, until, watermarks = self.first_unfired_end(), self.last_cleared_end(), ""
        if self.emission.may_update_results:
            after_it, until = (
                window.first_end_after(f"({self._cleared_until_sql()})"),
                last if self.emission.at_once else window.last_end_until(f"({self._firing_until_sql()})"),
            )
            watermarks = f", {self._now_before} as {NOW_BEFORE}, {self._now_after} as {NOW_AFTER}"
        # greatest() and least() ignore NULL: without a watermark before, everything is new.
        return (
            f"{rows}(\n"
            f"  select *,\n"
            f"    greatest({first}, {after_it}) as first_micros,\n"
            f"    least({last}, {until}) as last_micros{watermarks}\n"
            f"  from {relation}\n"
            f")\n"
            f"where first_micros <= last_micros"
        )

    def _cleared_until_sql(self) -> str:
        """SQL of a local time: windows that end by then were cleared before the batch."""
        return f"{self._shown_before} - {self.emission.last + self._largest_shift_of_clocks}"

    def _firing_until_sql(self) -> str:
        """SQL of a local time: windows that end after it don't fire up to this batch."""
        return _minus_sql(self._shown_after, self._first_firing - self._largest_shift_of_clocks)

    @property
    def _first_firing(self) -> int:
        """Microseconds from a window's end to its first result; negative for early firing."""
        return self.emission.complete if self.emission.first is None else self.emission.first

    @property
    def _largest_shift_of_clocks(self) -> int:
        """Microseconds by which a length of local time may differ from the time that passes."""
        return DAY if self.window.time_zone else 0

    def _firing_due_condition(self, end: str, before: str | None = None, after: str | None = None) -> str:
        """SQL predicate: a window fires in this batch. `before` and `after` are watermarks: instants, not local times."""
        before, after = before or self._now_before, after or self._now_after
        if self.window.time_zone:
            end = f"unix_micros({self.window.latest_instant(end)})"
        return firing_due_condition(self.emission, end, before, after)


def latest_firing_sql(emission: Emission, end: str, at: str) -> str:
    """SQL of a window's latest firing time that the watermark `at` has reached; NULL if there is none."""
    complete = f"{end} + {emission.complete}"
    passed = f"when {at} >= {complete} then {complete}"
    if emission.first is not None:
        first = f"{end} + {emission.first}"
        more = f" + ({at} - ({first})) div {emission.update} * {emission.update}" if emission.update else ""
        passed += f" when {at} >= {first} then {first}{more}"
    return f"case {passed} end"


def firing_due_condition(emission: Emission, end: str, before: str, after: str) -> str:
    """SQL predicate: a window fires between two watermarks. All times are in microseconds."""
    if emission.at_once:
        return f"coalesce({end} + {emission.last} > {before}, true)"
    first = emission.complete if emission.first is None else emission.first
    fired = latest_firing_sql(emission, end, after)
    is_due = f"coalesce({fired} > {before}, {before} is null and {end} <= {_minus_sql(after, first)})"
    if not emission.late_updates:
        return f"coalesce({is_due}, false)"
    # Until it is cleared, a window fires in each micro-batch; a result that is the same isn't written.
    late = f"{after} >= {end} + {emission.complete} and {end} + {emission.last} > {before}"
    return f"coalesce({is_due} or ({late}), false)"


def _minus_sql(micros: str, length: int) -> str:
    return f"{micros} - {length}" if length >= 0 else f"{micros} + {-length}"


def window_column_items(window: Window, start: str) -> list[str]:
    """Select items for the user's window columns, from the start and ``end_micros``."""
    end = window.latest_instant("end_micros")
    return [
        f"{window.instant(start)} as window_start",
        f"{end} as window_end",
        f"{end} - interval 1 microsecond as window_time",
    ]
