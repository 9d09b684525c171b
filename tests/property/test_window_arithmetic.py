"""The planner's arithmetic of windows and slices against the reference, without Spark.

The SQL it prints for instants is plain integer arithmetic (+, - and pmod), so Python can do it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend import hints
from dbt.adapters.spark_streaming.query.plan.state.window_trigger import WindowTrigger
from dbt.adapters.spark_streaming.query.sql import intervals
from dbt.adapters.spark_streaming.query.sql.dialect import parse
from dbt.adapters.spark_streaming.query.windows.expansion import expand_window
from dbt.adapters.spark_streaming.query.windows.window_arguments import make_window
from dbt.adapters.spark_streaming.query.windows.windows import Window
from tests import reference as ref

instants = st.integers(min_value=-(10**7), max_value=10**7)
lengths = st.integers(min_value=1, max_value=1000)
offsets = st.integers(min_value=-3000, max_value=3000)


def micros(value: int) -> str:
    return f"{value} microseconds"


def evaluate(sql: str, **names: int) -> int:
    """A printed expression, computed by Python, whose `%` is pmod for a positive modulus."""
    found = eval(sql, {"__builtins__": {}, "pmod": lambda a, b: a % b}, dict(names))
    assert isinstance(found, int)
    return found


def held_by(window: Window, ts: int) -> list[ref.Window]:
    """The windows the planner gives a row: the ends from the first to the last of its slice."""
    end = evaluate(window.slice_end("ts"), ts=ts)
    first = evaluate(window.first_end("(slice_end)"), slice_end=end)
    last = evaluate(window.last_end("(slice_end)"), slice_end=end)
    found = []
    for window_end in range(first, last + 1, window.step):
        start = evaluate(window.start("(e - 1)"), e=window_end) if window.grows else window_end - window.size
        found.append(ref.Window(start, window_end))
    return found


@given(ts=instants, size=lengths, offset=offsets)
def test_tumble(ts: int, size: int, offset: int) -> None:
    window = make_window("tumble", "ts", micros(size), offset=micros(offset))
    assert held_by(window, ts) == ref.Tumble(size, offset).windows(ts)


@given(ts=instants, slide=lengths, size=lengths, offset=offsets)
@example(ts=0, slide=4, size=6, offset=0)
@example(ts=5, slide=4, size=6, offset=0)
def test_hop(ts: int, slide: int, size: int, offset: int) -> None:
    assume(slide <= size)
    window = make_window("hop", "ts", micros(slide), micros(size), offset=micros(offset))
    assert held_by(window, ts) == ref.Hop(slide, size, offset).windows(ts)


@given(ts=instants, step=lengths, steps=st.integers(1, 50), offset=offsets)
@example(ts=0, step=2, steps=3, offset=-1)
def test_cumulate(ts: int, step: int, steps: int, offset: int) -> None:
    window = make_window("cumulate", "ts", micros(step), micros(step * steps), offset=micros(offset))
    assert held_by(window, ts) == ref.Cumulate(step, step * steps, offset).windows(ts)


@given(
    ts=instants,
    step=lengths,
    steps=st.integers(1, 20),
    offset=offsets,
    kind=st.sampled_from(["tumble", "hop", "cumulate"]),
)
def test_a_slice_is_in_all_of_a_window_or_in_none(
    ts: int, step: int, steps: int, offset: int, kind: str
) -> None:
    """What slices are for: two rows of one slice have the same windows."""
    sizes = [step * steps] if kind == "tumble" else [step, step * steps]
    window = make_window(kind, "ts", *map(micros, sizes), offset=micros(offset))
    end = evaluate(window.slice_end("ts"), ts=ts)
    assert end - window.slice_length <= ts < end
    assert held_by(window, end - window.slice_length) == held_by(window, ts) == held_by(window, end - 1)


@given(size=lengths, offset=offsets, times=st.integers(-5, 5), ts=instants)
def test_an_offset_is_taken_modulo_the_size(size: int, offset: int, times: int, ts: int) -> None:
    one = make_window("tumble", "ts", micros(size), offset=micros(offset))
    other = make_window("tumble", "ts", micros(size), offset=micros(offset + times * size))
    assert held_by(one, ts) == held_by(other, ts)


def test_minus_4_6_and_16_minutes_are_one_offset() -> None:
    windows = {make_window("tumble", "ts", "10 minutes", offset=f"{n} minutes") for n in (-4, 6, 16)}
    assert len(windows) == 1


def test_weeks_from_monday_need_an_offset_of_four_days() -> None:
    monday = make_window("tumble", "ts", "7 days", offset="4 days")
    [window] = held_by(monday, 1_700_000_000 * ref.SECOND)
    assert ref.to_datetime(window.start).strftime("%A %H:%M") == "Monday 00:00"


@given(
    before=st.none() | instants,
    moved=st.integers(0, 5000),
    step=lengths,
    steps=st.integers(1, 20),
    offset=offsets,
)
def test_boundaries_are_the_ends_of_windows(
    before: int | None, moved: int, step: int, steps: int, offset: int
) -> None:
    """A batch may be passed over only if no window can close in it."""
    window = make_window("cumulate", "ts", micros(step), micros(step * steps), offset=micros(offset))
    after = (before or 0) + moved
    last_end = evaluate(window.last_end_until("wm"), wm=after)
    closes = before is None or last_end > before
    found = WindowTrigger(window).boundaries
    assert found is not None
    (boundaries,) = found
    assert (boundaries.count_closing(before, after) > 0) == closes
    assert boundaries.count_closing(before, None) == 0


@given(
    kind=st.sampled_from(["tumble", "hop", "cumulate"]),
    step=lengths,
    steps=st.integers(1, 20),
    offset=offsets,
    name=st.text(min_size=1, max_size=8).filter(lambda text: text.strip("` ") == text and text.isprintable()),
)
def test_a_window_survives_its_hint(kind: str, step: int, steps: int, offset: int, name: str) -> None:
    sizes = [step * steps] if kind == "tumble" else [step, step * steps]
    window = make_window(kind, name, *map(micros, sizes), offset=micros(offset))
    tree = parse(f"select * from {expand_window('t', window)}")
    assert [hints.window_of(select) for select in hints.windows_under(tree)] == [window]


@given(value=st.integers(-(10**13), 10**13))
def test_an_interval_in_words_is_the_same_interval(value: int) -> None:
    assert intervals.parse(intervals.format(value)) == value


@given(step=lengths, size=lengths)
def test_a_step_that_does_not_divide_is_refused_by_name(step: int, size: int) -> None:
    assume(size % step)
    with pytest.raises(QueryError) as refused:
        make_window("cumulate", "ts", micros(step), micros(size))
    assert micros(step) in str(refused.value)
    assert micros(size) in str(refused.value)


@pytest.mark.parametrize("bad", ["", "10", "ten minutes", "1 month", "1 year", "5 parsecs", "10 minutes and"])
def test_what_is_no_interval_is_refused(bad: Any) -> None:
    with pytest.raises(QueryError):
        intervals.parse(bad)
