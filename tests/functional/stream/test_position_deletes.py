"""Tables of which a micro-batch writes what it changes: old rows go by their place."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query import generate, planner
from dbt.adapters.spark_streaming.stream import failpoints, maintenance, upsert
from dbt.adapters.spark_streaming.stream.errors import StreamError
from dbt.adapters.spark_streaming.stream.iceberg import DELETE_FILES, DELETED, RECORDS, IcebergTable
from tests.functional.stream.harness import Stream, sorted_rows, written

E = "(select /*+ STREAM */ * from events)"
TOTALS = f"select k, count(*) as n, sum(v) as s from {E} group by k having count(*) <> 3"
COLUMNS = "k string, n bigint, s bigint"


@pytest.fixture
def stream(spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A table of counts, that is never written anew."""
    written("by place", monkeypatch.setattr)
    return Stream(spark, storage_root, generate.program(planner.plan(TOTALS)), COLUMNS)


def expected(s: Stream) -> list[tuple[Any, ...]]:
    text = f"select k, count(*) as n, sum(v) as s from {s.events} group by k having count(*) <> 3"
    return sorted_rows(s.spark.sql(text).collect())


def count(s: Stream, what: str) -> int:
    return IcebergTable(s.spark, s.model.target).count(what)


def add(s: Stream, chance: random.Random, rows: int, keys: int) -> None:
    s.add(
        *(
            (chance.randint(0, 9_000), f"k{chance.randrange(keys)}", chance.randint(-9, 9))
            for _ in range(rows)
        )
    )


@pytest.mark.parametrize("seed", [1, 2])
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


def test_a_table_of_which_a_third_is_gone_is_written_anew(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upsert, "_LARGE", 1000)
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
    assert known.count(RECORDS) - known.count(DELETED) == 4
    # Nothing is left of what was written first.
    assert not known.orphans(spark, 2**62, remove=False)


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


@pytest.mark.parametrize(
    "made", ["partitioned by (k)", "tblproperties ('format-version' = '3')", "of other names"]
)
def test_other_tables_are_merged_into(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """Of which a file of deletes would have to be of a partition, or another kind of file, or whose columns are called as
    Iceberg calls a row's place."""
    written("by place", monkeypatch.setattr)
    text, columns = TOTALS, COLUMNS
    if made == "of other names":
        text, columns = TOTALS.replace("as s", "as _POS"), "k string, n bigint, _POS bigint"
    s = Stream(spark, storage_root, generate.program(planner.plan(text)), columns)
    if made != "of other names":
        spark.sql(f"drop table {s.model.target}")
        spark.sql(f"create table {s.model.target} ({columns}) using iceberg {made}")
    points: list[str] = []
    failpoints.arm(lambda point, _: points.append(point))
    try:
        for key in ("a", "b", "a"):
            s.add((1, key, 1), (2, key, 2))
            s.run()
            assert s.rows() == expected(s)
    finally:
        failpoints.arm(None)
    assert "table.merge:after" in points and "table.change:before" not in points
