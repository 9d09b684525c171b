"""The window functions: the arithmetic of windows and slices, as SQL over BIGINT microseconds since 1970.

A row belongs to exactly one *slice*; a window is a run of slices (Apache Flink calls this slice
sharing). The bounds of a session are found from its rows instead (`sessions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...util.quoting import quote, quote_time, shown_time
from ..sql import instants, intervals

_MINUTE = 60_000_000
KINDS = ("tumble", "hop", "cumulate", "session", "dynamic_cumulate")
STREAM = "stream"
"""The hint that marks a relation as a stream without giving it windows."""


OPTIONS = {"emit": "emit ", "time_zone": "time zone "}
"""What a literal in a hint starts with, after the lengths."""


@dataclass(frozen=True)
class Window:
    """A window function over a time column. Lengths are in microseconds.

    `size` is the length of a window (of the longest one for cumulate), or the gap that ends it. `step`
    is the distance of window ends: the size for tumble, the slide for hop, nothing for session.

    With a `time_zone` windows are cut on its wall clock: all arithmetic is on what the clock shows,
    and only `instant` and `latest_instant` lead back.
    """

    kind: str
    time_col: str
    size: int
    step: int
    offset: int = 0
    emit: str = "every_step"
    partition_by: tuple[str, ...] = ()
    time_zone: str | None = None

    @property
    def time(self) -> str:
        """SQL of the time column."""
        return quote_time(self.time_col)

    @property
    def slice(self) -> int:
        """The length of a slice."""
        return gcd(self.size, self.step) if self.kind == "hop" else self.step

    @property
    def phase(self) -> int:
        """Where the first window end after 1970 lies."""
        return 0 if self.merges else (self.offset + self.size) % self.step

    @property
    def grows(self) -> bool:
        """Whether windows with the same start follow each other, each holding the one before."""
        return self.kind in ("cumulate", "dynamic_cumulate")

    @property
    def merges(self) -> bool:
        """Whether its bounds depend on its rows: a row may make two windows one."""
        return self.kind in ("session", "dynamic_cumulate")

    def micros(self, column: str) -> str:
        """SQL for a time as microseconds of the clock that windows are cut on."""
        instant = f"cast({column} as timestamp)"  # a TIMESTAMP_NTZ is taken in the session's zone
        if self.time_zone:
            # Moved to a clock, one at the end of what a BIGINT can hold would fail.
            usable = f"case when {instants.is_usable(instant)} then {instant} end"
            instant = f"from_utc_timestamp({usable}, '{self.time_zone}')"
        return f"unix_micros({instant})"

    def instant(self, micros: str) -> str:
        """SQL for the instant from which on the clock shows a time or a later one, the first where it does so twice: of a
        time that is left out, when the clock is put forward."""
        if not self.time_zone:
            return f"timestamp_micros({micros})"
        near = self._near(micros)
        # Spark takes what is left out to be as much later. By how much the clock is ahead after that, it is from when on.
        ahead = f"({self._clock(near)} - unix_micros({near}))"
        first = f"{micros} - {ahead}"
        minutes = f"sequence({first} - pmod({first}, {_MINUTE}), unix_micros({near}), {_MINUTE})"
        changed = f"__minute -> {self._clock('timestamp_micros(__minute)')} - __minute = {ahead}"
        forward = f"timestamp_micros(array_min(filter({minutes}, {changed})))"
        return f"case when {self.micros(near)} <> {micros} then {forward} else {near} end"

    def latest_instant(self, micros: str) -> str:
        """The same, the last one where it does so twice: when a window that ends there has all its rows."""
        first = self.instant(micros)
        if not self.time_zone:
            return first
        # Where a clock that is put back soon will have been put back by then.
        later = f"({self._near(micros)} + interval 3 hours)"
        again = f"timestamp_micros({micros} - ({self.micros(later)} - unix_micros({later})))"
        return f"case when {self.micros(again)} = {micros} then {again} else {first} end"

    def shown(self, micros: str) -> str | None:
        """SQL for whether the clock ever shows a time; None: it shows all."""
        return f"{self.micros(self._near(micros))} = {micros}" if self.time_zone else None

    def next_shown(self, micros: str) -> str:
        """SQL for the first time that the clock shows from a time on."""
        if not self.time_zone:
            return micros
        return f"case when {self.shown(micros)} then {micros} else {self._clock(self.instant(micros))} end"

    def _near(self, micros: str) -> str:
        return f"to_utc_timestamp(timestamp_micros({micros}), '{self.time_zone}')"

    def _clock(self, instant: str) -> str:
        """As `micros`, of an instant that is known to be usable."""
        return f"unix_micros(from_utc_timestamp({instant}, '{self.time_zone}'))"

    def slice_end(self, micros: str) -> str:
        """SQL for the end of the slice an instant lies in."""
        return f"{micros} - {_pmod(micros, self.offset, self.slice)} + {self.slice}"

    def start(self, micros: str) -> str:
        """SQL for the start of the window (of the longest one) an instant lies in; not for hop."""
        return f"{micros} - {_pmod(micros, self.offset, self.size)}"

    def first_end(self, slice_end: str) -> str:
        """SQL for the end of the first window that holds a slice."""
        if self.kind != "hop":
            return slice_end
        return f"{slice_end} + {_pmod(f'-({slice_end})', -(self.offset + self.size), self.step)}"

    def last_end(self, slice_end: str) -> str:
        """SQL for the end of the last window that holds a slice."""
        if self.kind == "tumble":
            return slice_end
        if self.kind == "cumulate":
            return f"{self.start(f'({slice_end} - 1)')} + {self.size}"
        return self.end_until(f"({slice_end} + {self.size - self.slice})")

    def end_until(self, micros: str) -> str:
        """SQL for the last window end at or before an instant."""
        return f"{micros} - {_pmod(micros, self.phase, self.step)}"

    def end_after(self, micros: str) -> str:
        """SQL for the first window end after an instant."""
        return f"{self.end_until(micros)} + {self.step}"

    def start_of_first(self, micros: str) -> str:
        """SQL for the start of the session that begins with a row; for windows that merge."""
        return f"{micros} - {_pmod(micros, 0, self.step)}" if self.grows else micros

    def end_of_last(self, micros: str) -> str:
        """SQL for the end of the session whose rows and gap end at an instant; for windows that merge."""
        return f"{micros} + {_pmod(f'-({micros})', 0, self.step)}" if self.grows else micros

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths its macro takes, in order."""
        return (self.size,) if self.kind in ("tumble", "session") else (self.step, self.size)

    def hint(self) -> str:
        """The hint that carries this window through the compiled text."""
        arguments = [f"'{intervals.format(length)}'" for length in self.lengths]
        if not self.merges:
            arguments.append(f"'{intervals.format(self.offset)}'")
        arguments += [f"'{OPTIONS[name]}{value}'" for name, value in self._options()]
        arguments += map(quote, self.partition_by)
        return f"{self.kind.upper()}({self.time}, {', '.join(arguments)})"

    def _options(self) -> list[tuple[str, str]]:
        options = [("emit", self.emit)] if self.emit != "every_step" else []
        return [*options, *([("time_zone", self.time_zone)] if self.time_zone else [])]

    def __str__(self) -> str:
        words = [shown_time(self.time_col), *map(intervals.format, self.lengths)]
        if self.offset:
            words.append(f"offset {intervals.format(self.offset)}")
        words += [f"{name.replace('_', ' ')} {value}" for name, value in self._options()]
        if self.partition_by:
            words.append(f"partition by {', '.join(self.partition_by)}")
        return f"{self.kind}({', '.join(words)})"


def _pmod(micros: str, offset: int, modulus: int) -> str:
    offset %= modulus
    return f"pmod({micros}{f' - {offset}' if offset else ''}, {modulus})"
