"""Tables of which a micro-batch writes what it changes: old rows go by their place."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.table import DELETE_FILES, DELETED, RECORDS, IcebergTable
from dbt.adapters.spark_streaming.stream.sink import upsert
from tests.functional.stream.harness import Stream, sorted_rows, written
from tests.planned import plan_of
from tests.thorough import mostly_thorough

E = "(select /*+ STREAM */ * from events)"
TOTALS = f"select k, count(*) as n, sum(v) as s from {E} group by k having count(*) <> 3"
COLUMNS = "k string, n bigint, s bigint"


@pytest.fixture
def stream(spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A table of counts, that is never written anew."""
    written("by place", monkeypatch.setattr)
    return Stream(spark, storage_root, generate.generate_program(plan_of(TOTALS)), COLUMNS)


def expected(s: Stream) -> list[tuple[Any, ...]]:
    text = f"select k, count(*) as n, sum(v) as s from {s.events} group by k having count(*) <> 3"
    return sorted_rows(s.spark.sql(text).collect())


def count(s: Stream, what: str) -> int:
    return IcebergTable(s.spark, s.model.target).summary_count(what)


def add(s: Stream, chance: random.Random, rows: int, keys: int) -> None:
    s.add(
        *(
            (chance.randint(0, 9_000), f"k{chance.randrange(keys)}", chance.randint(-9, 9))
            for _ in range(rows)
        )
    )


@pytest.mark.parametrize("seed", mostly_thorough([1, 2], []))
def test_the_rows_are_those_of_batch_however_often_they_change(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """And while files of deletes are put together, and those of rows written anew that have lost many."""
    monkeypatch.setattr(maintenance, "EVERY", 8)
    chance = random.Random(seed)
    most = 0
    add(stream, chance, 300, 100)
    for rows in (2, 1, 3, 2, 5, 40, 1, 1, 3, 2):
        add(stream, chance, rows, 100)
        stream.run()
        assert stream.rows() == expected(stream)
        most = max(most, count(stream, DELETE_FILES))
    assert 1 < most < 6
    operations = [
        each["operation"] for each in stream.spark.table(f"{stream.model.target}.snapshots").collect()
    ]
    assert "replace" in operations and "overwrite" in operations


def test_a_small_change_writes_little(stream: Stream) -> None:
    stream.add(*((n, f"k{n}", 1) for n in range(500)))
    stream.run()
    stream.add((1, "k7", 1), (2, "new", 1), *((n, "k9", 1) for n in range(2)))
    assert stream.run().rows_out == 3
    summary = IcebergTable(stream.spark, stream.model.target).newest_summary()
    # k9 has three rows now, so it goes.
    assert (summary["added-records"], summary["added-position-deletes"]) == ("2", "2")
    assert "deleted-data-files" not in summary
    assert stream.rows() == expected(stream)


@pytest.mark.thorough
def test_a_table_of_which_a_third_is_gone_is_written_anew(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upsert, "_WORN", 3)
    stream.add(*((n, f"k{n}", 1) for n in range(9)))
    stream.run()
    gone = []
    for number in range(5):
        stream.add((1, f"k{number}", 1))
        stream.run()
        gone.append(count(stream, DELETED))
        assert stream.rows() == expected(stream)
    assert gone == [1, 2, 3, 0, 1]


def at(point: str, act: Callable[[], object]) -> list[str]:
    """The first time that a stream is at a point, something is done; whether it was."""
    done: list[str] = []

    def handler(name: str, _: str) -> None:
        if name == point and not done:
            done.append(name)
            act()

    failpoints.arm(handler)
    return done


@pytest.mark.thorough
def test_a_compaction_by_others_while_a_change_is_written(
    stream: Stream, request: pytest.FixtureRequest
) -> None:
    """The places that were found are those of files that are no longer the table's."""
    request.addfinalizer(lambda: failpoints.arm(None))
    spark, target = stream.spark, stream.model.target
    for key in "abc":
        stream.add((1, key, 1))
        stream.run()
    catalog = spark.catalog.currentCatalog()
    call = f"call {catalog}.system.rewrite_data_files(table => '{target}', options => map('rewrite-all', 'true'))"
    stream.add((2, "a", 5), (3, "d", 1))
    done = at("table.change:written", lambda: spark.sql(call))
    assert stream.run().rows_out == 2
    assert done and stream.rows() == expected(stream)
    known = IcebergTable(spark, target)
    assert known.summary_count(RECORDS) - known.summary_count(DELETED) == 4
    # Nothing is left of what was written first.
    assert not known.orphans(spark, 2**62, remove=False)


@pytest.mark.thorough
def test_rows_that_others_change_meanwhile_are_not_lost(
    stream: Stream, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: failpoints.arm(None))
    stream.add((1, "a", 1), (1, "b", 1))
    stream.run()
    stream.add((2, "a", 5))
    done = at(
        "table.change:written", lambda: stream.spark.sql(f"delete from {stream.model.target} where k = 'a'")
    )
    with pytest.raises(StreamError, match="somebody changed its rows"):
        stream.run()
    assert done and [row[0] for row in stream.rows()] == ["b"]
    stream.run()
    assert stream.rows() == expected(stream)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "made",
    mostly_thorough(["partitioned by (k)", "tblproperties ('format-version' = '3')"], ["partitioned by (k)"]),
)
def test_other_tables_are_merged_into(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """Of which a file of deletes would have to be of a partition, or another kind of file."""
    written("by place", monkeypatch.setattr)
    s = Stream(spark, storage_root, generate.generate_program(plan_of(TOTALS)), COLUMNS)
    spark.sql(f"drop table {s.model.target}")
    spark.sql(f"create table {s.model.target} ({COLUMNS}) using iceberg {made}")
    assert "table.merge:after" in points_of(s)


@pytest.mark.parametrize("name", mostly_thorough(["_POS", "_File"], ["_File"]))
def test_columns_called_as_ones_of_iceberg(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A MERGE takes them for those, too: old rows stayed beside new ones."""
    written("by place", monkeypatch.setattr)
    text, columns = TOTALS.replace("as s", f"as {name}"), COLUMNS.replace("s bigint", f"{name} bigint")
    s = Stream(spark, storage_root, generate.generate_program(plan_of(text)), columns)
    assert "table.overwrite:after" in points_of(s)


def points_of(s: Stream) -> list[str]:
    """The fail points that a stream comes to which changes rows, and has the right ones."""
    points: list[str] = []
    failpoints.arm(lambda point, _: points.append(point))
    try:
        for key in ("a", "b", "a"):
            s.add((1, key, 1), (2, key, 2))
            s.run()
            assert s.rows() == expected(s)
    finally:
        failpoints.arm(None)
    assert "table.change:before" not in points
    return points


def one_file_each(s: Stream) -> None:
    """Has a run take each commit of the source in a micro-batch of its own."""
    one = {"streaming-max-files-per-micro-batch": "1"}
    s.model = replace(s.model, sources=(StreamSource("events", s.events, options=one),))


def add_together(s: Stream, *rows: tuple[int, str, int]) -> None:
    """Rows in one file."""
    listed = ", ".join(f"({time}, '{key}', {value}L)" for time, key, value in rows)
    s.spark.sql(
        f"insert into {s.events} select /*+ coalesce(1) */ timestamp_millis(t) as ts, k, v, v as x "
        f"from values {listed} as new(t, k, v)"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("point", mostly_thorough(["before", "written", "after"], ["after"]))
@pytest.mark.parametrize(
    "change",
    mostly_thorough(
        ["add partition field bucket(4, k)", "set tblproperties ('format-version' = '3')"],
        ["add partition field bucket(4, k)"],
    ),
)
def test_a_table_that_gets_partitions_during_a_run(
    stream: Stream, request: pytest.FixtureRequest, change: str, point: str
) -> None:
    """A file of deletes of the new partitions would leave the old rows where they are."""
    request.addfinalizer(lambda: failpoints.arm(None))
    add_together(stream, *((1, key, 1) for key in "abcd"))
    stream.run()
    add_together(stream, *((1, key, 1) for key in "efgh"))
    stream.run()
    one_file_each(stream)
    add_together(stream, (2, "a", 5), (2, "e", 5))
    add_together(stream, (3, "b", 5), (3, "f", 5))
    done = at(
        f"table.change:{point}", lambda: stream.spark.sql(f"alter table {stream.model.target} {change}")
    )
    try:
        stream.run()
    except StreamError as problem:
        assert "the next run continues" in str(problem)
        assert "3" in change and point != "after"
        stream.run()
    assert done and stream.rows() == expected(stream)


@pytest.mark.parametrize("way", mostly_thorough(["by place", "anew", "at once"], ["by place"]))
def test_a_second_row_of_a_key_that_others_put_there(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The new row would be written once for each of the two."""
    written(way, monkeypatch.setattr)
    s = Stream(spark, storage_root, generate.generate_program(plan_of(TOTALS)), COLUMNS)
    s.add((1, "a", 1), (1, "b", 1))
    s.run()
    spark.sql(f"insert into {s.model.target} values ('a', 77, 77)")
    s.add((2, "a", 5), (2, "b", 5))
    with pytest.raises(
        StreamError,
        match=r"two rows of its table .* have the same key \(k 'a'\).*Delete that row; the next run continues",
    ):
        s.run()
    spark.sql(f"delete from {s.model.target} where n = 77")
    s.run()
    assert s.rows() == expected(s)


@pytest.mark.thorough
def test_a_table_that_is_set_back_while_a_change_is_written(
    stream: Stream, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: failpoints.arm(None))
    spark, target = stream.spark, stream.model.target
    for key in "ab":
        stream.add((1, key, 1))
        stream.run()
    first = spark.sql(f"select snapshot_id from {target}.snapshots order by committed_at").first()[0]
    call = f"call {spark.catalog.currentCatalog()}.system.rollback_to_snapshot('{target}', {first})"
    stream.add((2, "a", 5))
    at("table.change:written", lambda: spark.sql(call))
    with pytest.raises(StreamError, match="another run"):
        stream.run()
    assert not IcebergTable(spark, target).orphans(spark, 2**62, remove=False)


@pytest.mark.thorough
def test_places_of_snapshots_that_expire_meanwhile(stream: Stream, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: failpoints.arm(None))
    spark, target = stream.spark, stream.model.target
    for key in "ab":
        stream.add((1, key, 1))
        stream.run()
    system = f"call {spark.catalog.currentCatalog()}.system"

    def compact() -> None:
        spark.sql(f"{system}.rewrite_data_files(table => '{target}', options => map('rewrite-all', 'true'))")
        spark.sql(
            f"{system}.expire_snapshots(table => '{target}', older_than => timestamp '2999-01-01', retain_last => 1)"
        )

    stream.add((2, "a", 5))
    done = at("table.change:written", compact)
    stream.run()
    assert done and stream.rows() == expected(stream)


def compactions(s: Stream) -> int:
    return s.spark.table(f"{s.model.target}.snapshots").where("operation = 'replace'").count()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "made",
    mostly_thorough(
        ["write.delete.format.default' = 'avro", "write.delete.granularity' = 'partition"],
        ["write.delete.format.default' = 'avro"],
    ),
)
def test_a_worn_table_is_compacted_once(stream: Stream, made: str) -> None:
    """Of such files of deletes Iceberg doesn't say how many rows of a file are gone."""
    stream.spark.sql(f"alter table {stream.model.target} set tblproperties ('{made}')")
    for first in (0, 20):
        add_together(stream, *((1, f"k{number}", 1) for number in range(first, first + 20)))
        stream.run()
    one_file_each(stream)
    for number in range(6):
        add_together(stream, *((2, f"k{2 * number + n}", 1) for n in (0, 1, 20, 21)))
    assert stream.run().batches == 6
    assert stream.rows() == expected(stream)
    assert compactions(stream) == 1 and count(stream, DELETED) < 20


@pytest.mark.thorough
def test_a_compaction_that_fails_is_not_tried_with_each_commit(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def fail(*_: object) -> None:
        tried.append(1)
        raise OSError("no space left")

    monkeypatch.setattr(IcebergTable, "compact", fail)
    add_together(stream, *((1, f"k{number}", 1) for number in range(9)))
    stream.run()
    one_file_each(stream)
    for number in range(5):
        add_together(stream, (2, f"k{number}", 1))
    assert stream.run().batches == 5
    assert len(tried) == 1 and stream.rows() == expected(stream)


@pytest.mark.thorough
def test_a_compacted_table_is_not_compacted_by_the_next_run(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its files has one of deletes then."""
    monkeypatch.setattr(maintenance, "EVERY", 5)
    add_together(stream, *((n, f"k{n}", n) for n in range(3000)))
    stream.run()
    size = stream.spark.sql(f"select max(file_size_in_bytes) from {stream.model.target}.files").first()[0]
    stream.model = replace(stream.model, retention=replace(stream.model.retention, target_file_size=size))
    for first in range(3000, 12_000, 3000):
        add_together(stream, *((n, f"k{n}", n) for n in range(first, first + 3000)))
    one_file_each(stream)
    stream.run()
    for number in range(4):
        add_together(stream, *((n, f"k{n + number}", 1) for n in range(0, 12_000, 3000)))
    stream.run()
    had = compactions(stream)
    assert had
    add_together(stream, (1, "k5", 1))
    stream.run()
    assert compactions(stream) == had and stream.rows() == expected(stream)


@pytest.mark.thorough
def test_who_wants_files_written_anew(stream: Stream) -> None:
    """As for readers that know nothing of deletes."""
    stream.spark.sql(
        f"alter table {stream.model.target} set tblproperties ('write.merge.mode' = 'copy-on-write')"
    )
    for key in ("a", "b", "a"):
        stream.add((1, key, 1), (2, key, 2))
        stream.run()
    assert stream.rows() == expected(stream) and count(stream, DELETE_FILES) == 0
