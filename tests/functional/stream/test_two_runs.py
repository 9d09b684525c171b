"""Two runs of a model that don't see each other: one of them ends, and no row is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.session import working_session
from dbt.adapters.spark_streaming.stream.iceberg import commit
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
from dbt.adapters.spark_streaming.stream.lifecycle.backfill import Windows, backfill
from dbt.adapters.spark_streaming.stream.microbatch.loop import Batches
from dbt.adapters.spark_streaming.stream.progress.position import Position
from dbt.adapters.spark_streaming.stream.run import runner
from dbt.adapters.spark_streaming.stream.sink import upsert as upsert_module
from dbt.adapters.spark_streaming.stream.sink.append import AppendSink
from dbt.adapters.spark_streaming.stream.state import table as state_module
from dbt.adapters.spark_streaming.stream.state.table import StateTable
from tests.planned import plan_of, tree_of
from tests.thorough import mostly_thorough

from . import programs
from .harness import TUMBLE, Stream, replayed, sorted_rows, written
from .programs import SECOND

GROUPS = "select k, count(*) as n from (select /*+ STREAM */ * from events) group by k"
SAYS = "was written by another run meanwhile"
# Of operators: a key tells rows apart, or nothing does.
OPERATORS = {
    "groups of groups": f"select n, count(*) as m from ({GROUPS}) group by n",
    "union of groups": f"select n, 1L as m from ({GROUPS}) union all select n, 2L as m from ({GROUPS}) where n > 1",
}


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
    if name in OPERATORS:
        program = generate.generate_program(
            tree_of(OPERATORS[name], {"events": RelationInfo("ts")}, None, ("k", "n"))
        )
        assert program.upsert is not None and (program.upsert.key is None) is (name == "union of groups")
        return elsewhere(Stream(spark, root, program, "n bigint, m bigint", changelog=True))
    stream = Stream(
        spark, root, generate.generate_program(plan_of(GROUPS)), "k string, n bigint", changelog=True
    )
    # Rows of such a table have ids, which a compaction, as whose files ours are written, writes.
    spark.sql(f"alter table {stream.model.target} set tblproperties ('format-version' = '3')")
    return elsewhere(stream)


@pytest.mark.parametrize(
    "name",
    mostly_thorough(["stateless", "windows", "groups", *OPERATORS], ["stateless"]),
)
def test_a_micro_batch_is_in_once(spark: Any, storage_root: Path, name: str) -> None:
    stream = made(spark, storage_root, name)
    late = other_run(stream)  # has found nothing
    stream.add(*FIRST)
    stream.run()
    with pytest.raises(StreamError, match=SAYS):
        late.ingest(rows_of(stream, *FIRST), 0)
    late = other_run(stream)  # has found the first micro-batch
    stream.add(*SECOND_BATCH)
    stream.run()
    before = stream.rows()
    with pytest.raises(StreamError, match=SAYS):
        late.ingest(rows_of(stream, *SECOND_BATCH), 1)
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
    if stream.model.changelog:
        expected = {
            "groups": [("a", 4), ("b", 1)],
            "groups of groups": [(1, 1), (4, 1)],
            "union of groups": [(1, 1), (4, 1), (4, 2)],
        }
        assert sorted_rows(replayed(spark, stream.model)) == stream.rows() == expected[name]
    if name == "groups":
        ids = [row[0] for row in spark.sql(f"select _row_id from {stream.model.target}").collect()]
        assert None not in ids and len(set(ids)) == 2


def test_a_run_that_another_overtook_knows_its_own_commit(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made(spark, storage_root, "groups")
    stream.add(*FIRST)
    stream.run()
    late, refresh = other_run(stream), IcebergTable.refresh
    met: list[None] = []

    def meet(self: IcebergTable) -> None:
        if self.name == stream.model.state and not met:
            met.append(None)
            position = StateTable(spark, stream.model).position()
            assert position is not None and position.batch == 1
            gone_on(stream, stream.model.state, position)
        refresh(self)

    # Between its commit of the second micro-batch and its look at it, another run has taken in the third.
    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "refresh", meet)
        late.ingest(rows_of(stream, *SECOND_BATCH), 1)
    assert met and stream.rows() == [("a", 4), ("b", 1)]
    with pytest.raises(StreamError, match=SAYS):
        late.ingest(rows_of(stream, (5000, "c", 1)), 2)
    assert stream.rows() == [("a", 4), ("b", 1)]


class Untold:
    """An update of Iceberg's that is committed and ends in an error, as when a catalog's answer gets lost."""

    def __init__(self, update: Any) -> None:
        self._update = update

    def __getattr__(self, name: str) -> Any:
        return getattr(self._update, name)

    def commit(self) -> None:
        self._update.commit()
        raise RuntimeError("no answer")


@pytest.mark.thorough
def test_a_commit_that_nobody_told_of_is_found(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made(spark, storage_root, "groups of groups")
    real = commit._commit_update

    def untold(model: Any, table: Any, update: Any, *more: Any, **others: Any) -> None:
        real(model, table, Untold(update), *more, **others)

    monkeypatch.setattr(commit, "_commit_update", untold)
    for rows in (FIRST, SECOND_BATCH):
        stream.add(*rows)
        stream.run()
    assert sorted_rows(replayed(spark, stream.model)) == stream.rows() == [(1, 1), (4, 1)]


def test_what_a_crash_left_is_put_out_once(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made(spark, storage_root, "windows")
    stream.add(*FIRST)

    def crash(*_: Any) -> None:
        raise RuntimeError("crash")

    with monkeypatch.context() as patched:
        patched.setattr(AppendSink, "put", crash)
        with pytest.raises(StreamError, match="crash"):
            stream.run()
    # Both find the rows of the micro-batch in the state alone; one is a moment behind the other.
    put = AppendSink.put
    met: list[None] = []

    def meet(self: Any, *arguments: Any) -> int:
        if not met:
            met.append(None)
            other_run(stream)
        return put(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(AppendSink, "put", meet)
        with pytest.raises(StreamError, match=SAYS):
            other_run(stream)
    assert stream.rows() == [(0, 1000, "a", 1, 1)]


def gone_on(stream: Stream, table: str, position: Position) -> None:
    """Another run has committed the step after a position."""
    step = replace(position, batch=position.batch + 1)
    commit.append("other", stream.model, IcebergTable(stream.spark, table), None, step.properties())


@pytest.mark.parametrize("way", mostly_thorough(["by place", "merge", "anew"], ["by place"]))
def test_an_older_run_doesnt_put_back_old_rows(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    written(way, monkeypatch.setattr)
    stream = made(spark, storage_root, "groups")
    stream.add(*FIRST)
    stream.run()
    late = other_run(stream)
    write = upsert_module.UpsertSink._write

    def meet(self: Any, changed: Any, recent: Any, names: Any, position: Position, *more: Any) -> None:
        gone_on(stream, stream.model.target, position)
        write(self, changed, recent, names, position, *more)

    monkeypatch.setattr(upsert_module.UpsertSink, "_write", meet)
    with pytest.raises(StreamError, match=SAYS):
        late.ingest(rows_of(stream, (1500, "a", 1)), 1)
    assert stream.rows() == [("a", 2)]


@pytest.mark.parametrize("act", mostly_thorough(["fold", "compact"], []))
def test_a_state_isnt_set_back(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    for limit in ("_COMMITS", "_ROWS", "_LOOSE_FILES"):
        monkeypatch.setattr(state_module, limit, 1)
    if act == "compact":
        monkeypatch.setattr(state_module.StateTable, "parts_to_fold", lambda *_: [])
    stream = made(spark, storage_root, "groups")
    runs = 5 if act == "compact" else 2  # Iceberg leaves fewer small files alone
    for _ in range(runs):
        stream.add(*FIRST)
        stream.run()
    found = StateTable(spark, stream.model).position()
    assert found is not None and found.batch == runs - 1
    assert found.folded is (act == "fold")
    assert ("stream.compacted" in stream.snapshots(stream.model.state)[-1]) is (act == "compact")
    late, real = other_run(stream), getattr(StateTable, act)

    def meet(self: StateTable, *arguments: Any) -> None:
        position = StateTable(spark, stream.model).position()
        assert position is not None
        gone_on(stream, stream.model.state, position)
        real(self, *arguments)

    monkeypatch.setattr(StateTable, act, meet)
    with pytest.raises(StreamError, match=SAYS):
        late.ingest(rows_of(stream, *SECOND_BATCH), runs)
    found = StateTable(spark, stream.model).position()
    assert found is not None and found.batch == runs + 1


@contextmanager
def meanwhile(point: str, act: Callable[[], object]) -> Iterator[None]:
    """The first time that a run is at a point, another machine does something."""
    met: list[str] = []

    def handler(at: str, _: str) -> None:
        if at == point and not met:
            met.append(at)
            act()

    failpoints.arm(handler)
    try:
        yield
    finally:
        failpoints.arm(None)
    assert met


@pytest.mark.thorough
def test_a_merge_right_after_another_run_tells_of_it(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark commits a MERGE by itself: what is found afterwards can only be told."""
    written("merge", monkeypatch.setattr)
    stream = made(spark, storage_root, "groups")
    stream.add(*FIRST)
    stream.run()
    stream.add(*SECOND_BATCH)
    with (
        meanwhile("table.merge:before", lambda: other_run(stream)),
        pytest.raises(
            StreamError, match=r"another run of it wrote .* at the same moment.*Let one run at a time"
        ),
    ):
        stream.run()
    stream.add((9000, "c", 1))
    stream.run()
    assert stream.rows() == sorted_rows(replayed(spark, stream.model)) == [("a", 4), ("b", 1), ("c", 1)]


def seconds_closed(stream: Stream, until: str = "timestamp_millis(4000)") -> str:
    """The windows of all rows, late ones too."""
    return f"""select * from (
        select timestamp_millis(ms) as window_start, timestamp_millis(ms + 1000) as window_end, k, count(*) as c, sum(v) as s
        from (select *, unix_millis(ts) div 1000 * 1000 as ms from {stream.events}) group by ms, k
    ) where window_end <= {until}"""


@pytest.mark.parametrize("first", mostly_thorough(["backfill", "run"], ["backfill"]))
def test_a_backfill_beside_a_run_elsewhere(spark: Any, storage_root: Path, first: str) -> None:
    stream = made(spark, storage_root, "windows")
    stream.add(*FIRST, (1500, "b", 3))
    stream.run()
    stream.add((500, "z", 7))
    assert stream.run().late_rows == 1
    stream.add(*SECOND_BATCH)

    def windows(session: Any, after: int) -> Windows:
        until = f"timestamp_micros({after})"
        return Windows(seconds_closed(stream, until), f"window_end <= {until}", None, {})

    def repair() -> None:
        backfill(spark, stream.model, stream.program, windows)

    if first == "backfill":
        with meanwhile("table.backfill:before", stream.run):
            repair()
    else:
        # It puts out itself what the run was about to.
        with meanwhile("table.append:before", repair), pytest.raises(StreamError, match=SAYS):
            stream.run()
    stream.run()
    found = sorted_rows(spark.sql(seconds_closed(stream)).collect())
    assert len(found) == 6 and stream.rows() == found


@pytest.mark.thorough
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
            late.ingest(rows_of(stream, *SECOND_BATCH), 1)
        assert stream.rows() == []
        stream.run()
        assert len(stream.rows()) == (2 if name == "stateless" else 1)
