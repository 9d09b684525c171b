"""Two runs of a model that don't see each other: one of them ends, and no row is lost or doubled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query import generate, planner
from dbt.adapters.spark_streaming.stream import runner
from dbt.adapters.spark_streaming.stream import state as state_module
from dbt.adapters.spark_streaming.stream import upsert as upsert_module
from dbt.adapters.spark_streaming.stream.batches import Batches
from dbt.adapters.spark_streaming.stream.errors import StreamError
from dbt.adapters.spark_streaming.stream.session import working_session

from . import programs
from .harness import TUMBLE, Stream, replayed, sorted_rows
from .programs import SECOND

GROUPS = "select k, count(*) as n from (select /*+ STREAM */ * from events) group by k"
SAYS = "was written by another run meanwhile"


class Remote(Storage):
    """A storage root on another machine, as far as locks go."""

    @property
    def is_local(self) -> bool:
        return False


def elsewhere(stream: Stream) -> Stream:
    stream.model = replace(stream.model, storage=Remote(stream.model.storage.root, lambda: stream.spark))
    return stream


def other_run(stream: Stream) -> Batches:
    """Another run of the model, on another machine, that has just begun."""
    return runner._resume(working_session(stream.spark), stream.model, stream.program)


def rows_of(stream: Stream, *rows: tuple[Any, ...]) -> Any:
    """The micro-batch that both runs find in the checkpoint."""
    listed = ", ".join(f"({at}, '{key}', {value}L)" for at, key, value in rows)
    return stream.spark.sql(
        f"select timestamp_millis(t) as ts, k, v, v as x from values {listed} as new(t, k, v)"
    )


FIRST, SECOND_BATCH = ((0, "a", 1), (1000, "a", 1)), ((2000, "b", 2), (2500, "a", 2), (4000, "a", 2))


def made(spark: Any, root: Path, name: str) -> Stream:
    if name == "stateless":
        return elsewhere(
            Stream(spark, root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
        )
    if name == "windows":
        return elsewhere(Stream(spark, root, programs.tumble(SECOND), TUMBLE))
    groups = generate.program(planner.plan(GROUPS))
    return elsewhere(Stream(spark, root, groups, "k string, n bigint", changelog=True))


@pytest.mark.parametrize("name", ["stateless", "windows", "groups"])
def test_a_micro_batch_is_in_once(spark: Any, storage_root: Path, name: str) -> None:
    stream = made(spark, storage_root, name)
    late = other_run(stream)  # has found nothing
    stream.add(*FIRST)
    stream.run()
    with pytest.raises(StreamError, match=SAYS):
        late.take(rows_of(stream, *FIRST), 0)
    late = other_run(stream)  # has found the first micro-batch
    stream.add(*SECOND_BATCH)
    stream.run()
    before = stream.rows()
    with pytest.raises(StreamError, match=SAYS):
        late.take(rows_of(stream, *SECOND_BATCH), 1)
    assert stream.rows() == before
    # Neither does one that is behind close windows, when there are any.
    if name == "windows":
        late, other = other_run(stream), other_run(stream)
        other.flush(stream.spark)
        before = stream.rows()
        with pytest.raises(StreamError, match=SAYS):
            late.flush(stream.spark)
        assert stream.rows() == before
        stream.add((9000, "a", 1))
        stream.run()
        assert stream.rows() == [
            (0, 1000, "a", 1, 1),
            (1000, 2000, "a", 1, 1),
            (2000, 3000, "a", 1, 2),
            (2000, 3000, "b", 1, 2),
            (4000, 5000, "a", 1, 2),
        ]
    if name == "groups":
        assert sorted_rows(replayed(spark, stream.model)) == stream.rows() == [("a", 4), ("b", 1)]


def test_what_a_crash_left_is_put_out_once(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made(spark, storage_root, "windows")
    stream.add(*FIRST)

    def crash(*_: Any) -> None:
        raise RuntimeError("crash")

    with monkeypatch.context() as patched:
        patched.setattr(runner.AppendSink, "put", crash)
        with pytest.raises(StreamError, match="crash"):
            stream.run()
    # Both find the rows of the micro-batch in the state alone; one is a moment behind the other.
    put = runner.AppendSink.put
    met: list[None] = []

    def meet(self: Any, *arguments: Any) -> int:
        if not met:
            met.append(None)
            other_run(stream)
        return put(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(runner.AppendSink, "put", meet)
        with pytest.raises(StreamError, match=SAYS):
            other_run(stream)
    assert stream.rows() == [(0, 1000, "a", 1, 1)]


@pytest.mark.parametrize("small", [0, 100_000], ids=["merged", "written anew"])
def test_an_older_run_doesnt_put_back_old_rows(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(upsert_module, "_SMALL", small)
    stream = made(spark, storage_root, "groups")
    stream.model = replace(stream.model, changelog=False)
    stream.add(*FIRST)
    stream.run()
    late = other_run(stream)
    write = upsert_module.UpsertSink._write
    met: list[None] = []

    def meet(self: Any, *arguments: Any) -> None:
        if not met:
            met.append(None)
            stream.add(*SECOND_BATCH)
            stream.run()  # finishes this step, and goes on
        write(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(upsert_module.UpsertSink, "_write", meet)
        with pytest.raises(StreamError, match=SAYS):
            late.take(rows_of(stream, (1500, "a", 1)), 1)


def test_a_state_that_is_folded_or_compacted_isnt_set_back(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_module, "_COMMITS", 1)
    monkeypatch.setattr(state_module, "_ROWS", 1)
    monkeypatch.setattr(state_module, "_LOOSE_FILES", 2)
    for act in ("fold", "compact"):
        stream = made(spark, storage_root, "windows" if act == "fold" else "groups")
        for number in range(6):
            stream.add((1000 * number, "a", 1))
            if act == "compact":
                monkeypatch.setattr(state_module.StateTable, "parts_to_fold", lambda *_: [])
            stream.run()
        assert any(
            ("stream.compacted" in each) if act == "compact" else each.get("stream.folded") == "true"
            for each in stream.snapshots(stream.model.state)
        )
        whole = getattr(state_module.StateTable, act)
        met: list[None] = []

        def meet(
            self: Any, *arguments: Any, of: Any = whole, stream: Stream = stream, met: Any = met
        ) -> None:
            if not met:
                met.append(None)
                stream.add((8000, "b", 1))
                stream.run()
            of(self, *arguments)

        late = other_run(stream)
        stream.add((7000, "a", 1))
        with monkeypatch.context() as patched:
            patched.setattr(state_module.StateTable, act, meet)
            for number in range(6, 10):
                try:
                    late.take(rows_of(stream, (7000, "a", 1)), number)
                except StreamError as problem:
                    assert SAYS in problem.msg
                    break
            else:
                pytest.fail("the state was neither folded nor compacted")
        monkeypatch.undo()
        monkeypatch.setattr(state_module, "_COMMITS", 1)
        monkeypatch.setattr(state_module, "_ROWS", 1)
        monkeypatch.setattr(state_module, "_LOOSE_FILES", 2)
        stream.run()
        assert stream.run().batches == 0


def test_a_run_that_a_reset_overtook_writes_nothing(spark: Any, storage_root: Path) -> None:
    for name in ("stateless", "windows", "groups"):
        stream = made(spark, storage_root, name)
        stream.add(*FIRST)
        stream.run()
        late = other_run(stream)
        columns = ", ".join(
            f"{c.name} {c.dataType.simpleString()}" for c in spark.table(stream.model.target).schema.fields
        )
        stream.reset()
        spark.sql(f"create or replace table {stream.model.target} ({columns}) using iceberg")
        with pytest.raises(Exception, match=r"another run|[Tt]able|not exist|UUID"):
            late.take(rows_of(stream, *SECOND_BATCH), 1)
        assert stream.rows() == []
        stream.run()
        assert len(stream.rows()) == (2 if name == "stateless" else 1)
