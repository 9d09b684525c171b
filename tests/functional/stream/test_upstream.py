"""A table that a stream reads is built anew: noticed before anything is written."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.state.table import StateTable
from tests.planned import plan_of
from tests.thorough import mostly_thorough

from . import programs
from .harness import EVENTS, TUMBLE, Stream, sorted_rows
from .programs import SECOND

BOTH = """
select k, count(*) as n, sum(v) as s from (
  select k, v from (select /*+ STREAM */ * from events) union all select k, v from (select /*+ STREAM */ * from others)
) group by k
"""


@pytest.fixture
def counts(spark: Any, storage_root: Path) -> Stream:
    stream = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    stream.add((0, "a", 1), (1000, "a", 1))
    stream.run()
    return stream


@pytest.mark.parametrize("rows", mostly_thorough([0, 1, 2], [1]))
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
    assert f"the table {counts.events} that it streams from was rebuilt" in raised.value.msg
    assert f"Rebuild this model too: {counts.model.rebuild}" in raised.value.msg
    assert f"`dbt run --full-refresh --select {table}+`" in raised.value.msg
    assert counts.rows() == before


@pytest.mark.parametrize(
    "how", [pytest.param("create or replace", marks=pytest.mark.thorough), "drop table {0};create"]
)
def test_a_table_that_was_built_anew_with_its_columns_in_another_order(counts: Stream, how: str) -> None:
    """Iceberg's ids of its columns are others then, which isn't what happened."""
    columns = ", ".join(reversed(EVENTS.split(", ")))
    for statement in f"{how} table {{0}} (more int, {columns}) using iceberg".split(";"):
        counts.spark.sql(statement.format(counts.events))
    with pytest.raises(StreamError, match="that it streams from was rebuilt") as raised:
        counts.run()
    assert "dropped and added again" not in raised.value.msg


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


def expire_all_but_last(stream: Stream) -> None:
    catalog = stream.spark.conf.get("spark.sql.defaultCatalog")
    stream.spark.sql(
        f"call {catalog}.system.expire_snapshots(table => '{stream.events}', older_than => now(), retain_last => 1)"
    )


def test_a_beginning_that_has_expired(spark: Any, storage_root: Path) -> None:
    stream = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    stream.add((0, "a", 1), (1000, "a", 1))
    stream.add((2000, "a", 1))
    expire_all_but_last(stream)
    source = stream.model.sources[0]
    stream.reads(StreamSource("events", stream.events, options={"stream-from-timestamp": "0"}))
    assert stream.run().rows_in == 1, "as the option says"
    stream.reset()
    spark.sql(f"create or replace table {stream.model.target} ({TUMBLE}) using iceberg")
    stream.reads(source)
    assert stream.run().rows_in == 3, "all that the table holds"
    stream.add((3000, "a", 1))
    assert stream.run().rows_in == 1


def test_a_table_that_nobody_knows_the_step_of_is_not_filled_twice(spark: Any, storage_root: Path) -> None:
    """Its snapshots with positions were expired by hand, and so were the first ones of the table it reads."""
    stream = Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    for number in range(2):
        stream.add((number * 1000, "a", number))
        stream.run()
    catalog = spark.conf.get("spark.sql.defaultCatalog")
    target = stream.model.target
    spark.sql(
        f"call {catalog}.system.rewrite_data_files(table => '{target}', options => map('rewrite-all', 'true'))"
    )
    spark.sql(
        f"call {catalog}.system.expire_snapshots(table => '{target}', older_than => now(), retain_last => 1)"
    )
    expire_all_but_last(stream)
    assert stream.run().rows_in == 0
    stream.add((9000, "a", 9))
    assert stream.run().rows_in == 1
    assert stream.rows() == [(0, "a", 0), (1000, "a", 2), (9000, "a", 18)]


def test_a_beginning_is_read_with_the_columns_of_now(spark: Any, storage_root: Path) -> None:
    text = "select k, v as first, late from (select /*+ STREAM */ * from events)"
    stream = Stream(
        spark, storage_root, generate.generate_program(plan_of(text)), "k string, first bigint, late string"
    )
    stream.add((0, "a", 1))
    stream.add((1000, "b", 2))
    expire_all_but_last(stream)
    spark.sql(f"alter table {stream.events} rename column v to old")
    spark.sql(f"alter table {stream.events} add columns (v bigint, late string)")
    stream.program = generate.generate_program(
        plan_of(text.replace("v as first", "coalesce(v, old) as first"))
    )
    assert stream.run().rows_in == 2
    assert stream.rows() == [("a", 1, None), ("b", 2, None)]


@pytest.mark.thorough
def test_a_beginning_that_has_expired_after_rows_were_deleted(spark: Any, storage_root: Path) -> None:
    """A file that is gone and rows that are, of another table, are still listed in manifests, as deleted."""
    catalog = spark.conf.get("spark.sql.defaultCatalog")
    timed = {"events": RelationInfo(event_time="ts"), "others": RelationInfo(event_time="ts")}
    program = generate.generate_program(plan_query.plan(BOTH, timed, domains=["k"]))
    stream = Stream(spark, storage_root, program, "k string, n bigint, s bigint")
    others = f"{stream.events}_others"
    spark.sql(
        f"create table {others} ({EVENTS}) using iceberg tblproperties ('write.delete.mode' = 'merge-on-read')"
    )
    stream.model = replace(
        stream.model, sources=(StreamSource("events", stream.events), StreamSource("others", others))
    )
    for table in (stream.events, others):
        rows = "timestamp_millis(id) as ts, 'k' || id as k, id as v, id as x"
        spark.sql(f"insert into {table} select /*+ repartition(2, id) */ {rows} from range(4)")
        spark.sql(f"delete from {table} where v = 1")
        spark.sql(f"insert into {table} select {rows} from range(4, 5)")
        spark.sql(
            f"call {catalog}.system.expire_snapshots(table => '{table}', older_than => now(), retain_last => 1)"
        )
    assert stream.run().rows_in == 8
    expected = [(f"k{number}", 2, 2 * number) for number in (0, 2, 3, 4)]
    assert stream.rows() == expected
    spark.sql(f"insert into {others} values (timestamp_millis(9), 'k0', 1, 1)")
    assert stream.run().rows_in == 1
    assert stream.rows() == [("k0", 3, 1), *expected[1:]]


def test_a_beginning_that_can_not_be_made_good(spark: Any, storage_root: Path) -> None:
    stream = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    catalog = spark.conf.get("spark.sql.defaultCatalog")
    stream.add((0, "a", 1), (1000, "a", 1))
    stream.add((2000, "a", 1))
    spark.sql(
        f"call {catalog}.system.rewrite_data_files(table => '{stream.events}', options => map('rewrite-all', 'true'))"
    )
    expire_all_but_last(stream)
    with pytest.raises(StreamError) as raised:
        stream.run()
    assert f"the first snapshots of the table {stream.events} that it streams from have expired" in (
        raised.value.msg
    )
    assert not stream.model.storage.exists(stream.model.checkpoint)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(["delete from {} where v = 2"], marks=pytest.mark.thorough),
        ["update {} set v = 2 where v = 1"],
        pytest.param(
            ["delete from {} where v = 2", "insert into {} values (timestamp_millis(2500), 'a', 9, 9)"],
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["deleted", "updated", "deleted and added"],
)
def test_a_past_in_which_rows_were_changed(spark: Any, storage_root: Path, changes: list[str]) -> None:
    """A stream begins with the table as it is, and goes on from there."""
    stream = Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    stream.add((0, "a", 1), (1000, "a", 2))
    stream.add((2000, "a", 3))
    for change in changes:
        spark.sql(change.format(stream.events))

    def expected() -> list[tuple[Any, ...]]:
        return sorted_rows(spark.sql(f"select ts, k, v * 2 as doubled from {stream.events}").collect())

    stream.run()
    assert stream.rows() == expected()
    assert stream.run().batches == 0
    stream.add((3000, "a", 5))
    assert stream.run().rows_in == 1
    stream.add((4000, "a", 6))
    assert stream.run().rows_in == 1
    assert stream.rows() == expected()
    before = stream.rows()
    spark.sql(f"delete from {stream.events} where v = 6")
    for _ in range(2):
        with pytest.raises(StreamError, match="rows of a source were changed or deleted"):
            stream.run()
        stream.add((5000, "a", 7))
    assert stream.rows() == before


def test_rows_that_are_changed_when_a_stream_begins(spark: Any, storage_root: Path) -> None:
    """What the first micro-batch of a crash has read is what the next run goes on from."""
    stream = Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    stream.add((0, "a", 1), (1000, "a", 2))
    spark.sql(f"delete from {stream.events} where v = 2")
    failpoints.arm("batch:done")
    with pytest.raises(StreamError):
        stream.run()
    failpoints.arm(None)
    stream.add((2000, "a", 3))
    stream.run()
    assert stream.rows() == [(0, "a", 2), (2000, "a", 6)]


def test_a_past_that_is_passed_over(spark: Any, storage_root: Path) -> None:
    stream = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    stream.add((0, "a", 1), (1000, "a", 1))
    spark.sql(f"update {stream.events} set v = 2 where v = 1")
    stream.add((2000, "a", 1))
    option = {"streaming-skip-overwrite-snapshots": "true"}
    stream.reads(StreamSource("events", stream.events, options=option))
    assert stream.run().rows_in == 3


@pytest.mark.thorough
def test_snapshots_that_were_read_may_expire(counts: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    counts.add((2000, "a", 1))
    counts.run()
    counts.add((3000, "a", 1))
    counts.run()
    expire_all_but_last(counts)
    assert counts.run().rows_in == 0
    counts.add((4000, "a", 1))
    assert counts.run().rows_in == 1

    # A micro-batch that was cut short begins where it did.
    def crash(*_: Any) -> None:
        raise RuntimeError("crash")

    counts.add((5000, "a", 1))
    with monkeypatch.context() as patched:
        patched.setattr(StateTable, "append", crash)
        with pytest.raises(StreamError, match="crash"):
            counts.run()
    counts.add((6000, "a", 1))
    assert counts.run().rows_in == 2
    assert counts.rows() == [(ms, ms + 1000, "a", 1, 1) for ms in range(0, 6000, 1000)]


def test_a_table_without_rows_yet(spark: Any, storage_root: Path) -> None:
    stream = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    spark.sql(f"insert into {stream.events} select * from {stream.events}")
    assert stream.run().rows_in == 0
    stream.add((0, "a", 1))
    assert stream.run().rows_in == 1


@pytest.mark.thorough
def test_a_first_micro_batch_that_is_in_needs_its_snapshots_no_more(spark: Any, storage_root: Path) -> None:
    """A run is ended between its own commits and Spark's; then the source's first snapshots expire."""
    counts = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    counts.add((0, "a", 1), (1000, "a", 1))
    counts.add((1500, "a", 1))
    failpoints.arm(failpoints.parse("raise batch:done"))
    try:
        with pytest.raises(StreamError, match=" at batch:done"):
            counts.run()
    finally:
        failpoints.arm(None)
    expire_all_but_last(counts)
    counts.add((9000, "a", 1))
    assert counts.run().rows_in == 1
    assert counts.rows() == [(0, 1000, "a", 1, 1), (1000, 2000, "a", 2, 2)]


@pytest.mark.thorough
def test_who_asks_a_run_to_stop_while_it_starts(counts: Stream) -> None:
    """What a crash cut short is finished first, which may take minutes."""
    counts.run()
    counts.add((2000, "a", 1), (9000, "a", 1))
    failpoints.arm(failpoints.parse("raise table.append:before"))
    try:
        with pytest.raises(StreamError, match=" at table"):
            counts.run()

        def stop(point: str, model: str) -> None:
            if point == "batch.finish:before":
                counts.model.storage.write_text(counts.model.stop_request, "")
            elif point == "batch:begun":
                time.sleep(3)

        failpoints.arm(stop)
        assert counts.run().stopped
    finally:
        failpoints.arm(None)
    assert not counts.run().stopped
