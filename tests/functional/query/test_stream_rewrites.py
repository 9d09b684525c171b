"""Streams with rewrites: the rows of the plain query, and fewer rows of state where that is the point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.rewrites import stream_rewrites
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream
from tests.corpus import unwindowed, windows
from tests.functional.query.test_queries import folder, model_of, rows
from tests.planned import plan_of
from tests.thorough import mostly_thorough

__all__ = ["folder"]  # a fixture

COUNTS = """count(*) as n, sum(price) as s, count(distinct price) as prices, count(distinct bidder) as bidders,
    count(distinct price) filter (where bidder > 2) as high"""
FEW = "(item in ('a', 'b', 'nobody') or item is null) and price <> 7"
PER_WINDOW = f"""select item, window_start, window_end, {COUNTS} from {{}} where {FEW}
    group by item, window_start, window_end having count(*) > 0"""

QUERIES = {
    "enum over tumble": ("enum_distinct", PER_WINDOW.format(windows.TUMBLE)),
    "enum over cumulate": ("enum_distinct", PER_WINDOW.format(windows.CUMULATE)),
    "enum of two keys": (
        "enum_distinct",
        f"""select bidder, item, window_end, window_start, count(distinct price) as prices from {windows.CUMULATE}
            where {FEW} and bidder in (1, 2) group by bidder, item, window_end, window_start""",
    ),
    "enum over a whole stream": (
        "enum_distinct",
        f"select item, {COUNTS} from {unwindowed.B} where {FEW} group by item",
    ),
    "split_topn of windows' rows": ("split_topn", windows.top(windows.TUMBLE, rank="rank")),
    "split_topn of groups": ("split_topn", unwindowed.first("total desc, bidder")),
    "split_topn of rows": (
        "split_topn",
        unwindowed.first(
            "price % 20 desc nulls last", rank="dense_rank", of=f"select ts, item, price from {unwindowed.B}"
        ),
    ),
}


_IN_CI = {
    "split_topn of groups",
}


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_a_stream_has_the_rows_of_the_plain_query(
    spark: Any, storage_root: Path, folder: Path, name: str
) -> None:
    rewrite, text = QUERIES[name]
    buckets = None if rewrite == "enum_distinct" else 4
    plan = plan_of(stream_rewrites.with_hints(rewrite, text, buckets), unwindowed.KNOWN)
    plain = plan_of(text, unwindowed.KNOWN)
    batch = spark.sql(whole_query.batch_sql(plan))
    expected = rows(spark.sql(whole_query.batch_sql(plain)))
    assert expected and rows(batch) == expected
    sizes = []
    for planned in (plan, plain) if rewrite == "enum_distinct" else (plan,):
        program = generate.generate_program(planned)
        model = model_of(spark, storage_root, folder, program, batch, files=2)
        assert run_stream(spark, model, program).batches == 2
        kept = spark.table(model.state).where("part like '%distinct%'")
        sizes.append(kept.count())
        flush(spark, model, program)
        assert rows(spark.table(model.target)) == expected
    if rewrite == "enum_distinct":
        assert 0 < sizes[0] < sizes[1]
