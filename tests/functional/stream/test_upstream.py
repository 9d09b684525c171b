"""A table that a stream reads is built anew: noticed before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.errors import StreamError

from . import programs
from .harness import EVENTS, TUMBLE, Stream
from .programs import SECOND


@pytest.fixture
def counts(spark: Any, storage_root: Path) -> Stream:
    stream = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    stream.add((0, "a", 1), (1000, "a", 1))
    stream.run()
    return stream


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize(
    "how", ["create or replace table {} ({}) using iceberg", "drop table {};create table {} ({})"]
)
def test_a_table_that_was_built_anew(counts: Stream, how: str, rows: int) -> None:
    for statement in how.split(";"):
        counts.spark.sql(statement.format(*([counts.events, EVENTS][: statement.count("{}")])))
    for number in range(rows):
        counts.add((3000 + number, "a", 1))
    before = counts.rows()
    with pytest.raises(StreamError) as raised:
        counts.run()
    table = counts.events.rpartition(".")[2]
    assert f"the table {counts.events} that it streams from was built anew" in raised.value.msg
    assert f"Build this model anew too: {counts.model.rebuild}" in raised.value.msg
    assert f"`dbt run --full-refresh --select {table}+`" in raised.value.msg
    assert counts.rows() == before


def test_a_table_that_only_grew(counts: Stream) -> None:
    counts.add((2000, "a", 1))
    assert counts.run().rows_in == 1


def test_a_compaction_is_no_new_table(counts: Stream) -> None:
    catalog = counts.spark.conf.get("spark.sql.defaultCatalog")
    counts.add((2000, "a", 1))
    counts.run()
    counts.spark.sql(
        f"call {catalog}.system.rewrite_data_files(table => '{counts.events}', options => map('rewrite-all', 'true'))"
    )
    counts.add((3000, "a", 1))
    assert counts.run().rows_in == 1
