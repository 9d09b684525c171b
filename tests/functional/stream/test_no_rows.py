"""Conditions that no row can hold, of which Spark computes nothing: the stream is read all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query import expansion, generate, planner
from dbt.adapters.spark_streaming.query.streams import Known
from dbt.adapters.spark_streaming.query.windowing import window_arguments

from .harness import Stream

EVENTS = expansion.expand_stream("events")
WINDOW = expansion.expand("events", window_arguments.make("tumble", "ts", "2 seconds"))
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
    program = generate.program(planner.plan(text, {"events": Known("ts")}, domains=["k"]))
    stream = Stream(spark, tmp_path, program, columns, changelog="changelog" in name)
    stream.add((0, "a", 1), (9000, "b", 2))
    done = stream.run()
    assert done.rows_in == 2
    assert done.watermark == 9_000_000
    assert stream.rows() == []
