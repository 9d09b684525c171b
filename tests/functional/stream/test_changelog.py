"""Changelog and table say the same: whoever writes, wherever a run is cut short, whatever the query is asked twice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.project import changelogs
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.common.session import working_session
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
from tests.planned import plan_of
from tests.thorough import mostly_thorough

from .harness import POINTS, Stream, replayed, sorted_rows, written

MINUTE = 60_000
E = "(select /*+ STREAM */ * from events)"
HOP = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "10 minutes"))
_numbers = itertools.count()


@contextmanager
def fails_at(point: str) -> Iterator[None]:
    """The first time that a stream is at a point, it fails."""
    failpoints.arm(failpoints.parse(f"raise {point}"))
    try:
        with pytest.raises(StreamError, match=" at "):
            yield
    finally:
        failpoints.arm(None)


def groups(text: str) -> Program:
    return generate.generate_program(
        plan_query.plan(text, {"events": RelationInfo("ts")}, None, ("k", "n", "x"))
    )


def early(text: str) -> Program:
    settings = emission.emission_from_configs(
        {"first_result_offset": "-9 minutes", "update_rate": "1 minute"}
    )
    return generate.generate_program(plan_of(text, {"events": RelationInfo("ts")}), settings, upsert=True)


def names_table(spark: Any) -> str:
    """A static table of names by key."""
    table = f"stream_tests.names_{next(_numbers)}"
    spark.sql("create namespace if not exists stream_tests")
    spark.sql(f"create table {table} (k string, name string) using iceberg")
    spark.sql(f"insert into {table} values ('a', 'Anna'), ('b', 'Bert')")
    return table


def agree(stream: Stream) -> None:
    """The changelog makes the table out of nothing."""
    made = sorted_rows(replayed(stream.spark, stream.model))
    assert made == sorted_rows(map(tuple, stream.spark.table(stream.model.target).collect()))


def kinds(stream: Stream) -> Counter[tuple[int, str]]:
    rows = stream.spark.table(stream.model.changes).collect()
    return Counter((row["_batch_id"], row["_change_type"]) for row in rows)


@pytest.mark.thorough
def test_commits_of_a_micro_batch_and_of_its_flushes_have_numbers_of_their_own(
    spark: Any, storage_root: Path
) -> None:
    text = (
        f"select window_start, window_end, k, count(*) as n from {HOP} group by window_start, window_end, k"
    )
    columns = "window_start timestamp, window_end timestamp, k string, n bigint"
    stream = Stream(spark, storage_root, early(text), columns, changelog=True)
    stream.add((MINUTE, "a", 1), (2 * MINUTE, "a", 1))
    stream.run()
    stream.add((3 * MINUTE, "a", 1), (3 * MINUTE, "b", 1))
    stream.run()
    # Between two updates, so that only the flush puts it out.
    stream.add((3 * MINUTE + 30_000, "c", 1))
    stream.run()
    stream.flush()
    assert kinds(stream) == {
        (0, "insert"): 1,
        (1000, "update_before"): 1,
        (1000, "update_after"): 1,
        (1000, "insert"): 1,
        (2001, "insert"): 1,
    }
    agree(stream)


def test_a_changelog_is_kept_whoever_writes_the_table(spark: Any, storage_root: Path) -> None:
    text = (
        f"select window_start, window_end, k, count(*) as n from {HOP} group by window_start, window_end, k"
    )
    columns = "window_start timestamp, window_end timestamp, k string, n bigint"
    stream = Stream(spark, storage_root, early(text), columns)
    stream.add((MINUTE, "a", 1), (2 * MINUTE, "b", 1))
    stream.run()
    # It begins with a table that is there; the first try ends between creating and filling it.
    stream.model = replace(stream.model, changelog=True)
    with fails_at("changelog.create:after"):
        stream.run()
    assert spark.table(stream.model.changes).count() == 0
    stream.model = replace(stream.model, changelog=False)
    stream.run()
    agree(stream)
    # A flush doesn't know that another model reads it, and keeps it all the same.
    stream.add((3 * MINUTE, "a", 1), (2 * MINUTE, "b", 1), (2 * MINUTE, "c", 1))
    stream.run()
    stream.flush()
    assert stream.rows()[-1][-1] == 1
    agree(stream)
    # Nor does someone who changes the table by hand; the next run brings it in, once.
    spark.sql(f"delete from {stream.model.target} where k = 'c'")
    spark.sql(f"update {stream.model.target} set n = 7 where k = 'b'")
    stream.run()
    agree(stream)
    count = spark.table(stream.model.changes).count()
    stream.run()
    assert spark.table(stream.model.changes).count() == count
    numbers = [
        row[0] for row in spark.sql(f"select distinct _batch_id from {stream.model.changes}").collect()
    ]
    # The flush changed nothing, and is over: it is not put out again over what was changed by hand.
    assert sorted(numbers) == [0, 1000, 1001]


# What is asked twice answers otherwise the second time: a random value, and a static table that changes meanwhile.
QUERIES: dict[str, tuple[str, str]] = {
    "groups": (
        f"select g.k, g.n, names.name, uuid() as id from (select k, count(*) as n from {E} group by k) as g "
        "left join {names} as names on names.k = g.k",
        "k string, n bigint, name string, id string",
    ),
    "all rows": (  # Nothing tells rows apart, so the table is compared as a whole.
        f"select t.v, names.name, uuid() as id from (select k, v, rank() over (order by v desc) as place from {E}) as t "
        "left join {names} as names on names.k = t.k where place <= 3",
        "v bigint, name string, id string",
    ),
    "passed on": (
        f"select e.k, e.v, names.name, uuid() as id from {E} as e left join {{names}} as names on names.k = e.k",
        "k string, v bigint, name string, id string",
    ),
    "windows": (
        f"select w.window_end, w.k, w.n, names.name, uuid() as id from (select window_end, window_start, k, count(*) as n "
        f"from {HOP} group by window_start, window_end, k) as w left join {{names}} as names on names.k = w.k",
        "window_end timestamp, k string, n bigint, name string, id string",
    ),
    "operators": (
        "select n, count(*) as m, max(name) as name, 'none' as id from (select e.k, count(*) as n, max(names.name) as name "
        f"from {E} as e left join {{names}} as names on names.k = e.k group by e.k) group by n",
        "n bigint, m bigint, name string, id string",
    ),
}


CASES = [("groups", "by place"), ("groups", "merge"), *((name, "at once") for name in QUERIES)]


@pytest.mark.parametrize("case", mostly_thorough(CASES, []), ids=lambda case: f"{case[0]}-{case[1]}")
def test_what_was_decided_in_the_first_try_holds_in_the_second(
    spark: Any, storage_root: Path, case: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, way = case
    written(way, monkeypatch.setattr)
    names = names_table(spark)
    text, columns = QUERIES[name]
    stream = Stream(spark, storage_root, groups(text.replace("{names}", names)), columns, changelog=True)
    at = "table.append" if name in ("passed on", "windows") else POINTS[way]
    stream.add((MINUTE, "a", 1), (2 * MINUTE, "b", 1), (11 * MINUTE, "c", 1))
    stream.run()
    points = ["changelog.append:after", f"{at}:after"]
    if name in ("groups", "operators") and way != "merge":
        points += ["state.append:after", "changelog.append:written", f"{at}:written"]
    for number, point in enumerate(points):
        value = number + 2  # others than are there: equal rows are given the same
        stream.add(((12 + 10 * number) * MINUTE, "a", value), ((22 + 10 * number) * MINUTE, "b", value))
        with fails_at(point):
            stream.run()
        log = f"select * from {stream.model.changes} order by _batch_id, name, id"
        decided = spark.sql(log).collect()
        spark.sql(f"update {names} set name = concat(name, '!')")
        stream.run()
        assert spark.sql(log).collect()[: len(decided)] == decided, point
        agree(stream)
    assert stream.run().batches == 0
    # State and table agree, and every row is in once.
    stream.flush()
    agree(stream)
    totals = {"groups": "sum(n)", "windows": "sum(n)", "operators": "sum(n * m)"}
    total = totals.get(name, "count(*)")
    # Of all rows two are 3 and two are 2, which have place 3.
    expected = 4 if name == "all rows" else 3 + 2 * len(points)
    assert spark.sql(f"select {total} from {stream.model.target}").first()[0] == expected


@pytest.mark.parametrize("case", mostly_thorough(CASES, []), ids=lambda case: f"{case[0]}-{case[1]}")
def test_a_table_that_is_written_in_the_middle_of_a_step(
    spark: Any, storage_root: Path, case: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark forgets what any session holds of a table that one of them writes, as another model's stream does."""
    name, way = case
    written(way, monkeypatch.setattr)
    names = names_table(spark)
    text, columns = QUERIES[name]
    stream = Stream(spark, storage_root, groups(text.replace("{names}", names)), columns, changelog=True)
    other = working_session(spark)

    def write(point: str, model: str) -> None:
        if point in ("state.append:after", "changelog.append:after"):
            other.sql(
                f"merge into {names} as n using (select 'a' as k) as s on n.k = s.k "
                "when matched then update set name = concat(name, '!')"
            )

    failpoints.arm(write)
    try:
        for number in range(2):
            stream.add(((12 + 10 * number) * MINUTE, "a", number), ((22 + 10 * number) * MINUTE, "b", number))
            stream.run()
            agree(stream)
    finally:
        failpoints.arm(None)


@pytest.mark.parametrize("way", mostly_thorough(["by place", "merge", "at once"], ["merge"]))
def test_what_others_change_after_a_crash_is_in_the_changelog(
    spark: Any, storage_root: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(way, monkeypatch.setattr)
    stream = Stream(
        spark,
        storage_root,
        groups(f"select k, count(*) as n from {E} group by k having count(*) <> 2"),
        "k string, n bigint",
        changelog=True,
    )
    stream.add((MINUTE, "a", 1), (MINUTE, "b", 1))
    stream.run()
    stream.add((2 * MINUTE, "a", 1), (2 * MINUTE, "a", 1), (2 * MINUTE, "b", 1))
    with fails_at("changelog.append:after"):
        stream.run()
    spark.sql(f"delete from {stream.model.target} where k = 'b'")
    # The step comes into the table on top of what was changed, which the changelog lacks when the run ends again.
    with fails_at(f"{POINTS[way]}:after"):
        stream.run()
    stream.run()
    assert stream.rows() == [("a", 3)]
    agree(stream)
    # Nor is a change lost that comes right before the commit. Only a MERGE, which Spark commits, goes through then.
    done: list[str] = []

    def delete(point: str, _: str) -> None:
        if point == f"{POINTS[way]}:before" and not done:
            done.append(point)
            spark.sql(f"delete from {stream.model.target} where k = 'a'")

    stream.add((3 * MINUTE, "a", 1), (3 * MINUTE, "c", 1))
    failpoints.arm(delete)
    try:
        with nullcontext() if way == "merge" else pytest.raises(StreamError, match="changed its rows"):
            stream.run()
    finally:
        failpoints.arm(None)
    agree(stream) if way == "merge" else stream.run()
    assert done and stream.rows() == [("a", 4), ("c", 1)]
    agree(stream)


@pytest.mark.thorough
def test_a_changelog_of_a_table_whose_snapshots_expired_begins_with_its_rows(
    spark: Any, storage_root: Path
) -> None:
    stream = Stream(
        spark, storage_root, groups(f"select k, count(*) as n from {E} group by k"), "k string, n bigint"
    )
    stream.add((MINUTE, "a", 1), (MINUTE, "b", 1))
    stream.run()
    catalog = spark.catalog.currentCatalog()
    options = "map('rewrite-all', 'true')"
    spark.sql(
        f"call {catalog}.system.rewrite_data_files(table => '{stream.model.target}', options => {options})"
    )
    table = IcebergTable(spark, stream.model.target).java
    table.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()
    stream.model = replace(stream.model, changelog=True)
    for _ in range(2):
        stream.run()
        agree(stream)
    assert len(stream.snapshots(stream.model.changes)) == 1
    stream.add((MINUTE, "a", 1))
    stream.run()
    agree(stream)


@pytest.mark.thorough
def test_a_refresh_that_is_cut_short_after_a_run_that_was(spark: Any, storage_root: Path) -> None:
    stream = Stream(
        spark,
        storage_root,
        generate.generate_program(
            plan_query.plan(
                f"select window_end, count(*) as n from {HOP} group by window_start, window_end", {}, None, ()
            )
        ),
        "window_end timestamp, n bigint",
        changelog=True,
    )
    stream.add((MINUTE, "a", 1), (30 * MINUTE, "a", 1))
    with fails_at("table.append:before"):
        stream.run()
    with fails_at("state.drop:after"):
        stream.reset()
    # What the changelog has isn't put into the table, on top of which the first micro-batch would come once more.
    with pytest.raises(
        StreamError, match=f"its changelog {stream.model.changes} holds changes of a stream whose state"
    ):
        stream.run()
    assert stream.rows() == []
    stream.reset()
    stream.run()
    assert [n for _, n in stream.rows()] == [1]


def test_what_has_its_name_and_isnt_a_changelog_is_left_alone(spark: Any, storage_root: Path) -> None:
    for kind in ("view", "table"):
        stream = Stream(spark, storage_root, groups(f"select k, v from {E}"), "k string, v bigint")
        spark.sql(f"create {kind} {stream.model.changes} as select 1 as a")
        stream.add((MINUTE, "a", 1))
        stream.run()
        stream.model = replace(stream.model, changelog=True)
        said = {
            "view": "there is a view of that name. Rename one of the two",
            "table": "there is a table of that name that this package didn't make for the model",
        }[kind]
        with pytest.raises(StreamError, match=said):
            stream.run()
        stream.model = replace(stream.model, changelog=False)
        stream.reset()
        assert spark.table(stream.model.changes).count() == 1
        assert stream.rows() == [("a", 1)]


def test_two_rows_of_one_key_are_refused(spark: Any, storage_root: Path) -> None:
    names = names_table(spark)
    text = (
        f"select w.window_start, w.window_end, w.k, w.n, names.name from (select window_start, window_end, k, count(*) as n "
        f"from {HOP} group by window_start, window_end, k) as w join {names} as names on names.k = w.k"
    )
    columns = "window_start timestamp, window_end timestamp, k string, n bigint, name string"
    stream = Stream(spark, storage_root, early(text), columns)
    stream.add((MINUTE, "a", 1), (2 * MINUTE, "b", 1))
    stream.run()
    assert len(stream.rows()) == 2
    # One of the two rows of 'a' is the one that the table has.
    spark.sql(f"insert into {names} values ('a', 'Arno')")
    stream.add((3 * MINUTE, "b", 1))
    with pytest.raises(StreamError, match=r"two rows of its result have the same key \(k 'a', window_end"):
        stream.run()
    assert len(stream.rows()) == 2


@pytest.mark.thorough
def test_a_key_that_a_row_of_another_group_has_is_refused(spark: Any, storage_root: Path) -> None:
    program = groups(f"select k, x, count(*) as n from {E} group by k, x")
    assert program.upsert is not None
    # As with the config 'unique_key', which may be wrong.
    program = replace(program, upsert=replace(program.upsert, key=("k",), key_is_unique=False))
    stream = Stream(spark, storage_root, program, "k string, x bigint, n bigint")
    stream.add((MINUTE, "a", 1, 1), (MINUTE, "b", 1, 1))
    stream.run()
    stream.add((MINUTE, "b", 1, 1))
    assert stream.run().rows_out == 1
    stream.add((MINUTE, "a", 1, 2))
    with pytest.raises(StreamError, match=r"two rows of its result have the same key \(k 'a'\)"):
        stream.run()
    assert stream.rows() == [("a", 1, 1), ("b", 1, 2)]


@pytest.mark.thorough
def test_who_reads_a_model_may_begin_before_it_has_rows(spark: Any, storage_root: Path) -> None:
    """That its rows will change is known with its first run, and how."""
    upstream = changing(spark, storage_root)
    upstream.run()
    table = upstream.model.target
    assert spark.table(upstream.model.changes).count() == 0
    known = changelogs.with_changelogs(spark, {}, {table: table})
    assert known == {table: RelationInfo(key=("k",), changes=True)}
    text = f"select k, n from (select /*+ STREAM */ * from {table}) where n > 1"
    program = generate.generate_program(plan_query.plan(text, known, None, ("k", "n")), upsert=True)
    reader = Stream(spark, storage_root, program, "k string, n bigint")
    reader.reads(StreamSource(table, upstream.model.changes))
    assert reader.run().rows_in == 0
    upstream.add((0, "a", 1), (1, "a", 1), (2, "b", 1))
    upstream.run()
    reader.run()
    assert reader.rows() == [("a", 2)]


def test_a_table_whose_rows_are_replaced_no_more_says_so(spark: Any, storage_root: Path) -> None:
    """CREATE OR REPLACE TABLE leaves the properties of what was there."""
    before = changing(spark, storage_root)
    before.add((0, "a", 1))
    before.run()
    table = before.model.target
    with pytest.raises(QueryError, match="has no changelog yet"):
        spark.sql(f"drop table {before.model.changes}")
        changelogs.with_changelogs(spark, {}, {table: table})
    before.reset()
    spark.sql(f"create or replace table {table} (k string, n bigint) using iceberg")
    before.program = generate.generate_program(plan_of(f"select k, v as n from {E}"))
    before.model = replace(before.model, changelog=False)
    before.run()
    assert before.rows() == [("a", 1)]
    assert changelogs.with_changelogs(spark, {}, {table: table}) == {}


def changing(spark: Any, storage_root: Path) -> Stream:
    """A model whose rows change, and whose changes are kept."""
    program = groups(f"select k, count(*) as n from {E} group by k")
    return Stream(spark, storage_root, program, "k string, n bigint", changelog=True)
