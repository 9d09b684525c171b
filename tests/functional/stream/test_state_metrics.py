"""What a micro-batch reads, looks up and writes in each part of its state is told, and costs no Spark job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.query import expansion, generate, planner, window_arguments
from dbt.adapters.spark_streaming.query.streams import Known
from dbt.adapters.spark_streaming.stream.progress import read_progress
from tests.functional.stream.harness import CUMULATE, Stream

E = "(select /*+ STREAM */ * from events)"


def stream(spark: Any, root: Path, text: str, columns: str) -> Stream:
    return Stream(spark, root, generate.program(planner.plan_any(text, {"events": Known("ts")})), columns)


def told(s: Stream) -> dict[str, Any]:
    progress = read_progress(s.model)
    assert progress is not None
    state: Any = progress["state"]
    assert sum(part["rows"] for part in state["parts"]) == state["rows"]
    assert sum(part["bytes"] for part in state["parts"]) == state["bytes"]
    assert sum(part["files"] for part in state["parts"]) == state["files"]
    import json
    print(json.dumps(progress, indent=1))
    return {part["part"]: part for part in state["parts"]}


def test_groups_and_distinct_values_are_looked_up_by_key(spark: Any, storage_root: Path) -> None:
    text = f"select k, count(*) as c, count(distinct x) as d from {E} group by k"
    s = stream(spark, storage_root, text, "k string, c bigint, d bigint")
    s.add((0, "a", 1, 1), (1, "a", 1, 1), (2, "b", 1, 1))
    s.run()
    parts = told(s)
    s.add((3, "a", 1, 1), (4, "a", 1, 2), (5, "c", 1, 1), (6, "d", 1, 1))
    s.run()
    parts = told(s)
    assert parts is None
