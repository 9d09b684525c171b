"""One name of several types in a query: each type has a column of its own in the state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.corpus.unwindowed import KNOWN, B
from tests.corpus.windows import TUMBLE
from tests.functional.query.test_queries import folder, model_of, rows
from tests.spark_rows import asks
from tests.thorough import mostly_thorough

__all__ = ["folder"]  # a fixture

QUERIES = {
    "keys of groups": f"""select ts, count(*) as n, sum(n) as rows from (
        select date(ts) as ts, item, n from (select ts, item, count(*) as n from {B} group by ts, item)) group by ts""",
    "distinct values of groups": f"""select count(distinct item) as items, sum(distinct item) as total from (
        select bidder, count(distinct item) as item from {B} group by bidder) as counted""",
    "keys of windows": f"""select l.window_start, l.window_end, l.item, l.n, r.n as m from (
            select window_start, window_end, item, count(*) as n from {TUMBLE} group by window_start, window_end, item) as l
        join (select window_start, window_end, item, count(*) as n from (
                select window_start, window_end, bidder as item from {TUMBLE}) group by window_start, window_end, item) as r
            on l.window_end = r.window_end and length(l.item) = r.item""",
}


def _run(spark: Any, storage_root: Path, folder: Path, text: str) -> tuple[list[Any], list[Any]]:
    plan = plan_query.plan(text, KNOWN, domains=("ts", "item", "bidder"), ask=asks(spark))
    batch = spark.sql(whole_query.batch_sql(plan))
    program = generate.generate_program(plan)
    model = model_of(spark, storage_root, folder, program, batch, files=1)
    run_stream(spark, model, program)
    flush(spark, model, program)
    return rows(spark.table(model.target)), rows(batch)


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, []))
def test_each_type_has_its_column(spark: Any, storage_root: Path, folder: Path, name: str) -> None:
    made, expected = _run(spark, storage_root, folder, QUERIES[name])
    assert made == expected and made
