"""A model over two streams: one checkpoint, and the slower stream holds the watermark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.query.program import Rows, StreamInput
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.progress.report import read_progress

from . import programs
from .harness import EVENTS, TUMBLE, Stream
from .programs import SECOND


def test_the_slower_stream_holds_the_watermark(spark: Any, storage_root: Path) -> None:
    one = programs.tumble(SECOND)
    both = one.of(Rows)[0].sql.replace(
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
