"""Streams without rows: a condition that no row can hold, and a total of no rows, which is a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

from .harness import Stream

EVENTS = expansion.expand_stream("events")
WINDOW = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "2 seconds"))
QUERIES = {
    "groups": (
        f"select k, count(*) as n from {EVENTS} where k = 'a' and k = 'b' group by k",
        "k string, n bigint",
    ),
    "windows": (
        f"select window_end, count(*) as n from {WINDOW} where 1 = 0 group by window_start, window_end",
        "window_end timestamp, n bigint",
    ),
    "rows": (f"select k, v from {EVENTS} where false", "k string, v bigint"),
    "rows with a changelog": (f"select k, v from {EVENTS} where false", "k string, v bigint"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_no_row_can_be_in_it(spark: Any, tmp_path: Path, name: str) -> None:
    text, columns = QUERIES[name]
    program = generate.generate_program(plan_query.plan(text, {"events": RelationInfo("ts")}, domains=["k"]))
    stream = Stream(spark, tmp_path, program, columns, changelog="changelog" in name)
    stream.add((0, "a", 1), (9000, "b", 2))
    done = stream.run()
    assert done.rows_in == 2
    assert done.watermark == 9_000_000
    assert stream.rows() == []


TOTALS = {
    "a total": f"select count(*) as n, sum(v) as s from {EVENTS}",
    "of kept rows": f"select count(*) as n, cast(percentile(v, 0.5) as bigint) as s from {EVENTS}",
    "scalars": f"select (select count(*) from {EVENTS}) as n, (select sum(v) from {EVENTS}) as s",
    "a total of windows": f"select count(*) as n, sum(c) as s from (select count(*) as c from {WINDOW} "
    "group by window_start, window_end)",
}


@pytest.mark.parametrize("name", mostly_thorough(TOTALS, ["a total"]))
def test_a_total_of_no_rows_is_a_row(spark: Any, tmp_path: Path, name: str) -> None:
    program = generate.generate_program(plan_of(TOTALS[name], {"events": RelationInfo("ts")}))
    stream = Stream(spark, tmp_path, program, "n bigint, s bigint", changelog=name == "a total")
    first = stream.run()
    assert (first.batches, first.rows_in, stream.rows()) == (1, 0, [(0, None)])
    assert stream.run().batches == 0
    assert stream.flush().rows_out == 0
    stream.add((0, "a", 1), (9000, "b", 2))
    assert stream.run().rows_in == 2
    stream.flush()
    assert stream.rows() == [(2, {"of kept rows": 1, "a total of windows": 2}.get(name, 3))]
    assert stream.run().batches == 0
    if stream.model.changelog:
        found = spark.table(stream.model.changes).orderBy("_batch_id").collect()
        assert [(row.n, row._change_type) for row in found if row._change_type != "update_before"] == [
            (0, "insert"),
            (2, "update_after"),
        ]


@pytest.mark.parametrize(
    "point", mostly_thorough(["state.append:after", "progress.write:before"], ["progress.write:before"])
)
def test_a_total_of_no_rows_outlives_a_crash(spark: Any, tmp_path: Path, point: str) -> None:
    program = generate.generate_program(plan_of(TOTALS["a total"], {"events": RelationInfo("ts")}))
    stream = Stream(spark, tmp_path, program, "n bigint, s bigint")
    failpoints.arm(failpoints.parse(f"raise {point} 1 {stream.model.name}"))
    with pytest.raises((StreamError, failpoints.FailPointError)):
        stream.run()
    failpoints.arm(None)
    stream.run()
    assert stream.rows() == [(0, None)]
    stream.add((0, "a", 1))
    stream.run()
    assert stream.rows() == [(1, 1)]


@pytest.mark.thorough
def test_a_total_of_no_rows_comes_while_a_stream_waits(spark: Any, tmp_path: Path) -> None:
    program = generate.generate_program(plan_of(TOTALS["a total"], {"events": RelationInfo("ts")}))
    stream = Stream(spark, tmp_path, program, "n bigint, s bigint")
    with RunningStream(spark, stream.model, program) as running:
        running.wait()
        running.continue_with_trigger("300 milliseconds")
        assert stream.rows() == [(0, None)]
        stream.add((0, "a", 1))
        for _ in range(60):
            running.wait(1)
            if stream.rows() == [(1, 1)]:
                break
    assert stream.rows() == [(1, 1)]
