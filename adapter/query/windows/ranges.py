"""Computes the windows that a range of time touches, and the rows that windows need.

All instants are microseconds since 1970 (UTC). Windows are identified by their ends. With a time zone, bounds may be
too wide by an hour around a clock change: more is computed than requested, never less.

Sessions aren't handled here, because their bounds depend on their rows (`window_range`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from ...util.quoting import quote
from ..sql import instants
from ..sql.intervals import DAY
from .windows import Window

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class TimeRange:
    """Instants from `since` (inclusive) to `until` (exclusive). None for no bound."""

    since: int | None = None
    until: int | None = None

    def hull(self, other: TimeRange) -> TimeRange:
        """Returns the shortest range that contains both."""
        return TimeRange(
            _wider_bound(min, self.since, other.since), _wider_bound(max, self.until, other.until)
        )

    def condition(self, column: str) -> str:
        """SQL predicate: a time is in the range.

        >>> TimeRange(0, 3_600_000_000).condition("ts")
        "ts >= timestamp'1970-01-01T00:00:00Z' and ts < timestamp'1970-01-01T01:00:00Z'"
        >>> TimeRange().condition("ts")
        'true'
        """
        return _bounds_condition(column, ">=", self.since, "<", self.until)


@dataclass(frozen=True)
class WindowRange:
    """Windows whose end is after `after` and at most `until`. None for no bound."""

    after: int | None = None
    until: int | None = None

    def hull(self, other: WindowRange) -> WindowRange:
        """Returns the shortest range that contains both."""
        return WindowRange(
            _wider_bound(min, self.after, other.after), _wider_bound(max, self.until, other.until)
        )

    def condition(self, column: str) -> str:
        """SQL predicate: a window with this end is in the range."""
        return _bounds_condition(column, ">", self.after, "<=", self.until)

    def exclusion_condition(self, lowest: str, highest: str) -> str:
        """SQL predicate: no window with an end between `lowest` and `highest` is in the range."""
        found = [f"{highest} <= {instant_literal(self.after)}"] if self.after is not None else []
        found += [f"{lowest} > {instant_literal(self.until)}"] if self.until is not None else []
        return " or ".join(found) or "false"


def touched_windows(window: Window, span: TimeRange) -> WindowRange:
    """Returns the windows that contain an instant of a range. For cumulate, all windows with the same start as one of
    them."""
    after = until = None
    if span.since is not None:
        local = _local_from(window, span.since)
        after = _first_instant(
            window, _window_start(window, local) if window.grows else _last_end_until(window, local)
        )
    if span.until is not None:
        latest = _local_until(window, span.until) - 1
        until = _last_instant(window, _window_start(window, latest) + window.size)
    return WindowRange(after, until)


def needed_times(window: Window, ends: WindowRange) -> TimeRange:
    """Returns the time range of the rows in windows with these ends."""
    since = until = None
    if ends.after is not None:
        first = _last_end_until(window, _local_from(window, ends.after)) + window.step
        since = _first_instant(
            window, _window_start(window, first - 1) if window.grows else first - window.size
        )
    if ends.until is not None:
        until = _last_instant(window, _last_end_until(window, _local_until(window, ends.until)))
    return TimeRange(since, until)


@dataclass(frozen=True)
class WindowEndColumns:
    """Columns of a result that say whether the window of a row has closed."""

    columns: tuple[str, ...]
    """Columns with the window's end, which is in the first one that isn't NULL."""
    is_time: bool
    """Whether the columns are ``window_time``, one microsecond before the end."""

    @property
    def end(self) -> str:
        """SQL of the window's end (or ``window_time``)."""
        listed = ", ".join(map(quote, self.columns))
        return f"coalesce({listed})" if len(self.columns) > 1 else listed

    def condition(self, until: int) -> str:
        """SQL predicate: the row's window ends at or before `until`. `window_time` is a microsecond before that end, so
        it is compared with `<`.

        Args:
            until: in microseconds since 1970 (UTC), whatever the time zone of the windows.

        >>> WindowEndColumns(("window_end",), False).condition(0)
        "`window_end` <= timestamp'1970-01-01T00:00:00Z'"
        >>> WindowEndColumns(("a", "b"), True).condition(0)
        "coalesce(`a`, `b`) < timestamp'1970-01-01T00:00:00Z'"
        """
        return f"{self.end} {'<' if self.is_time else '<='} {instant_literal(until)}"


def is_window_bound(window: Window, instant: int) -> bool:
    """Whether no window contains both rows before an instant and rows after it. For hop, whether a window ends there."""
    local = instant + _zone_offset(window.time_zone, instant)
    return local == (_window_start(window, local) if window.grows else _last_end_until(window, local))


def instant_text(instant: int) -> str:
    """Returns an instant as text for people.

    >>> instant_text(90_000_000), instant_text(1)
    ('1970-01-01 00:01:30', '1970-01-01 00:00:00.000001')
    """
    return instants.text(instant, " ").removesuffix(".000000")


def instant_literal(instant: int) -> str:
    """SQL literal of an instant, independent of the session's time zone."""
    return f"timestamp'{instant_text(instant).replace(' ', 'T')}Z'"


def instant_of(moment: datetime) -> int:
    """Returns a datetime as an instant. Without a time zone it is UTC, as in dbt.

    >>> instant_of(datetime(1970, 1, 2)) == DAY
    True
    """
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH) // timedelta(microseconds=1)


# -- local times: as in `windows`, with numbers instead of SQL ----------------------------------------


def _window_start(window: Window, local: int) -> int:
    """Returns the start of the last window that has a local time."""
    length = window.step if window.kind == "hop" else window.size
    return local - (local - window.offset) % length


def _last_end_until(window: Window, local: int) -> int:
    return local - (local - window.phase) % window.step


# -- between instants and local times -----------------------------------------------------------------


def _zone_offset(zone: str | None, instant: int) -> int:
    return 0 if zone is None else instants.offset(instant, zone)


def _local_from(window: Window, instant: int) -> int:
    """Returns a lower limit of the local times from an instant on; the clock may be put back within a day."""
    return instant + min(_zone_offset(window.time_zone, instant + later) for later in (0, DAY))


def _local_until(window: Window, instant: int) -> int:
    """Returns an upper limit of the local times up to an instant."""
    return instant + max(_zone_offset(window.time_zone, instant - earlier) for earlier in (0, DAY))


def _offsets_about(window: Window, local: int) -> list[int]:
    return [_zone_offset(window.time_zone, local + away) for away in (-DAY, 0, DAY)]


def _first_instant(window: Window, local: int) -> int:
    """Returns a lower limit of the instants with a local time."""
    return local - max(_offsets_about(window, local))


def _last_instant(window: Window, local: int) -> int:
    """Returns an upper limit of the instants with a local time."""
    return local - min(_offsets_about(window, local))


def _wider_bound(widest: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    """Returns the wider one of two bounds; None for no bound."""
    return None if one is None or other is None else widest(one, other)


def _bounds_condition(column: str, over: str, low: int | None, under: str, high: int | None) -> str:
    found = [f"{column} {over} {instant_literal(low)}"] if low is not None else []
    found += [f"{column} {under} {instant_literal(high)}"] if high is not None else []
    return " and ".join(found) or "true"
