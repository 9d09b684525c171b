"""What others change in a table while a stream reads it is noticed before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.common.errors import StreamError, TransientError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.run import runner
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream, run_stream
from dbt.adapters.spark_streaming.stream.sources.source_schemas import SchemaChanged
from tests.thorough import mostly_thorough

from . import programs
from .harness import EVENTS, Stream, made_for

ROWS = "ts timestamp, k string, doubled bigint"


def planned(text: str) -> Program:
    plan = plan_query.plan(text, {"events": RelationInfo(event_time="ts")}, domains=["k"])
    return generate.generate_program(replace(plan, text=text))


@contextmanager
def running(s: Stream) -> Iterator[RunningStream]:
    stream = RunningStream(s.spark, replace(s.model, trigger="100 milliseconds"), s.program)
    try:
        yield stream
    finally:
        stream.stop()


def take(stream: RunningStream, rows: int) -> None:
    """Wait until so many rows are in."""
    for _ in range(100):
        if stream.wait(0.3).rows_in >= rows:
            return
    raise AssertionError(f"{rows} rows didn't come in")


@pytest.fixture
def rows(spark: Any, storage_root: Path) -> Stream:
    s = Stream(spark, storage_root, programs.pass_through(), ROWS)
    s.add((0, "a", 1), (1000, "b", 1))
    s.add((2000, "c", 1))
    return s


@pytest.mark.parametrize(
    "begins", mostly_thorough(["without commits", "with a commit of no rows"], ["with a commit of no rows"])
)
def test_a_table_gets_its_first_rows(spark: Any, storage_root: Path, begins: str) -> None:
    s = Stream(spark, storage_root, programs.pass_through(), ROWS)
    nothing = f"insert into {s.events} select * from {s.events} where false"
    if begins != "without commits":
        spark.sql(nothing)
    with running(s) as stream:
        stream.wait(3)
        spark.sql(nothing)
        stream.wait(1)
        s.add((0, "a", 1), (1000, "b", 1))
        take(stream, 2)
        s.add((2000, "c", 1))
        take(stream, 3)
    assert len(s.rows()) == 3


def replaced(s: Stream) -> None:
    s.spark.sql(f"create or replace table {s.events} ({EVENTS}) using iceberg")


def replaced_by_rows(s: Stream) -> None:
    s.spark.sql(
        f"create or replace table {s.events} using iceberg as select timestamp_millis(0) as ts, 'a' as k, 1L as v, 1L as x"
    )


def made_again(s: Stream) -> None:
    s.spark.sql(f"drop table {s.events}")
    s.spark.sql(f"create table {s.events} ({EVENTS}) using iceberg")


def rolled_back(s: Stream) -> None:
    catalog = s.spark.conf.get("spark.sql.defaultCatalog")
    first = s.spark.sql(f"select snapshot_id from {s.events}.snapshots order by committed_at").first()
    s.spark.sql(f"call {catalog}.system.rollback_to_snapshot('{s.events}', {first[0]})")


def overwritten(s: Stream) -> None:
    s.spark.sql(f"insert overwrite {s.events} select timestamp_millis(0), 'a', 1L, 1L")


WAYS = [replaced, replaced_by_rows, made_again, rolled_back, overwritten]


@pytest.mark.parametrize(
    "change", mostly_thorough(WAYS, [replaced, made_again]), ids=lambda each: each.__name__
)
def test_a_table_that_others_build_anew(rows: Stream, change: Callable[[Stream], None]) -> None:
    with running(rows) as stream:
        take(stream, 3)
        before = rows.rows()
        change(rows)
        with pytest.raises(StreamError):
            # Spark may look at the table between the two.
            for _ in range(3):
                rows.add((0, "a", 1), (1000, "b", 1), (3000, "d", 1))
                stream.wait(3)
    assert rows.rows() == before
    for _ in range(2):
        with pytest.raises(StreamError, match=r"that it streams from was|rows of a source were changed"):
            rows.run()
    assert rows.rows() == before


@pytest.mark.thorough
def test_each_micro_batch_asks_for_topics(rows: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is made anew meanwhile may have as many messages already."""

    def made_again(*arguments: Any) -> None:
        raise StreamError("The topic was deleted and made again.")

    with running(rows) as stream:
        take(stream, 3)
        before = rows.rows()
        monkeypatch.setattr(runner, "note_topics", made_again)
        rows.add((3000, "d", 1))
        with pytest.raises(StreamError, match="made again"):
            take(stream, 4)
    assert rows.rows() == before


def test_a_column_that_comes_while_it_runs(rows: Stream) -> None:
    """The rows that have it aren't taken in without it."""
    everything = planned("select * from (select /*+ STREAM */ * from events)")
    rows.program = everything
    rows.spark.sql(f"create or replace table {rows.model.target} ({EVENTS}) using iceberg")
    with running(rows) as stream:
        take(stream, 3)
        rows.spark.sql(f"alter table {rows.events} add column note string")
        assert stream.wait(1).rows_in == 3, "no row has it yet"
        rows.spark.sql(f"insert into {rows.events} values (timestamp_millis(3000), 'd', 1, 1, 'here')")
        with pytest.raises(SchemaChanged, match=r"columns of events changed while it ran \(note\)"):
            take(stream, 4)
    rows.model = replace(
        rows.model, columns={"ts": "timestamp", "k": "string", "v": "bigint", "x": "bigint", "note": "string"}
    )
    assert rows.run().rows_in == 1
    noted = rows.spark.table(rows.model.target).where("note is not null").select("k", "note").collect()
    assert [tuple(each) for each in noted] == [("d", "here")]


def test_a_column_that_nothing_reads_is_no_reason(rows: Stream) -> None:
    with running(rows) as stream:
        take(stream, 3)
        rows.spark.sql(f"alter table {rows.events} add column note string")
        rows.spark.sql(f"insert into {rows.events} values (timestamp_millis(3000), 'd', 1, 1, 'here')")
        take(stream, 4)


NEW = "ts, k, v, x, n, note"


@pytest.fixture
def ranking(spark: Any, storage_root: Path) -> Stream:
    """The first rows of each key, all of their columns, which the state keeps."""
    text = (
        "select * from (select *, row_number() over (partition by k order by v desc, x) as place "
        "from (select /*+ STREAM */ * from events)) where place <= 2"
    )
    s = Stream(spark, storage_root, planned(text), f"{EVENTS}, place int, n int")
    spark.sql(f"alter table {s.events} add column n int after x")
    spark.sql(
        f"insert into {s.events} values (timestamp_millis(0), 'a', 1, 1, 1), (timestamp_millis(0), 'a', 2, 2, 2)"
    )
    columns = {"ts": "timestamp", "k": "string", "v": "bigint", "x": "bigint", "n": "int", "place": "int"}
    s.model = replace(s.model, columns=columns)
    return s


def put_note(s: Stream) -> None:
    s.spark.sql(f"alter table {s.events} add column note string after n")
    s.spark.sql(f"insert into {s.events} ({NEW}) values (timestamp_millis(9), 'a', 3, 3, 3, 'here')")


def test_rows_that_are_kept_go_on_with_a_column_more(ranking: Stream) -> None:
    s = ranking
    with running(s) as stream:
        take(stream, 2)
        put_note(s)
        with pytest.raises(SchemaChanged):
            take(stream, 3)
    assert s.model.columns is not None
    s.model = replace(s.model, columns={**s.model.columns, "note": "string"})
    assert s.run().rows_in == 1
    found = s.spark.table(s.model.target).select("v", "place", "note").orderBy("place").collect()
    assert [tuple(each) for each in found] == [(3, 1, "here"), (2, 2, None)]


def test_a_run_starts_again_by_itself(ranking: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    s, note, again = ranking, runner.note_schemas, list[StreamModel]()

    def changed_meanwhile(*arguments: Any, **named: Any) -> None:
        note(*arguments, **named)
        if not again:
            put_note(s)

    def replan() -> tuple[StreamModel, Program]:
        again.append(s.model)
        assert s.model.columns is not None
        return replace(s.model, columns={**s.model.columns, "note": "string"}), s.program

    monkeypatch.setattr(runner, "note_schemas", changed_meanwhile)
    assert run_stream(s.spark, s.model, s.program, replan).rows_in == 3
    assert len(again) == 1
    found = s.spark.table(s.model.target).select("v", "place", "note").orderBy("place").collect()
    assert [tuple(each) for each in found] == [(3, 1, "here"), (2, 2, None)]


def test_a_type_that_becomes_wider_while_it_runs(spark: Any, storage_root: Path) -> None:
    text = "select k, max(n) as n from (select /*+ STREAM */ * from events) group by k"
    s = Stream(spark, storage_root, planned(text), "k string, n bigint")
    spark.sql(f"alter table {s.events} add column n int")
    spark.sql(f"insert into {s.events} values (timestamp_millis(0), 'a', 1, 1, 1)")
    with running(s) as stream:
        take(stream, 1)
        spark.sql(f"alter table {s.events} alter column n type bigint")
        spark.sql(f"insert into {s.events} values (timestamp_millis(0), 'a', 1, 1, {2**40})")
        with pytest.raises(SchemaChanged, match=r"\(n\)"):
            take(stream, 2)
    assert s.run().rows_in == 1
    assert s.rows() == [("a", 2**40)]


CHANGED_COLUMNS = {
    "dropped and added again": ["drop column v", "add column v bigint"],
    "another one has its name": ["rename column v to was", "rename column x to v"],
}


@pytest.mark.parametrize("how", CHANGED_COLUMNS)
@pytest.mark.parametrize(
    "runs", mostly_thorough([False, True], [True]), ids=["between runs", "while it runs"]
)
def test_a_column_is_what_it_is_whatever_it_is_called(
    spark: Any, storage_root: Path, how: str, runs: bool
) -> None:
    text = "select k, sum(v) as v from (select /*+ STREAM */ * from events) group by k"
    s = Stream(spark, storage_root, planned(text), "k string, v bigint")
    s.add((0, "a", 1))

    def change() -> None:
        for each in CHANGED_COLUMNS[how]:
            spark.sql(f"alter table {s.events} {each}")
        spark.sql(f"insert into {s.events} (ts, k, v) values (timestamp_millis(0), 'a', 5)")

    if runs:
        with running(s) as stream:
            take(stream, 1)
            change()
            with pytest.raises(SchemaChanged, match=r"\(v\)"):
                take(stream, 2)
    else:
        s.run()
        change()
    for _ in range(2):
        with pytest.raises(
            StreamError, match=f"v of the table {s.events} that it streams from is another column"
        ):
            s.run()
    assert s.rows() == [("a", 1)]


@pytest.mark.thorough
def test_a_column_that_is_gone_for_a_while(spark: Any, storage_root: Path) -> None:
    """That another query was run meanwhile doesn't make it the same."""
    text = "select k, sum(meta.v) as v, count(*) as n from (select /*+ STREAM */ * from events) group by k"
    s = Stream(spark, storage_root, planned(text), "k string, v bigint, n bigint")
    spark.sql(f"alter table {s.events} add column meta struct<v: bigint, w: bigint>")
    spark.sql(f"insert into {s.events} values (timestamp_millis(0), 'a', 1, 1, struct(1, 1))")
    s.run()
    spark.sql(f"alter table {s.events} drop column meta.w")
    spark.sql(f"insert into {s.events} values (timestamp_millis(0), 'a', 1, 1, struct(1))")
    assert s.run().rows_in == 1, "nothing of it is lost"
    spark.sql(f"alter table {s.events} drop column meta.v")
    spark.sql(f"alter table {s.events} add column meta.v bigint")
    with pytest.raises(
        StreamError, match=f"meta.v of the table {s.events} that it streams from is another column"
    ):
        s.run()


JOINED = (
    "select e.k, e.v, d.* except (k) from (select /*+ STREAM */ * from events) as e join {} as d on d.k = e.k "
    "cross join range(1) as one"
)


@pytest.fixture
def joined(spark: Any, storage_root: Path) -> Stream:
    """Rows with all columns of a static table."""
    s = Stream(spark, storage_root, programs.pass_through(), "k string, v bigint, n int")
    dims = f"{s.events}_dims"
    s.program = planned(JOINED.format(dims))
    s.model = replace(s.model, columns={"k": "string", "v": "bigint", "n": "int"})
    spark.sql(f"create table {dims} (k string, n int) using iceberg")
    spark.sql(f"insert into {dims} values ('a', 1)")
    s.add((0, "a", 1))
    return s


STATIC = {
    "another": ["add column note string", "note"],
    "a wider one": ["alter column n type bigint", "n"],
    "one less": ["drop column n", "n"],
}


@pytest.mark.parametrize("change", mostly_thorough([*STATIC], ["another"]))
def test_columns_of_a_static_table_that_change_while_it_runs(joined: Stream, change: str) -> None:
    s, (how, column) = joined, STATIC[change]
    with running(s) as stream:
        take(stream, 1)
        s.spark.sql(f"alter table {s.events}_dims {how}")
        assert stream.wait(1).rows_in == 1, "no row has it yet"
        s.add((1000, "a", 2))
        with pytest.raises(
            SchemaChanged, match=rf"columns of {s.events}_dims changed while it ran \({column}\)"
        ):
            take(stream, 2)
    assert s.rows() == [("a", 1, 1)]


def test_a_run_starts_again_for_a_column_of_a_static_table(
    joined: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, begin, again = joined, runner.StaticTables, list[StreamModel]()

    def changed_after(*arguments: Any) -> Any:
        found = begin(*arguments)
        if not again:
            s.spark.sql(f"alter table {s.events}_dims add column note string")
            s.spark.sql(f"insert overwrite {s.events}_dims values ('a', 1, 'here')")
        return found

    def replan() -> tuple[StreamModel, Program]:
        again.append(s.model)
        assert s.model.columns is not None
        return replace(s.model, columns={**s.model.columns, "note": "string"}), s.program

    monkeypatch.setattr(runner, "StaticTables", changed_after)
    assert run_stream(s.spark, s.model, s.program, replan).rows_in == 1
    assert len(again) == 1
    assert s.rows() == [("a", 1, 1, "here")]


def test_a_column_that_comes_before_the_tables_are_looked_at(joined: Stream) -> None:
    joined.spark.sql(f"alter table {joined.events}_dims add column note string")
    with pytest.raises(SchemaChanged, match=r"columns of a static table that it joins changed .* \(note\)"):
        joined.run()
    assert joined.rows() == []


def test_a_static_table_that_is_gone_for_a_while(joined: Stream) -> None:
    s = joined
    with running(s) as stream:
        take(stream, 1)
        s.spark.sql(f"drop table {s.events}_dims")
        s.add((1000, "a", 2))
        with pytest.raises(TransientError, match=r"_dims, which it joins, doesn't exist now"):
            take(stream, 2)
    s.spark.sql(f"create table {s.events}_dims using iceberg as select 'a' as k, 2 as n")
    assert s.run().rows_in == 1
    assert s.rows() == [("a", 1, 1), ("a", 2, 2)]


KEPT = {
    "ranking": (
        "select * from (select e.k, e.v, d.* except (k), row_number() over (partition by e.k order by e.v desc) as place "
        "from (select /*+ STREAM */ * from events) as e join {} as d on d.k = e.k) where place <= 1",
        {"place": "int"},
    ),
    "given": (
        "select g.k, g.v, d.* except (k) from (select k, sum(v) as v from (select /*+ STREAM */ * from events) group by k) "
        "as g left join {} as d on d.k = g.k",
        {},
    ),
}


@pytest.mark.parametrize("kind", mostly_thorough([*KEPT], ["given"]))
def test_a_state_with_rows_of_a_static_table_continues(joined: Stream, kind: str) -> None:
    s, (text, more) = joined, KEPT[kind]
    s.program = planned(text.format(f"{s.events}_dims"))
    columns = {"k": "string", "v": "bigint", "n": "int", **more}
    s.model = replace(s.model, columns=columns)
    listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    s.spark.sql(
        f"create or replace table {s.model.target} ({listed}) using iceberg {made_for(s.model.target)}"
    )
    s.spark.sql(f"insert into {s.events}_dims values ('b', 2)")
    s.add((0, "b", 1))
    s.run()
    s.spark.sql(f"alter table {s.events}_dims add column note string")
    s.spark.sql(f"insert overwrite {s.events}_dims values ('a', 1, 'here'), ('b', 2, 'there')")
    s.model = replace(s.model, columns={**columns, "note": "string"})
    s.add((1000, "a", 4))
    assert s.run().rows_in == 1
    found = s.spark.sql(f"select k, v, n, note from {s.model.target} order by k").collect()
    assert [tuple(row) for row in found] == [("a", 4 if more else 5, 1, "here"), ("b", 1, 2, None)]
    s.add((2000, "b", 4))
    s.run()
    found = s.spark.sql(f"select k, v, n, note from {s.model.target} order by k").collect()
    assert [tuple(row) for row in found] == [
        ("a", 4 if more else 5, 1, "here"),
        ("b", 4 if more else 5, 2, "there"),
    ]
