"""Queries over windows, stacked in all ways: the view, the batch plan and the stream have the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.state.window_steps import WindowBufferSpec
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.corpus.windows import QUERIES, planned
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

BIDS = "ts timestamp, bidder bigint, item string, price bigint"
ASKS = "ts timestamp, item string, price bigint"
DELAY = 3_600_000_000
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two streams of four files each, nearly in order of time."""
    folder = tmp_path_factory.mktemp("queries")
    for name, seed, columns in (("bids", 1, "bidder, item, price"), ("asks", 9, "item, price")):
        rows = spark.sql(
            f"""select timestamp'2024-03-04 08:00:00' +
              make_dt_interval(0, 0, 0, id * 20 + pmod(hash(id, {seed}), 60)) as ts,
              nullif(pmod(hash(id, {seed}, 2), 5), 0)::bigint as bidder,
              nullif(chr(97 + pmod(hash(id, {seed}, 3), 4)), 'd') as item,
              nullif(pmod(hash(id, {seed}, 4), 90), 0)::bigint as price, id div 75 as piece
            from range(300)"""
        )
        for piece in range(4):
            path = str(folder / name)
            kept = rows.where(f"piece = {piece}").selectExpr("ts", *columns.split(", "))
            kept.coalesce(1).write.mode("append").parquet(path)
        spark.read.schema(BIDS if name == "bids" else ASKS).parquet(path).createOrReplaceTempView(name)
    yield folder
    for name in ("bids", "asks"):
        spark.catalog.dropTempView(name)


def rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in table.collect()), key=repr)


def model_of(
    spark: Any,
    root: Path,
    folder: Path,
    program: Program,
    batch: Any,
    changelog: bool = False,
    files: int = 1,
) -> StreamModel:
    """A model over the folder's streams, so many files of each at once, with a table of the columns that the
    query has in batch."""
    spark.sql("create namespace if not exists queries")
    target = f"queries.q{next(_numbers)}"
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in batch.schema.fields)
    spark.sql(f"create table {target} ({columns}) using iceberg")
    schemas = {"bids": BIDS, "asks": ASKS}
    return StreamModel(
        name=target,
        target=target,
        state=f"{target}__state",
        storage=Storage(str(root), lambda: spark),
        sources=tuple(
            StreamSource(
                stream.relation,
                str(folder / stream.relation),
                "parquet",
                schemas[stream.relation],
                {"maxFilesPerTrigger": str(files)},
            )
            for stream in program.inputs
        ),
        watermark_delay=DELAY,
        changelog=changelog,
    )


# All are run by tests/differential/test_composed.py, on DuckDB. Those that Spark has its own part in are run here, too;
# all of them with `-m thorough`.
_IN_CI = {"a join of rows of two streams"}


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_view_batch_and_stream_have_the_same_rows(
    spark: Any, storage_root: Path, folder: Path, name: str
) -> None:
    text = QUERIES[name]
    plan = planned(name, asks(spark))
    batch = spark.sql(whole_query.batch_sql(plan))
    assert rows(batch)
    if "row_number" not in text:  # whose ties a view leaves to chance
        assert rows(batch) == rows(spark.sql(text))
    program = generate.generate_program(plan)
    # A micro-batch takes a second or two. What is cut in more is for the oracle and the property tests.
    model = model_of(spark, storage_root, folder, program, batch, files=2)
    result = run_stream(spark, model, program)
    assert (result.batches, result.late_rows) == (2, 0)
    flush(spark, model, program)
    assert rows(spark.table(model.target)) == rows(batch)


def test_only_what_can_not_be_merged_keeps_rows() -> None:
    keeping = {
        name
        for name in QUERIES
        if any(isinstance(s, WindowBufferSpec) for s in planned(name).dataflow.window_specs)
    }
    assert keeping == {
        "a join of rows of two streams",
        "first row of a window",
        "last row of a cumulate",
        "topn of hop rows",
        "topn of cumulate rows with ranks",
        "topn of session rows",
        "a range of ranks",
        "qualify",
        "percentiles keep rows",
        "percentiles of sessions",
        "sessions with a filter above",
        "dynamic_cumulate by a column called as its key",
        "dynamic_cumulate without its key",
        "rows with their sessions",
    }
