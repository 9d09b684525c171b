"""Any range, any windows: what is touched and needed against the windows counted out one by one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt.adapters.spark_streaming.query.sql.intervals import HOUR, MINUTE
from dbt.adapters.spark_streaming.query.windows import ranges
from dbt.adapters.spark_streaming.query.windows.ranges import TimeRange, WindowRange
from dbt.adapters.spark_streaming.query.windows.windows import Window
from tests import reference

BASE = 1_711_843_200_000_000  # 2024-03-31 00:00 UTC, an hour before clocks go forward in Berlin


@st.composite
def windows(draw: st.DrawFn, zones: tuple[str | None, ...] = (None,)) -> Window:
    kind = draw(st.sampled_from(["tumble", "hop", "cumulate"]))
    step = draw(st.sampled_from([5, 15, 20, 60, 90])) * MINUTE
    size = step * draw(st.integers(1, 6)) if kind != "tumble" else step
    if kind == "hop":
        size += draw(st.sampled_from([0, 5])) * MINUTE
    offset = draw(st.integers(0, 12)) * 7 * MINUTE % (step if kind == "hop" else size)
    return Window(kind, "ts", size, step, offset, time_zone=draw(st.sampled_from(zones)))


def of(window: Window) -> reference.Windows:
    if window.kind == "tumble":
        return reference.Tumble(window.size, window.offset)
    if window.kind == "hop":
        return reference.Hop(window.step, window.size, window.offset)
    return reference.Cumulate(window.step, window.size, window.offset)


def shown(window: Window, instant: int) -> int:
    if window.time_zone is None:
        return instant
    there = reference.to_datetime(instant).astimezone(ZoneInfo(window.time_zone))
    return reference.to_micros(there.replace(tzinfo=timezone.utc))


def end_instant(window: Window, at: int) -> int:
    """When the clock shows the end of a window, the last time where it does so twice."""
    if window.time_zone is None:
        return at
    zone = ZoneInfo(window.time_zone)
    naive = datetime(1970, 1, 1) + timedelta(microseconds=at)
    first = reference.to_micros(naive.replace(tzinfo=zone).astimezone(timezone.utc))
    return first + HOUR if shown(window, first + HOUR) == at else first


def ends(window: Window, instant: int) -> list[int]:
    """The ends of the windows that an instant is in."""
    return [end_instant(window, each.end) for each in of(window).windows(shown(window, instant))]


def inside(found: WindowRange, end: int) -> bool:
    return (found.after is None or end > found.after) and (found.until is None or end <= found.until)


INSTANTS = st.integers(0, 6 * 24 * 12).map(lambda n: BASE - 3 * 24 * HOUR + n * 5 * MINUTE)
ZONES = (None, "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")


@given(windows(ZONES), INSTANTS, st.integers(1, 40 * 60), st.integers(0, 60 * 60))
def test_all_windows_of_a_range_are_touched(window: Window, start: int, minutes: int, at: int) -> None:
    span = TimeRange(start, start + minutes * MINUTE)
    found = ranges.touched_windows(window, span)
    instant = start + at * MINUTE % (minutes * MINUTE)
    assert all(inside(found, end) for end in ends(window, instant))


@given(windows(ZONES), INSTANTS, st.integers(1, 40 * 60), INSTANTS)
def test_all_rows_of_the_windows_are_needed(window: Window, after: int, minutes: int, row: int) -> None:
    found = WindowRange(after, after + minutes * MINUTE)
    span = ranges.needed_times(window, found)
    assert span.since is not None
    assert span.until is not None
    if any(inside(found, end) for end in ends(window, row)):
        assert span.since <= row < span.until


@given(windows(), INSTANTS, st.integers(1, 40 * 60))
def test_no_more_windows_are_touched_than_there_are(window: Window, start: int, minutes: int) -> None:
    """The bounds are those of windows with rows of the range (of a cumulate, of the longest ones)."""
    span = TimeRange(start, start + minutes * MINUTE)
    found = ranges.touched_windows(window, span)
    assert found.after is not None
    first, last = of(window).windows(start), of(window).windows(start + minutes * MINUTE - 1)
    assert found.until == max(each.end for each in last)
    if window.kind == "cumulate":
        assert found.after == first[0].start
    else:
        assert found.after == min(each.end for each in first) - window.step


@given(windows(), INSTANTS)
def test_ranges_that_begin_at_a_bound_stay_there(window: Window, start: int) -> None:
    first = ranges.touched_windows(window, TimeRange(start, start + 1))
    assert first.until is not None
    if window.kind != "hop":
        assert ranges.is_window_bound(window, first.until)
        assert ranges.touched_windows(window, TimeRange(first.after, first.until)) == first
        assert ranges.needed_times(window, first) == TimeRange(first.after, first.until)


@pytest.mark.parametrize(("zone", "bound"), [(None, True), ("Europe/Berlin", False)])
def test_a_day_begins_with_the_zones(zone: str | None, bound: bool) -> None:
    window = Window("tumble", "ts", 24 * HOUR, 24 * HOUR, time_zone=zone)
    assert ranges.is_window_bound(window, BASE) is bound


def test_away_from_changes_of_clocks_a_zones_bounds_are_exact() -> None:
    window = Window("tumble", "ts", 24 * HOUR, 24 * HOUR, time_zone="Europe/Berlin")
    day = BASE + 90 * 24 * HOUR - 2 * HOUR
    assert ranges.touched_windows(window, TimeRange(day + 1, day + 2)) == WindowRange(day, day + 24 * HOUR)
    assert ranges.needed_times(window, WindowRange(day, day + 24 * HOUR)) == TimeRange(day, day + 24 * HOUR)


def test_without_bounds_there_are_none() -> None:
    window = Window("hop", "ts", 3 * HOUR, HOUR)
    assert ranges.touched_windows(window, TimeRange()) == WindowRange()
    assert ranges.needed_times(window, WindowRange(None, 5 * HOUR)) == TimeRange(None, 5 * HOUR)
    assert ranges.needed_times(window, WindowRange(5 * HOUR, None)) == TimeRange(3 * HOUR, None)
