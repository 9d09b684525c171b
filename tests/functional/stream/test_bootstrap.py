"""A stream that begins with the rows of another table, and goes on from where its source is."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.microbatch import splitter
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream
from dbt.adapters.spark_streaming.stream.sources.readers import rows_with_schema
from tests.planned import plan_of

from .harness import EVENTS, Stream, sorted_rows

GROUPS = "select k, count(*) as n, sum(v) as s from (select /*+ STREAM */ * from events) group by k"
_WINDOW = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "2 seconds"))
WINDOWS = (
    f"select window_start, window_end, k, count(*) as n from {_WINDOW} group by window_start, window_end, k"
)


def history(stream: Stream, *rows: tuple[Any, ...], kind: str = EVENTS) -> str:
    """A table with rows from before those of the source, and those."""
    name = f"{stream.model.target}_history"
    stream.spark.sql(f"create or replace table {name} ({kind}) using iceberg")
    listed = ", ".join(f"(timestamp_millis({at}), '{k}', {v}L, {v}L)" for at, k, v in rows)
    stream.spark.sql(f"insert into {name} values {listed}")
    stream.spark.sql(f"insert into {name} select * from {stream.events}")
    return name


def begins_with(stream: Stream, table: str | None) -> Stream:
    stream.model = replace(stream.model, bootstrap=table)
    return stream


def expected(stream: Stream, text: str, *tables: str) -> list[tuple[Any, ...]]:
    united = " union all ".join(f"select * from {table}" for table in tables)
    return sorted_rows(stream.spark.sql(re.sub(r"\bevents\b", f"({united})", text)).collect())


def refused(stream: Stream) -> str:
    with pytest.raises(StreamError) as raised:
        stream.run()
    return str(raised.value.msg)


@pytest.mark.thorough
@pytest.mark.usefixtures("failing")
def test_as_if_it_had_run_from_the_beginning(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitter.BatchSplitter, "_rows_that_fit", lambda *_: 3)
    groups = generate.generate_program(plan_of(GROUPS))
    windows = generate.generate_program(plan_of(WINDOWS, {"events": RelationInfo("ts")}))
    columns = "window_start timestamp, window_end timestamp, k string, n bigint"
    for text, stream in (
        (GROUPS, Stream(spark, tmp_path, groups, "k string, n bigint, s bigint", changelog=True)),
        (WINDOWS, Stream(spark, tmp_path, windows, columns)),
    ):
        stream.add((9000, "a", 1), (9500, "b", 2))
        stream.add((9800, "a", 3))
        before = history(stream, *((number * 700, "abc"[number % 3], number) for number in range(12)))
        begins_with(stream, before)
        # Killed in the middle of it, the next run goes on with it, though nothing asks for it any more.
        failpoints.arm(failpoints.parse(f"raise state.append:before 1 {stream.model.name}"))
        assert "state.append:before" in refused(stream)
        failpoints.arm(None)
        # Nor does it matter what the table has had since: those rows come from the source.
        stream.add((9900, "c", 4))
        if text == GROUPS:
            spark.sql(f"insert into {before} values (timestamp_millis(9900), 'c', 4L, 4L)")
            begins_with(stream, stream.events)
            assert "it has begun already" in refused(stream)
        begins_with(stream, before if text == GROUPS else None)
        assert stream.run().rows_in == 16
        begins_with(stream, None)
        stream.add((12_000, "a", 5), (13_000, "d", 6))
        assert stream.run().rows_in == 2
        if text == WINDOWS:
            stream.flush()
        came = f"(select * from {stream.events} where ts >= timestamp_millis(9900))"
        if text == GROUPS:
            before = f"(select * from {before} where v <> 4 or k <> 'c')"
        assert stream.rows() == expected(stream, text, before, came)


def test_a_source_whose_first_rows_come_while_the_stream_is_going_on(spark: Any, tmp_path: Path) -> None:
    stream = Stream(
        spark, tmp_path, generate.generate_program(plan_of(GROUPS)), "k string, n bigint, s bigint"
    )
    files = tmp_path / "files"
    files.mkdir()
    begins_with(stream, history(stream, (0, "b", 1)))
    stream.reads(StreamSource("events", str(files), "parquet", EVENTS))
    with RunningStream(spark, replace(stream.model, trigger="200 milliseconds"), stream.program) as running:
        stream.add((0, "c", 1))
        spark.table(stream.events).write.mode("append").parquet(str(files))
        ends = time.monotonic() + 60
        while not stream.rows() and time.monotonic() < ends:
            running.wait(0.5)
    assert [row[0] for row in stream.rows()] == ["b", "c"]


def test_what_cannot_begin_so(spark: Any, tmp_path: Path) -> None:
    stream = Stream(
        spark, tmp_path, generate.generate_program(plan_of(GROUPS)), "k string, n bigint, s bigint"
    )
    stream.add((0, "a", 1))
    begins_with(stream, f"{stream.model.target}_history")
    assert f"the table {stream.model.bootstrap} to bootstrap it from doesn't exist" in refused(stream)
    history(stream, (0, "b", 1), kind="ts timestamp, k string, other bigint, x bigint")
    assert "its stream has v as BIGINT, and stream_tests." in refused(stream)
    assert stream.rows() == []
    # Put right, it is read as it is now.
    history(stream, (0, "b", 1))
    assert stream.run().rows_in == 2
    assert "it has begun already, so it can't begin with the rows of" in refused(stream)
    begins_with(stream, None)
    assert stream.run().rows_in == 0

    empty = Stream(spark, tmp_path, stream.program, "k string, n bigint, s bigint")
    begins_with(empty, history(empty, (0, "b", 1)))
    assert empty.run().rows_in == 1, "a table without rows has a place to go on from"
    begins_with(empty, None)
    empty.add((0, "c", 1))
    assert empty.run().rows_in == 1
    assert [row[0] for row in empty.rows()] == ["b", "c"]

    folder = Stream(spark, tmp_path, stream.program, "k string, n bigint, s bigint")
    files = tmp_path / "files"
    files.mkdir()
    folder.reads(StreamSource("events", str(files), "parquet", EVENTS))
    begins_with(folder, history(folder, (0, "b", 1)))
    for _ in range(2):
        assert folder.run().rows_in == 0, "and a folder without files has none"
    spark.table(empty.events).write.mode("append").parquet(str(files))
    assert folder.run().rows_in == 2, "together with those of the table"
    spark.sql("create or replace temporary view some_rows as select 1 as one")
    assert "some_rows to bootstrap it from" in refused(
        begins_with(Stream(spark, tmp_path, stream.program, "k string, n bigint, s bigint"), "some_rows")
    )
    assert [row[0] for row in folder.rows()] == ["b", "c"]

    stream.model = replace(
        stream.model, sources=(*stream.model.sources, StreamSource("others", stream.events))
    )
    begins_with(stream, "any").reset()
    spark.sql(f"create or replace table {stream.model.target} (k string, n bigint, s bigint) using iceberg")
    assert "only a model with one stream can begin with another table's rows, and it has 2" in refused(stream)


def test_fields_of_structs_are_found_by_name(spark: Any, tmp_path: Path) -> None:
    # Spark casts structs by position.
    model = Stream(
        spark, tmp_path, generate.generate_program(plan_of(GROUPS)), "k string, n bigint, s bigint"
    ).model
    table = spark.sql(
        "select named_struct('a', 1, 'b', 100) as s, array(named_struct('a', 1, 'b', 100)) as l"
    )
    schema = spark.sql(
        "select named_struct('b', 2L, 'a', 2) as s, array(named_struct('b', 2, 'a', 2)) as l"
    ).schema
    rows = rows_with_schema(schema, table, model, "history")
    assert rows.schema.simpleString() == "struct<s:struct<b:bigint,a:int>,l:array<struct<b:int,a:int>>>"
    assert [tuple(row) for row in rows.select("s.a", "s.b", "l.a", "l.b").collect()] == [(1, 100, [1], [100])]
