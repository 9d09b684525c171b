"""Queries over whole streams: the stream's table has batch's rows after each piece, and its changes make it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.stream.progress.position import read_position
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.corpus.unwindowed import DAY, QUERIES, TTL, planned
from tests.functional.query.test_queries import folder, model_of, rows
from tests.functional.stream.harness import replayed
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

__all__ = ["folder"]  # a fixture

AT_EVERY_VERSION = {"groups", "topn that may fall", "last row", "limit of rows"}
# All are run by tests/differential/test_composed.py, on DuckDB. Those that Spark has its own part in are run here, too;
# all of them with `-m thorough`.
_IN_CI = {"groups of a join in time"}


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_stream_and_batch_have_the_same_rows(spark: Any, storage_root: Path, folder: Path, name: str) -> None:
    plan = planned(name, asks(spark))
    batch = spark.sql(whole_query.batch_sql(plan))
    expected = rows(batch)
    assert expected
    program = generate.generate_program(plan, ttl=DAY if name in TTL else None)
    # A micro-batch takes a second or two, so most queries make do with two.
    files = 1 if name in AT_EVERY_VERSION else 2
    changes = program.upsert is not None
    model = model_of(spark, storage_root, folder, program, batch, changelog=changes, files=files)
    result = run_stream(spark, model, program)
    assert (result.batches, result.late_rows) == (4 // files, 0)
    flush(spark, model, program)
    assert rows(spark.table(model.target)) == expected
    if program.upsert is not None:
        assert sorted(replayed(spark, model), key=repr) == expected
    if name in AT_EVERY_VERSION:
        versions = spark.sql(f"select snapshot_id, summary from {model.target}.snapshots").collect()
        assert len(versions) >= 4
        for version in versions:
            then = spark.sql(f"select * from {model.target} version as of {version['snapshot_id']}")
            step = read_position(version["summary"])
            assert step is not None
            feed = replayed(spark, model, step.number)
            assert sorted(feed, key=repr) == rows(then)


def test_what_is_computed_anew() -> None:
    """Partition by partition: no operator keeps it up to date."""

    def is_recomputed(name: str) -> bool:
        flow = planned(name).dataflow
        assert flow is not None
        return any(isinstance(each, Recompute) for each in flow.operators)

    assert set(filter(is_recomputed, QUERIES)) == {
        "a join of groups of first rows",
        "percentiles of first rows",
        "topn of first rows",
        "a join of groups",
        "topn of topn",
        "percentiles",
        "percentiles by cube",
        "percentiles by grouping sets",
    }
