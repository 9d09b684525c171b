"""Queries put together from any parts: the stream's table has batch's rows, and its changelog makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.corpus.operators import AT_CLOSE, DOMAINS, ITEMS, QUERIES, TTL, planned
from tests.corpus.unwindowed import DAY, KNOWN
from tests.functional.query.test_queries import folder, model_of, rows
from tests.functional.quick import many_rows
from tests.functional.stream.harness import replayed
from tests.planned import tree_of
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

__all__ = ["folder", "many_rows"]  # fixtures


@pytest.fixture(autouse=True, scope="module")
def few_rows() -> None:
    """What is set for the others isn't here, where `many_rows` is."""


# All are run by tests/differential/test_composed.py, on DuckDB. Those that Spark has its own part in are run here, too;
# all of them with `-m thorough`.
_IN_CI: set[str] = set()


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_stream_and_batch_have_the_same_rows(spark: Any, storage_root: Path, folder: Path, name: str) -> None:
    plan = planned(name, asks(spark))
    batch = spark.sql(whole_query.batch_sql(plan))
    expected = rows(batch)
    assert expected
    program = generate.generate_program(plan, ttl=30 * DAY if name in TTL else None)
    changes = program.upsert is not None
    model = model_of(spark, storage_root, folder, program, batch, changelog=changes, files=1)
    result = run_stream(spark, model, program)
    assert (result.batches, result.late_rows) == (4, 0)
    if name in AT_CLOSE:
        passed = f"timestamp_micros({result.watermark}) - interval {AT_CLOSE[name]} seconds"
        closed = rows(batch.where(f"window_end <= {passed}"))
        assert 0 < len(closed) < len(expected)
        assert rows(spark.table(model.target)) == closed
    flush(spark, model, program)
    assert rows(spark.table(model.target)) == expected
    if program.upsert is not None and program.upsert.key is not None:
        assert sorted(replayed(spark, model), key=repr) == expected


# Each time it is read, its names are other ones.
ODD_NAMES = "(select item, uuid() as name from values ('a'), ('b'), ('c'), ('c') as t (item))"
"""What a micro-batch can't compute once more."""
CHANGING = {
    "names": f"""select name, sum(n) as n, count(*) as rows from (
        select d.name, g.n from ({ITEMS}) as g join {ODD_NAMES} as d on d.item = g.item) group by name""",
    "values of chance": f"select r, sum(n) as n, count(*) as rows from (select uuid() as r, n from ({ITEMS})) group by r",
}


@pytest.mark.parametrize("name", mostly_thorough(CHANGING, []))
def test_what_was_given_is_taken_back_as_it_was(
    spark: Any, storage_root: Path, folder: Path, name: str
) -> None:
    """Whatever a row gave before, what it gives now is all there is of it."""
    plan = tree_of(CHANGING[name], KNOWN, 30 * DAY, (*DOMAINS, "name", "r"), asks(spark))
    program = generate.generate_program(plan, ttl=30 * DAY)
    batch = spark.sql(whole_query.batch_sql(plan))
    model = model_of(spark, storage_root, folder, program, batch, changelog=True, files=1)
    assert run_stream(spark, model, program).batches == 4
    found = spark.table(model.target).select("n", "rows").sort("n").collect()
    assert [tuple(row) for row in found] == [
        tuple(row) for row in batch.select("n", "rows").sort("n").collect()
    ]
    assert sorted(replayed(spark, model), key=repr) == rows(spark.table(model.target))
