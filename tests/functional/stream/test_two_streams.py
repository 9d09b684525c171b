"""A model over two streams: one checkpoint, and the slower stream holds the watermark."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.program import Rows, StreamInput
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream

from . import programs
from .harness import EVENTS, TUMBLE, Stream
from .programs import SECOND


def clicks_and_orders(spark: Any, storage_root: Path) -> tuple[Stream, str]:
    """Returns a stream of windows over both, and the table of orders."""
    one = programs.tumble(SECOND)
    both = one.items_of_kind(Rows)[0].sql.replace(
        "from stream", "from (select * from clicks union all select * from orders)"
    )
    program = replace(
        one,
        inputs=(
            StreamInput("clicks", "clicks", ("ts", "k", "v"), "ts"),
            # Columns are found whatever their case; other names of the query may be among them.
            StreamInput("orders", "orders", ("TS", "k", "v", "elsewhere"), "TS"),
        ),
        items=(Rows("rows_0", both, ("clicks", "orders")), *one.items[1:]),
    )
    stream = Stream(spark, storage_root, program, TUMBLE)
    orders = f"{stream.events}_orders"
    spark.sql(f"create table {orders} ({EVENTS}) using iceberg")
    stream.model = replace(
        stream.model, sources=(StreamSource("clicks", stream.events), StreamSource("orders", orders))
    )
    return stream, orders


def test_the_slower_stream_holds_the_watermark(spark: Any, storage_root: Path) -> None:
    stream, orders = clicks_and_orders(spark, storage_root)
    stream.add((0, "a", 1), (5000, "a", 1))
    first = stream.run()
    assert (first.rows_in, first.rows_out) == (2, 0)

    spark.sql(
        f"insert into {orders} values (timestamp_millis(500), 'a', 10, 0), (timestamp_millis(1500), 'b', 10, 0)"
    )
    second = stream.run()
    assert (second.rows_in, second.rows_out) == (2, 1)
    assert stream.rows() == [(0, 1000, "a", 2, 11)]

    # The orders fall silent. Their watermark is at 1.5 s, until nobody waits for them any more.
    stream.add((9000, "a", 1))
    assert stream.run().rows_out == 0
    stream.model = replace(stream.model, idle_timeout=1)
    stream.add((9500, "a", 1))
    fourth = stream.run()
    assert (fourth.rows_out, fourth.watermark) == (2, 9_500_000)
    progress = read_progress(stream.model)
    assert progress is not None
    assert progress["idle_streams"] == ["orders"]


@pytest.mark.thorough
def test_a_micro_batch_ends_before_the_query_starts_again_for_the_first_rows_of_another_table(
    spark: Any, storage_root: Path
) -> None:
    """If its query was stopped after the commit of the state, the next one would ingest its rows again."""
    stream, orders = clicks_and_orders(spark, storage_root)
    spark.sql(f"insert into {orders} select * from {orders} where false")
    stream.add((0, "a", 1))
    reached: list[str] = []

    def first_order(point: str, model: str) -> None:
        if point == "state.append:after" and not reached:
            reached.append(point)
            spark.sql(f"insert into {orders} values (timestamp_millis(500), 'a', 10, 0)")
            time.sleep(3)  # longer than a run waits before it looks for first rows

    failpoints.arm(first_order)
    try:
        running = RunningStream(spark, replace(stream.model, trigger="100 milliseconds"), stream.program)
        try:
            deadline = time.monotonic() + 60
            while running.wait(0.5).rows_in < 2:
                assert time.monotonic() < deadline
        finally:
            running.stop()
    finally:
        failpoints.arm(None)
    stream.run()
    stream.flush()
    assert stream.rows() == [(0, 1000, "a", 2, 11)]
