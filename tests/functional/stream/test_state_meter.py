"""What a micro-batch reads, looks up and writes in each part of its state is told, and costs no Spark job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.progress.metrics_sink import SOURCE
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.state.table import StateTable
from tests.corpus.windows import window
from tests.functional.stream.harness import CUMULATE, Stream
from tests.planned import plan_of

E = "(select /*+ STREAM */ * from events)"
HOUR = 3_600_000_000
GROUPS = f"select k, count(*) as c, count(distinct x) as d from {E} group by k"


def stream(spark: Any, root: Path, text: str, columns: str, ttl: int | None = None) -> Stream:
    plan = plan_of(text, {"events": RelationInfo("ts")}, ttl)
    return Stream(spark, root, generate.generate_program(plan, ttl=ttl), columns)


def parts(s: Stream) -> dict[str, Any]:
    """The parts of its state, as `status` has them, which are what is there."""
    progress = read_progress(s.model)
    assert progress is not None
    state: Any = progress["state"]
    there = {
        row[0]: row[1:]
        for row in s.spark.sql(
            "select partition.part, record_count, total_data_file_size_in_bytes, file_count "
            f"from {s.model.state}.partitions"
        ).collect()
    }
    told = {part["part"]: (part["rows"], part["bytes"], part["files"]) for part in state["parts"]}
    assert {part: size for part, size in told.items() if size != (0, 0, 0)} == there
    for number, name in enumerate(("rows", "bytes", "files")):
        assert state[name] == sum(size[number] for size in told.values())
    return {part["part"]: part for part in state["parts"]}


def done(part: dict[str, Any], *names: str) -> tuple[int, ...]:
    return tuple(part["last"][name] for name in names)


@pytest.mark.thorough
def test_groups_and_distinct_values_are_looked_up_by_key(spark: Any, storage_root: Path) -> None:
    s = stream(spark, storage_root, GROUPS, "k string, c bigint, d bigint")
    of_groups, of_values = s.part("groups"), s.part("distinct_x")
    s.add((0, "a", 1, 1), (1, "a", 1, 1), (2, "b", 1, 1))
    first = {each.part: each for each in s.run().state}
    # While the state has nothing values aren't looked up; groups are, beside the rows that just came.
    assert first[of_groups].figures.misses == 2
    assert first[of_values].figures.lookups == 0
    s.add((3, "a", 1, 1), (4, "a", 1, 2), (5, "c", 1, 1), (6, "d", 1, 1))
    run = {each.part: each for each in s.run().state}
    groups, values = (parts(s)[name] for name in (of_groups, of_values))
    lookups = ("lookups", "hits", "misses")
    assert done(groups, *lookups) == (3, 1, 2)
    assert done(values, *lookups) == (4, 1, 3)
    assert done(values, "scans", "rows_read", "files_read", "bytes_read") == (
        1,
        2,
        1,
        first[of_values].size.bytes,
    )
    assert done(values, "rows_written", "files_written", "rows_deleted") == (3, 1, 0)
    assert values["last"]["bytes_written"] == values["bytes"] - first[of_values].size.bytes
    assert run[of_values].figures.as_dict() == values["last"]

    sources = spark._jsc.sc().env().metricsSystem().getSourcesByName(SOURCE)
    assert sources.size() == 1
    registry = sources.apply(0).metricRegistry()
    name = f"{s.model.name}.state.{of_groups}"
    assert registry.counter(f"{name}.hits").getCount() == 1
    assert registry.counter(f"{name}.misses").getCount() == 4
    assert registry.counter(f"{s.model.name}.rows_in").getCount() == 7
    assert registry.getMetrics().get(f"{name}.rows").getValue() == groups["rows"]

    # Somebody else has written it, or the figures are gone: Iceberg is asked how large the parts are.
    s.model.storage.delete(s.model.progress)
    s.add((7, "a", 1, 1))
    s.run()
    parts(s)
    before = parts(s)[of_groups]
    state = StateTable(spark, s.model)
    folded = {part.name: part.fold for part in s.program.parts}
    position = state.position()
    assert position is not None
    state.register_state_view(spark)
    spark.sql("create or replace temp view clock as select 9000L as step")
    state.fold(spark, {of_groups: folded[of_groups]}, position)
    s.add((8, "a", 1, 1))
    s.run()
    assert parts(s)[of_groups]["rows"] == 4 + 1 < before["rows"]


def test_what_a_fold_puts_others_in_the_place_of_is_deleted(spark: Any, storage_root: Path) -> None:
    text = f"select k, count(*) as c from {E} group by k"
    s = stream(spark, storage_root, text, "k string, c bigint", HOUR)
    s.add((0, "a", 1), (1, "b", 1))
    s.run()
    s.add((2 * 3_600_000, "a", 1))
    s.run()
    (groups,) = parts(s).values()
    # The watermark has come an hour further, so the part is folded: both keys were forgotten.
    assert done(groups, "rows_written", "rows_deleted") == (1 + 1, 2 + 1)
    assert done(groups, "lookups", "hits", "misses") == (1, 1, 0)


@pytest.mark.thorough
def test_windows_and_trees_of_operators_are_measured(spark: Any, storage_root: Path) -> None:
    text = (
        "select window_start, window_end, k, count(*) as c, sum(v) as s, count(distinct x) as d "
        f"from {window('cumulate', '1 second', '1 minute', of='events')} group by window_start, window_end, k"
    )
    s = stream(spark, storage_root, text, CUMULATE)
    s.add((0, "a", 1, 1), (1, "b", 1, 1))
    s.run()
    s.add((1500, "a", 1, 1), (1501, "a", 1, 2))
    s.run()
    slices, values = (parts(s)[s.part(kind)] for kind in ("slices", "distinct_x"))
    assert done(values, "lookups", "hits", "misses", "rows_written") == (2, 1, 1, 1)
    assert done(slices, "rows_read", "lookups") == (slices["rows"], 0)

    tree = f"select c, count(*) as n from (select k, count(*) as c from {E} group by k) group by c"
    s = stream(spark, storage_root, tree, "c bigint, n bigint", HOUR)
    s.add((0, "a", 1), (1, "b", 1))
    s.run()
    s.add((2, "a", 1), (3, "c", 1))
    s.run()
    below, above = (part for name, part in parts(s).items() if name.startswith("group_"))
    # Of the keys a and c one is known. a's count goes from 1 to 2, c's is 1: of the counts 1 is known.
    assert [done(each, "lookups", "hits") for each in (below, above)] == [(2, 1), (2, 1)]
    # A key that may have been forgotten is looked for before that.
    assert done(below, "scans") == (2,)
