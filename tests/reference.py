"""What the windows mean, in plain Python: an independent second opinion for the tests.

Nothing here knows of Spark, SQL or slices. A window is two instants, a row belongs to a list of
windows, and an aggregate is computed from the list of the rows themselves. Instants and intervals
are whole microseconds since 1970-01-01 00:00 UTC, as they are in Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

Row = Mapping[str, Any]
Key = tuple[Hashable, ...]
Aggregate = Callable[[Sequence[Row]], Any]


@dataclass(frozen=True, order=True)
class Window:
    """From `start` to `end`, without `end`."""

    start: int
    end: int


def window_start(ts: int, size: int, offset: int = 0) -> int:
    """The start of the fixed window that `ts` is in.

    >>> window_start(7, 10), window_start(-1, 10), window_start(7, 10, 6), window_start(7, 10, -4)
    (0, -10, 6, 6)
    """
    return ts - (ts - offset) % size


@dataclass(frozen=True)
class Tumble:
    """Fixed windows."""

    size: int
    offset: int = 0

    def windows(self, ts: int) -> list[Window]:
        start = window_start(ts, self.size, self.offset)
        return [Window(start, start + self.size)]


@dataclass(frozen=True)
class Hop:
    """Windows of `size`, a new one at each `slide`.

    >>> Hop(slide=5, size=10).windows(7)
    [Window(start=0, end=10), Window(start=5, end=15)]
    """

    slide: int
    size: int
    offset: int = 0

    def windows(self, ts: int) -> list[Window]:
        found = []
        start = window_start(ts, self.slide, self.offset)
        while start + self.size > ts:
            found.append(Window(start, start + self.size))
            start -= self.slide
        return sorted(found)


@dataclass(frozen=True)
class Cumulate:
    """Windows that begin together and end one `step` after the other, up to `max_size`.

    >>> Cumulate(step=2, max_size=6).windows(3)
    [Window(start=0, end=4), Window(start=0, end=6)]
    """

    step: int
    max_size: int
    offset: int = 0
    every_step: bool = True
    """Or only those in which a key has new rows."""

    def windows(self, ts: int) -> list[Window]:
        start = window_start(ts, self.max_size, self.offset)
        ends = range(start + self.step, start + self.max_size + 1, self.step)
        return [Window(start, end) for end in ends if end > ts]


Windows = Tumble | Hop | Cumulate


@dataclass(frozen=True)
class Session:
    """A window ends after `gap` without rows of its key."""

    gap: int

    def closes(self, last: int) -> int:
        """When the session is over whose last row is at `last`."""
        return last + self.gap

    def points(self, rows: Sequence[int]) -> list[Window]:
        """The windows of a session with rows at these times."""
        return [Window(min(rows), self.closes(max(rows)))]


@dataclass(frozen=True)
class DynamicCumulate:
    """A session whose running total is put out at each step.

    >>> DynamicCumulate(step=2, gap=3).points([1, 4])
    [Window(start=0, end=2), Window(start=0, end=4), Window(start=0, end=6), Window(start=0, end=8)]
    """

    step: int
    gap: int

    def closes(self, last: int) -> int:
        return last + self.gap + -(last + self.gap) % self.step

    def points(self, rows: Sequence[int]) -> list[Window]:
        start = window_start(min(rows), self.step)
        return [Window(start, end) for end in range(start + self.step, self.closes(max(rows)) + 1, self.step)]


Merging = Session | DynamicCumulate


def count(column: str | None = None, where: Callable[[Row], bool | None] | None = None) -> Aggregate:
    """COUNT(*) or COUNT(column), with FILTER."""

    def run(rows: Sequence[Row]) -> int:
        return sum(1 for row in _filtered(rows, where) if column is None or row[column] is not None)

    return run


def count_distinct(*columns: str, where: Callable[[Row], bool | None] | None = None) -> Aggregate:
    """COUNT(DISTINCT columns …) with FILTER: a row with a NULL in one of them does not count."""

    def run(rows: Sequence[Row]) -> int:
        seen = {tuple(row[column] for column in columns) for row in _filtered(rows, where)}
        return sum(1 for values in seen if all(value is not None for value in values))

    return run


def total(column: str, where: Callable[[Row], bool | None] | None = None) -> Aggregate:
    """SUM(column) with FILTER: NULL when there is no value."""
    return _of_values(column, where, sum)


def least(column: str, where: Callable[[Row], bool | None] | None = None) -> Aggregate:
    """MIN(column) with FILTER."""
    return _of_values(column, where, min)


def greatest(column: str, where: Callable[[Row], bool | None] | None = None) -> Aggregate:
    """MAX(column) with FILTER."""
    return _of_values(column, where, max)


def average(column: str, where: Callable[[Row], bool | None] | None = None) -> Aggregate:
    """AVG(column) with FILTER."""
    return _of_values(column, where, lambda values: sum(values) / len(values))


def _filtered(rows: Sequence[Row], where: Callable[[Row], bool | None] | None) -> list[Row]:
    return [row for row in rows if where is None or where(row)]


def _of_values(
    column: str, where: Callable[[Row], bool | None] | None, function: Callable[[list[Any]], Any]
) -> Aggregate:
    def run(rows: Sequence[Row]) -> Any:
        values = [row[column] for row in _filtered(rows, where) if row[column] is not None]
        return function(values) if values else None

    return run


@dataclass
class Stream:
    """A window aggregate that is fed batch by batch, as the contract describes it.

    `feed` takes the rows of one micro-batch and gives back what it puts out: one row for each
    window and key whose window the watermark passed. `flush` closes the windows that are left.
    The rows are `(window_start, window_end, *keys, *aggregates)`.

    A row that is late for some of its windows is in the others only, and one that is late for all
    is dropped and counted. It is late for a window whose end the watermark had passed *before*
    the batch.
    """

    windows: Windows
    keys: Sequence[str]
    aggregates: Sequence[Aggregate]
    time: str = "ts"
    delay: int = 0
    watermark: int | None = None
    late: int = 0
    null_times: int = 0
    _open: dict[Window, dict[Key, list[Row]]] = field(default_factory=lambda: defaultdict(dict))
    _changed: set[tuple[Window, Key]] = field(default_factory=set)

    def feed(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        latest = self.watermark
        for row in rows:
            ts = row[self.time]
            if ts is None:
                self.null_times += 1
                continue
            moved = ts - self.delay
            latest = moved if latest is None else max(latest, moved)
            windows = self.windows.windows(ts)
            unfired = [w for w in windows if self.watermark is None or w.end > self.watermark]
            if windows and not unfired:
                self.late += 1
            key = tuple(row[column] for column in self.keys)
            for window in unfired:
                self._open[window].setdefault(key, []).append(row)
            self._changed.update((window, key) for window in unfired[:1])
        self.watermark = latest
        return self._fire(lambda window: latest is not None and window.end <= latest)

    def flush(self) -> list[tuple[Any, ...]]:
        return self._fire(lambda window: True)

    def _fire(self, closed: Callable[[Window], bool]) -> list[tuple[Any, ...]]:
        out = []
        every_step = not isinstance(self.windows, Cumulate) or self.windows.every_step
        for window in sorted(w for w in self._open if closed(w)):
            for key, rows in self._open.pop(window).items():
                if not (every_step or (window, key) in self._changed):
                    continue
                values = [aggregate(rows) for aggregate in self.aggregates]
                out.append((window.start, window.end, *key, *values))
        return out


@dataclass
class SessionStream:
    """The same for windows that merge, one per key.

    The rows of a batch are put together with each other and with what is open. What is closed by the
    watermark before the batch is late, all of it; a session that has closed takes in no more rows.
    """

    windows: Merging
    keys: Sequence[str]
    aggregates: Sequence[Aggregate]
    time: str = "ts"
    delay: int = 0
    watermark: int | None = None
    late: int = 0
    null_times: int = 0
    # A row is kept with the point from which on it counts.
    _open: dict[Key, list[list[tuple[Row, int]]]] = field(default_factory=lambda: defaultdict(list))

    def feed(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        before = self.watermark
        new: dict[Key, list[list[tuple[Row, int]]]] = defaultdict(list)
        latest = before
        for row in rows:
            ts = row[self.time]
            if ts is None:
                self.null_times += 1
                continue
            moved = ts - self.delay - 1  # a row at the very end of a session isn't late for it
            latest = moved if latest is None else max(latest, moved)
            unfired = ts + 1 if before is None else max(ts, before) + 1
            new[tuple(row[column] for column in self.keys)].append([(row, unfired)])
        for key, singles in new.items():
            for session in self._merged(self._open.pop(key, []) + singles):
                if before is not None and self._closes(session) <= before:
                    self.late += len(session)
                else:
                    self._open[key].append(session)
        self.watermark = latest
        return [] if latest is None else self._fire(before, latest)

    def flush(self) -> list[tuple[Any, ...]]:
        return self._fire(self.watermark, None)

    def _closes(self, session: list[tuple[Row, int]]) -> int:
        return self.windows.closes(max(row[self.time] for row, _ in session))

    def _merged(self, sessions: list[list[tuple[Row, int]]]) -> list[list[tuple[Row, int]]]:
        merged: list[list[tuple[Row, int]]] = []
        for session in sorted(sessions, key=lambda rows: min(row[self.time] for row, _ in rows)):
            first = min(row[self.time] for row, _ in session)
            if merged and first <= max(row[self.time] for row, _ in merged[-1]) + self.windows.gap:
                merged[-1].extend(session)
            else:
                merged.append(list(session))
        return merged

    def _fire(self, before: int | None, until: int | None) -> list[tuple[Any, ...]]:
        out = []
        grows = isinstance(self.windows, DynamicCumulate)
        for key, sessions in self._open.items():
            for session in sessions:
                for window in self.windows.points([row[self.time] for row, _ in session]):
                    if (before is not None and window.end <= before) or (
                        until is not None and window.end > until
                    ):
                        continue
                    rows = [row for row, since in session if not grows or since <= window.end]
                    if rows:
                        values = [aggregate(rows) for aggregate in self.aggregates]
                        out.append((window.start, window.end, *key, *values))
            sessions[:] = [s for s in sessions if until is not None and self._closes(s) > until]
        return out


def stream(
    windows: Windows | Merging, keys: Sequence[str], aggregates: Sequence[Aggregate], **settings: Any
) -> Stream | SessionStream:
    """A `Stream` or a `SessionStream`, whichever the windows need."""
    kind = SessionStream if isinstance(windows, Session | DynamicCumulate) else Stream
    return kind(windows, keys, aggregates, **settings)  # type: ignore[arg-type]


def batch(
    rows: Iterable[Row],
    windows: Windows | Merging,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate],
    time: str = "ts",
) -> list[tuple[Any, ...]]:
    """The same over all rows at once: nothing is late."""
    once = stream(windows, keys, aggregates, time=time)
    return once.feed(rows) + once.flush()


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_datetime(micros: int) -> datetime:
    """An instant as a datetime in UTC, exactly.

    >>> to_datetime(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return _EPOCH + timedelta(microseconds=micros)


def to_micros(moment: datetime) -> int:
    """A datetime (in UTC if it has no zone) as an instant.

    >>> to_micros(to_datetime(-5))
    -5
    """
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH) // timedelta(microseconds=1)
