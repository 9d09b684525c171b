"""Event times at the ends of what a TIMESTAMP can hold, and beyond: dropped, counted, and never the end of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.instants import EARLIEST, LATEST
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.functional.stream.harness import Stream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

HOUR = 3_600_000_000
GONE = (2**63 - 1, -(2**63), LATEST + 1, EARLIEST - 1, 2**62)
OLD = (EARLIEST, -30_610_224_000_000_000, -12_219_292_800_000_001, 0)
"""The first instant of the year 1, one of 1000, and the last before Gregory's calendar."""


def over(kind: str, *lengths: str, **options: Any) -> str:
    return expansion.expand_window("events", window_arguments.make_window(kind, "ts", *lengths, **options))


def counted(window: str) -> str:
    return (
        f"select window_start, window_end, k, count(*) as n, count(distinct x) as d from {window} "
        "group by window_start, window_end, k"
    )


WINDOW = "window_start timestamp, window_end timestamp, k string, n bigint, d bigint"
ROWS = "window_start timestamp, window_end timestamp, k string, v bigint, x bigint"
QUERIES = {
    "cumulate": (counted(over("cumulate", "1 hour", "3 hours")), WINDOW, True),
    "hop": (counted(over("hop", "1 hour", "2 hours", time_zone="Asia/Tokyo")), WINDOW, True),
    "session": (counted(over("session", "1 hour", partition_by=["k"])), WINDOW, True),
    "dynamic": (counted(over("dynamic_cumulate", "1 hour", "2 hours", partition_by=["k"])), WINDOW, True),
    "rows": (f"select window_start, window_end, k, v, x from {over('tumble', '1 hour')}", ROWS, False),
    "append": (
        "select ts, k, v from (select /*+ STREAM */ * from events)",
        "ts timestamp, k string, v bigint",
        False,
    ),
}


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, ["append"]))
def test_a_time_beyond_them_is_dropped_and_counted(spark: Any, storage_root: Path, name: str) -> None:
    text, columns, judged = QUERIES[name]
    s = Stream(
        spark, storage_root, generate.generate_program(plan_of(text, {"events": RelationInfo("ts")})), columns
    )

    def add(*times: int) -> None:
        listed = ", ".join(f"({at}L, 'k', {n}L, {n}L)" for n, at in enumerate(times))
        values = f"values {listed} as new(at, k, v, x)".replace(
            "(-9223372036854775808L", "(-9223372036854775807L - 1L"
        )
        spark.sql(f"insert into {s.events} select timestamp_micros(at), k, v, x from {values}")

    behind = s.program.extra_delay
    add(*OLD)
    assert s.run().watermark == -behind
    add(*GONE, HOUR)
    result = s.run()
    assert (result.rows_in, result.watermark) == (len(GONE) + 1, HOUR - behind)
    assert result.null_time_rows == (len(GONE) if judged else 0)
    add(LATEST)
    assert s.run().watermark == LATEST - behind
    # What comes now is late, as after any row that is ahead of the others; the stream goes on.
    add(2 * HOUR)
    result = s.run()
    assert (result.rows_in, result.late_rows) == (1, 1 if judged else 0)
    if judged:
        s.flush()
    spark.table(s.events).where(
        f"not (v = 0 and ts = timestamp_micros({2 * HOUR})) or {not judged}"
    ).createOrReplaceTempView("events")

    def rows(of: Any) -> list[tuple[Any, ...]]:
        # As text: Python's times end with the year 9999.
        return sorted(
            map(tuple, of.selectExpr(*(f"cast({name} as string)" for name in of.columns)).collect())
        )

    assert rows(spark.table(s.model.target)) == rows(spark.sql(text))


LATEST_ROWS = """(select * from (select *, row_number() over (partition by x order by v desc) as place
    from (select /*+ STREAM */ * from events)) where place = 1)"""
OVER_WHAT_CHANGES = {
    "tumble": window_arguments.make_window("tumble", "ts", "1 hour"),
    "session": window_arguments.make_window("session", "ts", "1 hour", partition_by=["k"]),
}


@pytest.mark.parametrize("name", mostly_thorough(OVER_WHAT_CHANGES, []))
def test_windows_over_rows_that_change_leave_it_out_uncounted(
    spark: Any, storage_root: Path, name: str
) -> None:
    """Such a row may come back with another time: it is taken in, kept, and in no window."""
    text = (
        "select window_start, window_end, k, count(*) as n, count(distinct x) as d "
        f"from {expansion.expand_window(LATEST_ROWS, OVER_WHAT_CHANGES[name])} group by window_start, window_end, k"
    )
    ttl = 365 * 24 * HOUR
    spark = spark.newSession()
    spark.conf.set("spark.sql.ansi.enabled", "true")
    plan = plan_query.plan(text, {"events": RelationInfo("ts")}, ttl)
    s = Stream(spark, storage_root, generate.generate_program(plan, ttl=ttl), WINDOW)

    def add(*rows: tuple[str, int]) -> None:
        listed = ", ".join(f"({at}, 'k', {v}L, {x}L)" for x, (at, v) in enumerate(rows))
        spark.sql(f"insert into {s.events} values {listed}")

    def at(micros: int) -> str:
        return (
            f"timestamp_micros({micros}L)"
            if micros > -(2**63)
            else "timestamp_micros(-9223372036854775807L - 1L)"
        )

    times = ("cast(null as timestamp)", *map(at, GONE), at(0), at(HOUR), at(3 * HOUR))
    add(*((time, 1) for time in times))
    result = s.run()
    assert (result.rows_in, result.late_rows, result.null_time_rows) == (len(times), 0, 0)
    # The first half has a time now, the others have none any more.
    add(*((at(n * HOUR), 2) for n in range(3)), *((at(GONE[0]), 2) for _ in range(6)))
    assert s.run().null_time_rows == 0
    s.flush()
    spark.table(s.events).createOrReplaceTempView("events")
    expected = sorted(map(tuple, spark.sql(text).collect()))
    assert sorted(map(tuple, spark.table(s.model.target).collect())) == expected
    assert sum(row[3] for row in expected) == 3
