"""How many Spark jobs a micro-batch takes: with few rows it costs what these cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from tests.functional.stream.harness import CUMULATE, TUMBLE, Stream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

E = "(select /*+ STREAM */ * from events)"


def windows(kind: str, *sizes: str) -> str:
    return expansion.expand_window("events", window_arguments.make_window(kind, "ts", *sizes))


GROUPS = f"select x, k, sum(v) as s from {E} group by x, k"
BY_WINDOW = "from {} group by window_start, window_end, k"
WORK = {
    "ranking": (
        f"select x, k, s, rn from (select *, row_number() over (partition by x order by s desc) as rn from ({GROUPS})) "
        "where rn <= 1",
        "x bigint, k string, s bigint, rn int",
        # One of them reads the groups of the ranking whose member falls.
        5,
    ),
    "groups": (GROUPS, "x bigint, k string, s bigint", 3),
    "cumulate": (
        "select window_start, window_end, k, count(*) as c, sum(v) as s, count(distinct x) as d "
        + BY_WINDOW.format(windows("cumulate", "1 second", "1 minute")),
        CUMULATE,
        3,
    ),
    "tumble": (
        "select window_start, window_end, k, count(*) as c, sum(v) as s "
        + BY_WINDOW.format(windows("tumble", "1 second")),
        TUMBLE,
        3,
    ),
}


@pytest.mark.parametrize("name", mostly_thorough(WORK, ["cumulate"]))
def test_a_micro_batch_takes_few_jobs(spark: Any, storage_root: Path, name: str) -> None:
    text, columns, most = WORK[name]
    s = Stream(
        spark, storage_root, generate.generate_program(plan_of(text, {"events": RelationInfo("ts")})), columns
    )
    s.add((0, "a", 5, 1), (500, "b", 4, 1), (1500, "c", 3, 2))
    s.run()
    # The member of ranking 1 falls, so that another group takes its place; and windows close.
    s.add((2500, "a", -5, 1), (3700, "d", 9, 2))
    s.run()
    progress = read_progress(s.model)
    assert progress is not None
    assert progress["last"]["rows_out"] > 0
    assert progress["last"]["jobs"] <= most
