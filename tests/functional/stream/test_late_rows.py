"""The late rule, on the trace of Flink's own test: windows of 3 s that grow by 1 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of

from . import programs
from .harness import CUMULATE, TUMBLE, Stream
from .programs import SECOND


@pytest.fixture
def curve(spark: Any, storage_root: Path) -> Stream:
    return Stream(spark, storage_root, programs.cumulate(SECOND, 3 * SECOND), CUMULATE)


@pytest.mark.thorough
def test_the_trace(curve: Stream) -> None:
    # A row that only moves the watermark: it has a key of its own, left out below.
    def watermark(at: int) -> list[tuple[Any, ...]]:
        before = set(curve.rows())
        curve.add((at, "clock", 0))
        curve.run()
        return [
            (k, start, end, c, s) for start, end, k, c, s, _ in set(curve.rows()) - before if k != "clock"
        ]

    curve.add((2999, "k2", 1), (3000, "k2", 1), (1998, "k2", 1), (1999, "k2", 1), (1000, "k2", 1))
    curve.add((20, "k1", 1), (0, "k1", 1), (999, "k1", 1))
    # One batch: the watermark gets to 3000.
    assert sorted(watermark(999)) == [
        ("k1", 0, 1000, 3, 3),
        ("k1", 0, 2000, 3, 3),
        ("k1", 0, 3000, 3, 3),
        ("k2", 0, 2000, 3, 3),
        ("k2", 0, 3000, 4, 4),
    ]
    assert watermark(3999) == []
    assert watermark(4000) == [("k2", 3000, 4000, 1, 1)]
    # Late for [3000, 4000), which is out; it counts from the next end on.
    curve.add((3500, "k1", 2))
    assert sorted(watermark(4999)) == []
    assert sorted(watermark(5000)) == [("k1", 3000, 5000, 1, 2), ("k2", 3000, 5000, 1, 1)]
    # Late for all its windows.
    curve.add((2999, "k1", 1))
    assert curve.run().late_rows == 1
    assert sorted(watermark(6000)) == [("k1", 3000, 6000, 1, 2), ("k2", 3000, 6000, 1, 1)]
    assert watermark(60000) == []


def test_a_row_without_a_time_is_dropped_and_counted(curve: Stream) -> None:
    curve.add((0, "a", 1), (None, "a", 1), (1000, "a", 1))
    result = curve.run()
    assert (result.rows_in, result.null_time_rows, result.late_rows, result.rows_out) == (3, 1, 0, 1)
    assert curve.rows() == [(0, 1000, "a", 1, 1, 1)]


def test_the_watermark_stays_behind_by_the_delay(spark: Any, storage_root: Path) -> None:
    stream = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE, delay=5 * SECOND)
    stream.add((0, "a", 1), (5999, "a", 1))
    assert stream.run().watermark == 999_000
    assert stream.rows() == []
    stream.add((1, "a", 1), (6000, "a", 1))
    assert stream.run().watermark == SECOND
    assert stream.rows() == [(0, 1000, "a", 2, 2)]


@pytest.mark.thorough
def test_a_distinct_value_seen_earlier_than_before_is_moved(curve: Stream) -> None:
    curve.add((2500, "a", 7))
    curve.add((1500, "a", 7))
    curve.model = curve.model.__class__(**{**curve.model.__dict__, "watermark_delay": 10 * SECOND})
    curve.run()
    curve.add((500, "a", 7))
    curve.run()
    curve.flush()
    assert curve.rows() == [(0, 1000, "a", 1, 7, 1), (0, 2000, "a", 2, 14, 1), (0, 3000, "a", 3, 21, 1)]


def test_flush_closes_what_is_open_and_goes_on_from_there(curve: Stream) -> None:
    curve.add((500, "a", 1), (1500, "b", 1))
    curve.run()
    assert curve.flush().watermark == 3 * SECOND
    expected = [
        (0, 1000, "a", 1, 1, 1),
        (0, 2000, "a", 1, 1, 1),
        (0, 2000, "b", 1, 1, 1),
        (0, 3000, "a", 1, 1, 1),
        (0, 3000, "b", 1, 1, 1),
    ]
    assert curve.rows() == expected
    assert curve.flush().batches == 0
    curve.add((2000, "a", 1), (3000, "a", 1))
    assert curve.run().late_rows == 1
    assert curve.rows() == expected


EVENTS = "(select /*+ STREAM */ * from events)"
PAIRS = f"""select a.k, a.v, b.v as w from {EVENTS} as a join {EVENTS} as b
    on b.k = a.k and a.v < b.v and b.ts >= a.ts and b.ts <= a.ts + interval 10 seconds"""
FIRST = f"""select k, v from (select *, row_number() over (partition by k order by ts) as place from {EVENTS})
    where place = 1"""


def planned(text: str) -> Program:
    return generate.generate_program(plan_of(text, {"events": RelationInfo("ts")}))


def test_a_row_of_a_join_that_comes_behind_the_watermark_is_counted(spark: Any, storage_root: Path) -> None:
    stream = Stream(spark, storage_root, planned(PAIRS), "k string, v bigint, w bigint")
    stream.add((0, "a", 1), (15_000, "b", 1), (20_000, "z", 0))
    assert stream.run().late_rows == 0
    # The first would have met a row that is forgotten; the second meets one that isn't. Both sides read them alike.
    stream.add((5_000, "a", 2), (18_000, "b", 2), (20_000, "z", 1))
    assert stream.run().late_rows == 2
    assert stream.rows() == [("b", 1, 2), ("z", 0, 1)]


@pytest.mark.thorough
def test_so_is_one_of_streams_put_together(spark: Any, storage_root: Path) -> None:
    both = f"(select k, v, ts as at from (select k, v, ts from {EVENTS} union all select k, v + 10, ts from {EVENTS}))"
    text = f"""select a.k, a.v, b.v as w from {both} as a join {EVENTS} as b
        on b.k = a.k and a.v < b.v and b.ts >= a.at and b.ts <= a.at + interval 10 seconds"""
    program = generate.generate_program(plan_query.plan(text, {"events": RelationInfo("ts")}))
    stream = Stream(spark, storage_root, program, "k string, v bigint, w bigint")
    stream.add((0, "a", 1), (20_000, "z", 0))
    assert stream.run().late_rows == 0
    # It is a row of each of the three that read the stream.
    stream.add((5_000, "a", 2), (20_000, "z", 1))
    assert stream.run().late_rows == 3


@pytest.mark.thorough
def test_a_row_that_might_have_been_the_first_is_counted(spark: Any, storage_root: Path) -> None:
    stream = Stream(spark, storage_root, planned(FIRST), "k string, v bigint")
    stream.add((5_000, "a", 1), (20_000, "z", 0))
    assert stream.run().late_rows == 0
    stream.add((4_000, "a", 2), (6_000, "b", 3), (20_000, "y", 4))
    assert stream.run().late_rows == 2
    stream.flush()
    assert stream.rows() == [("a", 1), ("b", 3), ("y", 4), ("z", 0)]


@pytest.mark.thorough
def test_so_is_one_of_a_join_with_windows(spark: Any, storage_root: Path) -> None:
    tumble = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "10 seconds"))
    best = f"select window_start, window_end, max(v) as v from {tumble} group by window_start, window_end"
    text = f"""select a.k, a.v, w.window_end from {EVENTS} as a join ({best}) as w
        on a.v = w.v and a.ts >= w.window_start and a.ts < w.window_end"""
    program = generate.generate_program(plan_query.plan(text, {"events": RelationInfo("ts")}))
    stream = Stream(spark, storage_root, program, "k string, v bigint, window_end timestamp")
    stream.add((0, "a", 1), (1000, "b", 2), (None, "a", 2), (9_000, "a", 2), (11_000, "z", 0))
    found = stream.run()
    # The windows look through the rows, too.
    assert (found.late_rows, found.null_time_rows) == (0, 2)
    assert stream.rows() == [("a", 2, 10_000), ("b", 2, 10_000)]
    # The best of its window, which is out; its rows are let go.
    stream.add((5_000, "c", 2), (20_000, "z", 5))
    assert stream.run().late_rows == 2
    assert stream.rows() == [("a", 2, 10_000), ("b", 2, 10_000), ("z", 0, 20_000)]
