"""Windowing TVFs: arithmetic of windows and slices, as SQL over BIGINT microseconds since 1970.

A row belongs to exactly one *slice*; a window is a sequence of slices (Apache Flink calls this slice sharing). The
bounds of a session depend on its rows instead (`sessions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...util.quoting import quote, quote_time, time_name_text
from ..sql import instants, intervals

_MINUTE = 60_000_000
KINDS = ("tumble", "hop", "cumulate", "session", "dynamic_cumulate")
AS_OF = "as_of"
"""Name of the hint of a temporal join's versions."""
STREAM = "stream"
"""Hint that marks a relation as a stream without windows."""


OPTIONS = {"emit": "emit ", "time_zone": "time zone "}
"""Option → prefix of its literal in a hint. Such literals come after the lengths."""


_MANY_WINDOWS = 8
"""So many windows per row make slices worth their while (`bench/slices.py`)."""


@dataclass(frozen=True)
class Window:
    """A windowing TVF over a time column. Lengths are in microseconds.

    `size` is the length of a window (of the longest one for cumulate), or a session's gap. `step` is the distance
    between window ends: the size for tumble, the slide for hop, 1 for session.

    With a `time_zone`, windows are cut in its local time: all arithmetic is on local times, and only `instant` and
    `latest_instant` convert back.

    >>> Window("hop", "ts", size=15, step=10).slice_length, Window("cumulate", "ts", size=60, step=10).slice_length
    (5, 10)
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
    def slice_length(self) -> int:
        """Length of a slice."""
        return gcd(self.size, self.step) if self.kind == "hop" else self.step

    @property
    def phase(self) -> int:
        """Distance from 1970 to the first window end after it."""
        return 0 if self.merges else (self.offset + self.size) % self.step

    @property
    def grows(self) -> bool:
        """Whether windows with the same start follow each other, each containing the previous one."""
        return self.kind in ("cumulate", "dynamic_cumulate")

    @property
    def merges(self) -> bool:
        """Whether the bounds depend on the rows: a row may merge two windows."""
        return self.kind in ("session", "dynamic_cumulate")

    @property
    def is_one_slice(self) -> bool:
        """Whether each slice is a window, so that a row's time gives both of its bounds."""
        return self.kind == "tumble"

    @property
    def is_highly_overlapping(self) -> bool:
        """Whether each row is in so many windows that computing them from slices takes less time than from rows.

        >>> Window("hop", "ts", size=60, step=10).is_highly_overlapping
        False
        >>> Window("cumulate", "ts", size=60, step=1).is_highly_overlapping
        True
        """
        return self.kind == "dynamic_cumulate" or (
            not self.merges and self.size // self.step >= _MANY_WINDOWS
        )

    @property
    def has_known_start(self) -> bool:
        """Whether windows grow from a start that a row's time gives."""
        return self.grows and not self.merges

    @property
    def unit(self) -> int:
        """Microseconds that count as one window: for cumulate the longest size, for session the gap."""
        return self.step if self.kind in ("tumble", "hop") else self.size

    @property
    def end_of_state(self) -> str:
        """What clears the state of a window, in words."""
        if self.merges:
            return "session end"
        if self.is_one_slice:
            return "window end"
        return "end of the longest window" if self.grows else "end of its last window"

    def micros(self, column: str) -> str:
        """SQL of a time as microseconds in the window's time zone."""
        instant = f"cast({column} as timestamp)"  # a TIMESTAMP_NTZ is in the session's time zone
        if self.time_zone:
            # Converting a time at the limits of BIGINT to a time zone would fail.
            usable = f"case when {instants.usable_time_condition(instant)} then {instant} end"
            instant = f"from_utc_timestamp({usable}, '{self.time_zone}')"
        return f"unix_micros({instant})"

    def instant(self, micros: str) -> str:
        """SQL of the first instant at which the local time is at least `micros`: the earlier one if it occurs twice,
        and the instant of the clock change if it is skipped."""
        if not self.time_zone:
            return f"timestamp_micros({micros})"
        near = self._nearest_instant_sql(micros)
        # For a skipped time Spark returns one that is later by the length of the gap. The first instant after the change is
        # the first minute with the new offset: a minute of UTC, or of the local time before the change, whose offset may
        # have seconds (Africa/Monrovia until 1972).
        ahead = f"({self._local_micros_sql(near)} - unix_micros({near}))"
        first = f"{micros} - {ahead}"
        minutes = ", ".join(
            f"sequence({first} - pmod({first}{before}, {_MINUTE}), unix_micros({near}), {_MINUTE})"
            for before in ("", f" + {micros} - unix_micros({near})")
        )
        changed = f"__minute -> {self._local_micros_sql('timestamp_micros(__minute)')} - __minute = {ahead}"
        forward = f"timestamp_micros(array_min(filter(concat({minutes}), {changed})))"
        return f"case when {self.micros(near)} <> {micros} then {forward} else {near} end"

    def latest_instant(self, micros: str) -> str:
        """SQL of the last instant at which the local time is `micros`: if it occurs twice, a window that ends then ends the
        second time."""
        first = self.instant(micros)
        if not self.time_zone:
            return first
        # If a clock is put back near this time, it has been put back three hours later.
        later = f"({self._nearest_instant_sql(micros)} + interval 3 hours)"
        second = f"timestamp_micros({micros} - ({self.micros(later)} - unix_micros({later})))"
        return f"case when {self.micros(second)} = {micros} then {second} else {first} end"

    def local_time_exists(self, micros: str) -> str | None:
        """SQL predicate: the local time exists; None without a time zone, where all times do."""
        return f"{self.micros(self._nearest_instant_sql(micros))} = {micros}" if self.time_zone else None

    def next_local_time(self, micros: str) -> str:
        """SQL of the first existing local time at or after a time."""
        if not self.time_zone:
            return micros
        later = self._local_micros_sql(self.instant(micros))
        return f"case when {self.local_time_exists(micros)} then {micros} else {later} end"

    def _nearest_instant_sql(self, micros: str) -> str:
        return f"to_utc_timestamp(timestamp_micros({micros}), '{self.time_zone}')"

    def _local_micros_sql(self, instant: str) -> str:
        """SQL of an instant that is known to be usable, as microseconds in the time zone."""
        return f"unix_micros(from_utc_timestamp({instant}, '{self.time_zone}'))"

    def slice_end(self, micros: str) -> str:
        """SQL of the end of an instant's slice."""
        return f"{micros} - {_pmod_sql(micros, self.offset, self.slice_length)} + {self.slice_length}"

    def start(self, micros: str) -> str:
        """SQL of the start of an instant's window (of the longest one). Not for hop."""
        return f"{micros} - {_pmod_sql(micros, self.offset, self.size)}"

    def first_end(self, slice_end: str) -> str:
        """SQL of the end of the first window that contains a slice.

        >>> hop = Window("hop", "ts", size=15, step=5)
        >>> hop.slice_end("t"), hop.first_end("e")
        ('t - pmod(t, 5) + 5', 'e + pmod(-(e), 5)')
        """
        if self.kind != "hop":
            return slice_end
        return f"{slice_end} + {_pmod_sql(f'-({slice_end})', -(self.offset + self.size), self.step)}"

    def last_end(self, slice_end: str) -> str:
        """SQL of the end of the last window that contains a slice."""
        if self.is_one_slice:
            return slice_end
        if self.has_known_start:
            return f"{self.start(f'({slice_end} - 1)')} + {self.size}"
        return self.last_end_until(f"({slice_end} + {self.size - self.slice_length})")

    def last_end_until(self, micros: str) -> str:
        """SQL of the last window end at or before an instant."""
        return f"{micros} - {_pmod_sql(micros, self.phase, self.step)}"

    def first_end_after(self, micros: str) -> str:
        """SQL of the first window end after an instant."""
        return f"{self.last_end_until(micros)} + {self.step}"

    def start_of_first(self, micros: str) -> str:
        """SQL of the start of a session's window, from the time of its first row. For windows that merge."""
        return f"{micros} - {_pmod_sql(micros, 0, self.step)}" if self.grows else micros

    def end_of_last(self, micros: str) -> str:
        """SQL of the end of a session's last window, from the time of its last row plus the gap. For windows that merge."""
        return f"{micros} + {_pmod_sql(f'-({micros})', 0, self.step)}" if self.grows else micros

    @property
    def lengths(self) -> tuple[int, ...]:
        """Returns the lengths that are arguments of the macro, in order."""
        return (self.size,) if self.kind in ("tumble", "session") else (self.step, self.size)

    def hint(self) -> str:
        """Returns the hint with this window for the compiled text.

        >>> Window("hop", "ts", 900_000_000, 300_000_000, time_zone="Europe/Berlin").hint()
        "HOP(`ts`, '5 minutes', '15 minutes', '0 seconds', 'time zone Europe/Berlin')"
        """
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
        words = [time_name_text(self.time_col), *map(intervals.format, self.lengths)]
        if self.offset:
            words.append(f"offset {intervals.format(self.offset)}")
        words += [f"{name.replace('_', ' ')} {value}" for name, value in self._options()]
        if self.partition_by:
            words.append(f"partition by {', '.join(self.partition_by)}")
        return f"{self.kind}({', '.join(words)})"


def _pmod_sql(micros: str, offset: int, modulus: int) -> str:
    offset %= modulus
    return f"pmod({micros}{f' - {offset}' if offset else ''}, {modulus})"
