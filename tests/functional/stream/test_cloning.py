"""A model that goes on from where another one is: with the same rows as that, which knows nothing of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
from dbt.adapters.spark_streaming.stream.lifecycle.cloning import Cloned, check_clone, clone
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.run.lock import model_lock
from dbt.adapters.spark_streaming.stream.run.runner import flush, reset, run_stream
from dbt.adapters.spark_streaming.stream.run.saving import delete as drop
from dbt.adapters.spark_streaming.stream.run.saving import save
from dbt.adapters.spark_streaming.stream.storage.checkpoint import read_checkpoint
from dbt.adapters.spark_streaming.stream.storage.savepoints import stored_savepoints
from tests.planned import plan_of
from tests.thorough import mostly_thorough

from . import programs
from .harness import TUMBLE, Stream, replayed, sorted_rows
from .programs import SECOND

GROUPS = (
    "select k, count(*) as c, count(distinct v) as d from (select /*+ STREAM */ * from events) group by k"
)
OPERATORS = f"select c, count(*) as keys from ({GROUPS}) group by c"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A storage root of its own."""
    return tmp_path


def groups(spark: Any, root: Path) -> Stream:
    program = generate.generate_program(plan_of(GROUPS))
    return Stream(spark, root, program, "k string, c bigint, d bigint", changelog=True)


def operators(spark: Any, root: Path) -> Stream:
    program = generate.generate_program(plan_query.plan(OPERATORS, domains=["k", "c"]))
    return Stream(spark, root, program, "c bigint, keys bigint")


def windows(spark: Any, root: Path) -> Stream:
    return Stream(spark, root, programs.tumble(SECOND), TUMBLE)


def rows_alone(spark: Any, root: Path) -> Stream:
    return Stream(spark, root, programs.pass_through(), "ts timestamp, k string, doubled bigint")


KINDS = {"groups": groups, "windows": windows, "operators": operators, "rows": rows_alone}


def make_table(spark: Any, name: str, like: str) -> None:
    """An empty table with the columns of another one."""
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in spark.table(like).schema)
    spark.sql(f"create table {name} ({columns}) using iceberg")


def copy_of(stream: Stream, root: Path) -> StreamModel:
    """Another model of the same query, with another storage root."""
    name = f"{stream.model.name}_copy"
    target = f"stream_tests.{name}"
    make_table(stream.spark, target, stream.model.target)
    return replace(
        stream.model,
        name=name,
        target=target,
        state=f"{target}__state",
        storage=Storage(str(root / "elsewhere"), lambda: stream.spark),
    )


def made(stream: Stream, model: StreamModel, name: str | None = None) -> Cloned:
    return clone(stream.spark, model, stream.program, stream.model, name)


def refused(action: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(StreamError) as raised:
        action(*arguments)
    return str(raised.value.msg)


def told(stream: Stream) -> list[Any]:
    """All that a model has."""
    spark, model = stream.spark, stream.model
    tables = [each for each in (model.target, model.state, model.changes) if spark.catalog.tableExists(each)]
    return [
        stream.rows(),
        [(each, IcebergTable(spark, each).snapshot_id) for each in tables],
        read_checkpoint(model.storage, model.checkpoint),
        read_progress(model),
    ]


@pytest.mark.parametrize("kind", mostly_thorough(KINDS, []))
def test_a_clone_goes_on_as_the_original(spark: Any, root: Path, kind: str) -> None:
    stream = KINDS[kind](spark, root)
    for number in range(3):
        stream.add((number * 700, f"k{number % 2}", number), (number * 700, "k", 1))
        stream.run()
    save(spark, stream.model, "kept")
    stream.add((2900, "k", 2))
    stream.run()
    was = told(stream)
    model, early = copy_of(stream, root), copy_of(replaced(stream, "early"), root)
    done = made(stream, model)
    assert (done.batch, done.table_rows, done.next_run) == (3, len(stream.rows()), None)
    assert (done.state_rows is None) == (kind == "rows")
    assert sorted_rows(spark.table(model.target).collect()) == stream.rows()
    progress = read_progress(model)
    assert progress is not None and progress["model"] == model.name
    # From before the last micro-batch.
    assert made(stream, early, "kept").batch == 2
    assert told(stream) == was, "the original isn't touched"

    assert run_stream(spark, model, stream.program).rows_in == 0
    assert run_stream(spark, early, stream.program).rows_in == 1
    stream.add((3200, "k1", 7), (5000, "new", 1))
    for each in (stream.model, model, early):
        assert run_stream(spark, each, stream.program).rows_in == 2
        flush(spark, each, stream.program)
    for each in (model, early):
        assert sorted_rows(spark.table(each.target).collect()) == stream.rows()
        if stream.model.changelog:
            assert sorted_rows(replayed(spark, each, until=10**9)) == stream.rows()
        # How many rows it had read by a savepoint, a table alone doesn't say.
        if each is model or kind != "rows":
            assert (read_progress(each) or {})["total"] == (read_progress(stream.model) or {})["total"]
    # Each goes its own way.
    reset(spark, model)
    reset(spark, early)
    assert [each.name for each in stored_savepoints(stream.model.storage, stream.model.savepoints)] == [
        "kept"
    ]
    assert stream.run().rows_in == 0


def replaced(stream: Stream, suffix: str) -> Stream:
    """The same stream with a model of another name."""
    other = object.__new__(Stream)
    other.__dict__.update(stream.__dict__)
    other.model = replace(stream.model, name=f"{stream.model.name}_{suffix}")
    return other


POINTS = (
    "state.create:after",
    "state.clone:after",
    "table.clone:before",
    "table.clone:after",
    "clone.checkpoint:after",
    "clone.metadata:before",
)


@pytest.mark.thorough
def test_cut_short_anywhere(spark: Any, root: Path) -> None:
    stream = groups(spark, root)
    stream.add((0, "a", 1), (0, "b", 2))
    stream.run()
    was = told(stream)
    model = copy_of(stream, root)
    for point in POINTS:
        failpoints.arm(failpoints.parse(f"raise {point} 1 {model.name}"))
        assert point in refused(made, stream, model)
        failpoints.arm(None)
        # Whatever is there, no run takes it for the beginning of a stream.
        if point == "state.create:after":
            continue  # nothing was written
        said = refused(run_stream, spark, model, stream.program)
        assert re.search(r"checkpoint \S+ is gone|a part of its checkpoint \S+ is gone", said), (point, said)
        assert f"`dbt-stream reset {model.name}`" in refused(made, stream, model)
        reset(spark, model)
        spark.sql(f"drop table {model.target}")
        make_table(spark, model.target, stream.model.target)
    made(stream, model)
    assert told(stream) == was
    stream.add((0, "a", 5))
    stream.run()
    run_stream(spark, model, stream.program)
    assert sorted_rows(spark.table(model.target).collect()) == stream.rows()


@pytest.mark.thorough
def test_what_can_not_be_cloned(spark: Any, root: Path) -> None:
    stream = groups(spark, root)
    model = copy_of(stream, root)
    assert "it has read nothing yet" in refused(made, stream, model)
    stream.add((0, "a", 1))
    stream.run()
    arguments = (spark, model, stream.program, stream.model)
    assert "there is no savepoint 'x' of it" in refused(check_clone, *arguments, "x")
    assert "is in progress" in refused(_while_locked, stream, model)
    # Of another query: as `state diff` says it.
    other = generate.generate_program(plan_of(GROUPS.replace("k,", "v as k,").replace("by k", "by v")))
    said = refused(check_clone, spark, model, other, stream.model, None)
    assert (
        f"the state of model {stream.model.name} isn't one of its query: its query has changed in what"
        in said
    )
    assert "the group key" in said
    assert "its query keeps no state, and model" in refused(
        check_clone, spark, model, programs.pass_through(), stream.model, None
    )
    # Which the state could go on with, it does.
    more = generate.generate_program(plan_of(GROUPS.replace("count(*) as c", "count(*) as c, sum(v) as s")))
    spark.sql(f"alter table {model.target} add column s bigint")
    done = clone(spark, model, more, stream.model, None)
    assert done.next_run is not None and "new from here on: SUM(v)" in done.next_run
    columns = {"k": "string", "c": "bigint", "d": "bigint", "s": "bigint"}
    stream.add((0, "a", 5))
    run_stream(spark, replace(model, columns=columns), more)
    assert spark.table(model.target).select("k", "c", "d", "s").collect() == [("a", 2, 2, 5)]
    # What has something already isn't written over.
    rows = spark.table(model.target).collect()
    assert (
        f"it has a state already, and a clone begins with another model's. `dbt-stream reset {model.name}`"
        in (refused(made, stream, model))
    )
    assert spark.table(model.target).collect() == rows
    # One that reads another table isn't where the original is.
    third = copy_of(replaced(stream, "third"), root)
    make_table(spark, f"{stream.events}_other", stream.events)
    (source,) = third.sources
    elsewhere = replace(third, sources=(replace(source, location=f"{stream.events}_other"),))
    said = refused(made, stream, elsewhere)
    assert f"the table {stream.events}_other that it streams from doesn't come from the snapshot" in said
    with pytest.raises(StreamError, match="a clone of itself"):
        check_clone(
            spark, replace(stream.model, state="stream_tests.none"), stream.program, stream.model, None
        )


def test_types_that_are_wider_by_now(spark: Any, root: Path) -> None:
    """A savepoint is of INTs, and its source has got BIGINTs since; a table isn't filled with what doesn't fit."""
    text = (
        "select k, sum(v) as s, max(cast(v as int)) as m from (select /*+ STREAM */ * from events) group by k"
    )
    stream = Stream(spark, root, generate.generate_program(plan_of(text)), "k string, s bigint, m int")
    stream.add((0, "a", 1))
    stream.run()
    save(spark, stream.model, "ints")
    wide = copy_of(stream, root)
    spark.sql(f"alter table {wide.target} alter column m type bigint")
    assert made(stream, wide, "ints").table_rows == 1
    assert spark.table(wide.target).collect() == [("a", 1, 1)]
    narrow = copy_of(replaced(stream, "narrow"), root)
    spark.sql(f"drop table {narrow.target}")
    spark.sql(f"create table {narrow.target} (k string, s int, m int) using iceberg")
    assert "has s as INT, and the original as BIGINT, which doesn't fit. Let its query give s as" in refused(
        made, stream, narrow, "ints"
    )


def _while_locked(stream: Stream, model: StreamModel) -> None:
    with model_lock(stream.spark, stream.model):
        made(stream, model)


@pytest.mark.parametrize("again", [False, True])
def test_a_savepoint_that_is_deleted_while_it_is_copied(spark: Any, root: Path, again: bool) -> None:
    """A savepoint can be cloned at any time, so no lock keeps it. Its files may be gone before they are copied."""
    stream = windows(spark, root)
    stream.add((0, "a", 1))
    stream.run()
    save(spark, stream.model, "kept")
    model = copy_of(stream, root)

    def delete(point: str, name: str) -> None:
        if (point, name) == ("clone.checkpoint:before", model.name):
            drop(spark, stream.model, "kept")
            if again:
                save(spark, stream.model, "kept")

    failpoints.arm(delete)
    try:
        said = refused(made, stream, model, "kept")
    finally:
        failpoints.arm(None)
    assert "the savepoint 'kept' of model" in said and "was deleted or replaced while it was copied" in said
    assert f"`dbt-stream reset {model.name}`" in said
    assert f"`dbt-stream reset {model.name}`" in refused(made, stream, model), "it isn't taken for a clone"
    assert re.search(r"checkpoint \S+ is gone", refused(run_stream, spark, model, stream.program))
