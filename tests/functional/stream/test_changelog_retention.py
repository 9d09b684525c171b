"""Old changes become their net effect: who has read a part of them goes on, who begins gets the rows of the table."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import Retention, StreamSource
from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import restore
from dbt.adapters.spark_streaming.stream.run.saving import save
from dbt.adapters.spark_streaming.stream.sink import changelog_retention
from dbt.adapters.spark_streaming.stream.sink.changelog_retention import COMPACTED_UNTIL
from tests.planned import plan_of

from .harness import Stream, replayed, sorted_rows

GROUPS = "select k, count(*) as n, sum(v) as s from (select /*+ STREAM */ * from events) group by k"
COLUMNS = "k string, n bigint, s bigint"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "EVERY", 2)


def changing(spark: Any, root: Path, retention: int | None = 0) -> Stream:
    """A model whose rows change, which keeps few snapshots, and each change for so many microseconds."""
    stream = Stream(spark, root, generate.generate_program(plan_of(GROUPS)), COLUMNS, changelog=True)
    kept = replace(stream.model, retention=Retention(max_snapshots=2), changelog_retention=retention)
    stream.model = kept
    return stream


def reader(upstream: Stream, text: str, columns: str, **known: Any) -> Stream:
    """A model that reads the changes of another one."""
    table = upstream.model.target
    of = RelationInfo(**{"key": ("k",), "changes": True, **known})
    text = text.format(f"(select /*+ STREAM */ * from {table})")
    program = generate.generate_program(
        plan_query.plan(text, {table: of}, None, ("k", "n", "s")), upsert=True
    )
    made = Stream(upstream.spark, Path(upstream.model.storage.root), program, columns)
    made.reads(StreamSource(table, upstream.model.changes))
    return made


def totals(upstream: Stream, **known: Any) -> Stream:
    return reader(
        upstream,
        "select n, count(*) as keys, sum(s) as s from {} group by n",
        "n bigint, keys bigint, s bigint",
        **known,
    )


def tops(upstream: Stream) -> Stream:
    return reader(upstream, "select k, n from {} order by n desc, k limit 2", "k string, n bigint")


def is_right(read: Stream, text: str, upstream: Stream) -> bool:
    return read.rows() == sorted_rows(read.spark.sql(text.format(upstream.model.target)).collect())


TOTALS = "select n, count(*) as keys, sum(s) as s from {} group by n"
TOPS = "select k, n from {} order by n desc, k limit 2"


def changes(stream: Stream) -> int:
    return int(stream.spark.table(stream.model.changes).count())


def until(stream: Stream) -> int:
    return int(IcebergTable(stream.spark, stream.model.changes).property(COMPACTED_UNTIL) or -1)


def test_a_reader_goes_on_and_a_new_one_begins(spark: Any, root: Path) -> None:
    upstream = changing(spark, root)
    slow = totals(upstream)
    upstream.add((0, "a", 1), (1, "b", 2))
    upstream.run()
    slow.run()
    for number in range(4):
        upstream.add((number, "a", 1), (number, f"d{number}", 1))
        upstream.run()
    assert until(upstream) > 0
    assert sorted_rows(replayed(spark, upstream.model, until=10**9)) == upstream.rows()
    new = totals(upstream)
    for each in (slow, new):
        each.run()
        assert is_right(each, TOTALS, upstream)


@pytest.mark.thorough
def test_readers_go_on_and_new_ones_begin(spark: Any, root: Path) -> None:
    upstream = changing(spark, root, retention=None)
    slow, quick = totals(upstream), tops(upstream)
    upstream.add((0, "a", 1), (1, "b", 2), (2, "c", 3))
    upstream.run()
    slow.run()
    for number in range(3):
        upstream.add((number, "a", 1), (number, f"d{number}", 1))
        upstream.run()
    quick.run()
    # By hand, so that rows go as well.
    spark.sql(f"delete from {upstream.model.target} where k = 'c'")
    before = changes(upstream)
    upstream.model = replace(upstream.model, changelog_retention=0)
    for number in range(2):
        upstream.add((10 + number, "b", 1))
        upstream.run()
    assert changes(upstream) < before and until(upstream) > 0
    assert sorted_rows(replayed(spark, upstream.model, until=10**9)) == upstream.rows()
    # What these had read is replaced, and of what `slow` hadn't, too.
    slow.run()
    quick.run()
    new, later = totals(upstream), tops(upstream)
    new.run()
    # All snapshots of before have expired by now: nobody has to read them any more.
    for number in range(5):
        upstream.add((20 + number, "a", 1), (20 + number, "e", -1))
        upstream.run()
    for each in (slow, quick, new):
        each.run()
    for number in range(2):
        upstream.add((30 + number, "a", 1))
        upstream.run()
    for each in (slow, quick, new):
        each.run()
    assert IcebergTable(spark, upstream.model.changes).has_lost_rows
    later.run()
    for each in (slow, new):
        assert is_right(each, TOTALS, upstream)
    for each in (quick, later):
        assert is_right(each, TOPS, upstream)


@pytest.mark.thorough
def test_a_savepoint_of_before_changes_were_compacted(spark: Any, root: Path) -> None:
    upstream = changing(spark, root, retention=None)
    slow, quick = totals(upstream), tops(upstream)
    for number in range(3):
        upstream.add((number, "a", 1), (number, f"d{number}", 1))
        upstream.run()
    slow.run()
    quick.run()
    save(spark, upstream.model, "s")
    was, kept = changes(upstream), upstream.rows()
    upstream.model = replace(upstream.model, changelog_retention=0)
    for number in range(6):
        upstream.add((10 + number, "a", 1), (10 + number, "b", 1))
        upstream.run()
    compacted = until(upstream)
    assert compacted > 0
    quick.run()
    restored = restore(spark, upstream.model, upstream.program, "s")
    assert restored.readers == (quick.model.key,), "the other one has read nothing that isn't there"
    assert changes(upstream) == was and until(upstream) == -1
    assert upstream.rows() == kept == sorted_rows(replayed(spark, upstream.model, until=10**9))
    slow.run()
    assert is_right(slow, TOTALS, upstream)
    with pytest.raises(StreamError, match="that it streams from was put back"):
        quick.run()
    # What came since is read, and compacted, again.
    for number in range(4):
        upstream.add((20 + number, "a", 1), (20 + number, "c", 1))
        upstream.run()
        slow.run()
        assert is_right(slow, TOTALS, upstream)
    assert until(upstream) > 0
    assert sorted_rows(replayed(spark, upstream.model, until=10**9)) == upstream.rows()
    new = tops(upstream)
    new.run()
    assert is_right(new, TOPS, upstream)
    restore(spark, upstream.model, upstream.program, "s")
    assert upstream.rows() == kept == sorted_rows(replayed(spark, upstream.model, until=10**9))


@pytest.mark.thorough
def test_only_changes_that_are_old_enough_go(spark: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the snapshots that said when they came have expired long ago."""
    day = 86_400
    now = [time.time() - 20 * day]
    monkeypatch.setattr(changelog_retention, "time", SimpleNamespace(time=lambda: now[0]))
    upstream = changing(spark, root, retention=7 * day * 1_000_000)
    found = []
    for number in range(12):
        upstream.add((number, "a", 1), (number, "b", 1))
        upstream.run()
        found.append((changes(upstream), until(upstream)))
        now[0] += day
    assert found[6] == (2 + 6 * 4, -1), "all are younger than a week"
    assert found[-1][1] in (2000, 3000), found
    kept = spark.table(upstream.model.changes).where(f"_batch_id > {found[-1][1]}").count()
    assert kept == 4 * (11 - found[-1][1] // 1000)
    assert changes(upstream) == kept + 2
    assert sorted_rows(replayed(spark, upstream.model)) == upstream.rows()


@pytest.mark.thorough
def test_rows_that_nothing_tells_apart(spark: Any, root: Path) -> None:
    """Each change says the whole of the row; a row may be there more than once."""
    upstream = changing(spark, root)
    text = "select count(*) as n, sum(v) as s from (select /*+ STREAM */ * from events) group by k"
    upstream.program = generate.generate_program(plan_query.plan(text, domains=["k"]), upsert=True)
    spark.sql(f"alter table {upstream.model.target} drop column k")
    read = totals(upstream, key=())
    for number in range(6):
        upstream.add(*((number, each, 1) for each in "abc"[: 1 + number % 3]))
        upstream.run()
        if number == 1:
            read.run()
    assert until(upstream) > 0
    read.run()
    new = totals(upstream, key=())
    new.run()
    assert is_right(read, TOTALS, upstream) and is_right(new, TOTALS, upstream)
    made: Counter[tuple[Any, ...]] = Counter()
    for change in spark.table(upstream.model.changes).collect():
        made[tuple(change)[:-2]] += 1 if change["_change_type"] in ("insert", "update_after") else -1
    assert sorted_rows(made.elements()) == upstream.rows()


@pytest.mark.thorough
@pytest.mark.parametrize("point", ["before", "written", "after"])
def test_cut_short(spark: Any, root: Path, point: str) -> None:
    upstream = changing(spark, root)
    read = totals(upstream)
    upstream.add((0, "a", 1), (1, "b", 2))
    upstream.run()
    read.run()
    failpoints.arm(failpoints.parse(f"raise changelog.retention:{point}"))
    failed = 0
    try:
        for number in range(6):
            upstream.add((number, "a", 1), (number, "b", 1))
            try:
                upstream.run()
            except StreamError:
                failed += 1
    finally:
        failpoints.arm(None)
    assert failed == 1
    upstream.run()
    assert until(upstream) > 0
    assert sorted_rows(replayed(spark, upstream.model, until=10**9)) == upstream.rows()
    read.run()
    assert is_right(read, TOTALS, upstream)
