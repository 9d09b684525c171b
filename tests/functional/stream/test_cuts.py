"""The same rows however the input is cut into micro-batches, and in batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from tests.thorough import mostly_thorough

from . import programs
from .harness import CUMULATE, EVENTS, Stream, sorted_rows
from .programs import MINUTE, SECOND

ROWS = 20_000
STEP, MAX = 10 * MINUTE, 120 * MINUTE
DELAY = 30 * SECOND


@pytest.fixture(scope="module")
def events(spark: Any, storage_root: Path) -> Any:
    """Rows over a day, up to 30 s out of order, with skewed keys, NULL keys and a silent night."""
    spark.range(ROWS, numPartitions=1).selectExpr(
        "id as n",
        "timestamp_micros((if(id < 9000, id, id + 6000) * 3 - pmod(hash(id), 30)) * 1000000L) as ts",
        "if(pmod(hash(id, 1), 13) = 0, null, concat('k', int(sqrt(pmod(hash(id, 2), 100))))) as k",
        "bigint(pmod(hash(id, 3), 1000)) as v",
        "if(pmod(hash(id, 4), 17) = 0, null, bigint(pmod(hash(id, 5), 700))) as x",
    ).write.parquet(f"{storage_root}/cut_events")
    return spark.read.parquet(f"{storage_root}/cut_events")


@pytest.fixture(scope="module")
def expected(spark: Any, events: Any) -> list[tuple[Any, ...]]:
    return naive(spark, events, STEP, MAX)


def naive(spark: Any, events: Any, step: int, max_size: int) -> list[tuple[Any, ...]]:
    """The curves the naive way: each row in every window it belongs to."""
    start = f"timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), {max_size}))"
    events.selectExpr("*", f"{start} as window_start").createOrReplaceTempView("naive_rows")
    return sorted_rows(
        spark.sql(f"""
            select window_start, window_end, k, count(*) as c, sum(v) as s, count(distinct x) as d
            from (
              select
                *,
                explode(sequence(
                  timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), {step}) + {step}),
                  timestamp_micros(unix_micros(window_start) + {max_size}),
                  interval {step} microseconds
                )) as window_end
              from naive_rows
            )
            group by window_start, window_end, k
        """).collect()
    )


@pytest.mark.parametrize("cuts", mostly_thorough([1, 3, 17], []))
def test_cumulate_with_exact_distinct(
    spark: Any, storage_root: Path, events: Any, expected: list[tuple[Any, ...]], cuts: int
) -> None:
    folder = f"{storage_root}/cut_{cuts}"
    for number in range(cuts):
        # One file after the other, so that the order of their times is the order of the rows.
        part = events.where(f"n * {cuts} div {ROWS} = {number}").select("ts", "k", "v", "x")
        part.coalesce(1).write.mode("append").parquet(folder)
    stream = Stream(spark, storage_root, programs.cumulate(STEP, MAX), CUMULATE, delay=DELAY)
    stream.reads(StreamSource("events", folder, "parquet", EVENTS, {"maxFilesPerTrigger": "1"}))
    result = stream.run()
    assert (result.batches, result.rows_in, result.late_rows) == (cuts, ROWS, 0)
    stream.flush()
    assert stream.rows() == expected
