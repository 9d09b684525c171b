"""What a run finds when it starts, on real tables; `unit/test_stream_recovery.py` has all the cases."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.iceberg import owner
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.run import runner
from dbt.adapters.spark_streaming.stream.run.lock import model_lock
from dbt.adapters.spark_streaming.stream.sink.append import AppendSink

from . import programs
from .harness import CUMULATE, EVENTS, TUMBLE, Stream
from .programs import SECOND


@pytest.fixture
def counts(spark: Any, storage_root: Path) -> Stream:
    stream = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    stream.add((0, "a", 1), (1000, "a", 1))
    return stream


def problem(stream: Stream) -> str:
    with pytest.raises(StreamError) as raised:
        stream.run()
    assert f"`dbt run --full-refresh --select {stream.model.name}`" in raised.value.msg
    return raised.value.msg


def test_both_commits_say_which_micro_batch_they_are_of(counts: Stream) -> None:
    counts.run()
    state, table = counts.snapshots(counts.model.state)[-1], counts.snapshots(counts.model.target)[-1]
    assert state["stream.batch-id"] == table["stream.batch-id"] == "0"
    assert state["stream.query-id"] == table["stream.query-id"]
    assert state["stream.watermark-after"] == "1970-01-01T00:00:01.000000Z"
    assert json.loads(state["stream.newest"]) == {"events": "1970-01-01T00:00:01.000000Z"}
    assert (state["stream.rows-in"], state["stream.late-rows"], state["stream.null-time-rows"]) == (
        "2",
        "0",
        "0",
    )


def test_progress_can_be_read_without_spark(counts: Stream) -> None:
    counts.run()
    counts.add((2000, "a", 1), (0, "a", 1))
    counts.run()
    progress = read_progress(counts.model)
    assert progress is not None
    assert (progress["batch"], progress["watermark"]) == (1, "1970-01-01T00:00:02.000000Z")
    assert progress["total"] == {"rows_in": 4, "late_rows": 1, "null_time_rows": 0, "rows_out": 2}
    last: Any = progress["last"]
    assert (last["rows_in"], last["late_rows"], last["rows_out"], last["commits"]) == (2, 1, 1, 2)


def test_nothing_new_does_nothing(counts: Stream) -> None:
    counts.run()
    assert counts.run().batches == 0


def test_killed_while_the_first_micro_batch_was_planned(counts: Stream) -> None:
    owner.claim(counts.spark, counts.model)
    offsets = Path(counts.model.checkpoint) / "offsets"
    offsets.mkdir(parents=True)
    # Spark writes its plan under such a name first, and begins only where there is none.
    (offsets / ".0.ca97c938-3bf6-4662-9256-2b67fa0dbb59.tmp").write_text("v1")
    assert counts.run().rows_in == 2


def test_checkpoint_deleted(counts: Stream) -> None:
    counts.run()
    counts.forget_checkpoint()
    assert "holds rows of a stream whose checkpoint" in problem(counts)
    assert len(counts.rows()) == 1


def test_state_deleted(counts: Stream) -> None:
    counts.run()
    counts.spark.sql(f"drop table {counts.model.state}")
    assert f"is there, but its state {counts.model.state} is gone" in problem(counts)


def test_table_deleted(counts: Stream) -> None:
    counts.run()
    counts.spark.sql(f"drop table {counts.model.target}")
    assert f"its table {counts.model.target} is gone" in problem(counts)


def test_query_changed(counts: Stream) -> None:
    counts.run()
    counts.program = programs.tumble(2 * SECOND)
    assert "its query has changed in what its state depends on (the window's size)" in problem(counts)


def test_reset_begins_anew_once_the_table_is_empty(counts: Stream) -> None:
    counts.run()
    before = counts.rows()
    counts.reset()
    assert "whose checkpoint" in problem(counts)
    counts.spark.sql(f"create or replace table {counts.model.target} ({TUMBLE}) using iceberg")
    counts.run()
    assert counts.rows() == before


def test_a_crash_between_the_commits_is_made_good(counts: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise RuntimeError("crash")

    with monkeypatch.context() as patched:
        patched.setattr(AppendSink, "put", crash)
        with pytest.raises(StreamError, match="crash"):
            counts.run()
    assert counts.rows() == []
    counts.add((2000, "a", 1))
    result = counts.run()
    assert (result.rows_in, result.rows_out) == (1, 2)
    assert counts.rows() == [(0, 1000, "a", 1, 1), (1000, 2000, "a", 1, 1)]


def test_a_crash_in_flush_is_made_good(counts: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    counts.run()

    def crash(*_: Any) -> None:
        raise RuntimeError("crash")

    with monkeypatch.context() as patched:
        patched.setattr(AppendSink, "put", crash)
        with pytest.raises(StreamError, match="crash"):
            counts.flush()
    assert len(counts.rows()) == 1
    counts.run()
    assert counts.rows() == [(0, 1000, "a", 1, 1), (1000, 2000, "a", 1, 1)]


def test_one_run_at_a_time(counts: Stream) -> None:
    with (
        model_lock(counts.spark, counts.model),
        pytest.raises(StreamError, match="another run of it is in progress"),
    ):
        counts.run()
    counts.run()


def test_without_state_rows_pass_through_once(spark: Any, storage_root: Path) -> None:
    stream = Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    stream.add((0, "a", 1), (1, "b", 2))
    result = stream.run()
    assert (result.rows_in, result.rows_out, result.watermark) == (2, 2, 1000)
    stream.add((2, "c", 3))
    stream.run()
    assert stream.rows() == [(0, "a", 2), (1, "b", 4), (2, "c", 6)]
    told: Any = read_progress(stream.model)
    assert (told["total"]["rows_in"], told["total"]["rows_out"]) == (3, 3)
    stream.forget_checkpoint()
    assert "whose checkpoint" in problem(stream)


@pytest.mark.thorough
def test_a_part_of_the_checkpoint_deleted(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    stream = Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    stream.add((0, "a", 1))
    stream.run()
    checkpoint = Path(stream.model.checkpoint)
    shutil.copytree(checkpoint, tmp_path / "whole")
    for gone in (["offsets"], ["offsets", "commits"], ["metadata"], ["offsets", "commits", "metadata"]):
        for part in gone:
            found = checkpoint / part
            shutil.rmtree(found) if found.is_dir() else found.unlink()
        stream.add((1, "b", 2))
        sentence = problem(stream)
        assert "is gone" in sentence or "an older checkpoint was put back" in sentence
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / "whole", checkpoint)
    assert stream.run().rows_in == 4

    # Of a folder Spark knows by a log which files it has read; without it new ones would be passed over.
    folder = Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    folder.reads(StreamSource("events", str(tmp_path / "events"), "parquet", EVENTS))
    for _ in range(2):
        spark.table(stream.events).write.mode("append").parquet(str(tmp_path / "events"))
        folder.run()
    shutil.rmtree(Path(folder.model.checkpoint) / "sources")
    spark.table(stream.events).write.mode("append").parquet(str(tmp_path / "events"))
    assert "(sources/0/1)" in problem(folder)


def test_with_an_interval_it_goes_on_until_it_is_stopped(counts: Stream) -> None:
    counts.model = replace(counts.model, trigger="100 milliseconds")
    with runner.RunningStream(counts.spark, counts.model, counts.program) as stream:
        while stream.wait(0.5).batches < 1:
            pass
        counts.add((2000, "a", 1))
        while stream.wait(0.5).batches < 2:
            pass
    assert counts.rows() == [(0, 1000, "a", 1, 1), (1000, 2000, "a", 1, 1)]


def test_a_state_that_was_made_and_never_written_is_made_again(counts: Stream) -> None:
    """Killed in between, the query may change before the next run: the state is the new one's."""
    try:
        failpoints.arm(failpoints.parse(f"raise state.create:after 1 {counts.model.name}"))
        with pytest.raises(StreamError, match="at state"):
            counts.run()
    finally:
        failpoints.arm(None)
    size = 2 * SECOND
    counts.program = programs.cumulate(size, 2 * size)
    counts.spark.sql(f"create or replace table {counts.model.target} ({CUMULATE}) using iceberg")
    counts.run()
    counts.add((9000, "a", 1))
    counts.run()
    assert counts.rows() == [(0, 2000, "a", 2, 2, 1), (0, 4000, "a", 2, 2, 1)]


def test_a_file_that_is_older_than_those_read(spark: Any, storage_root: Path, tmp_path: Path) -> None:
    """As it comes from elsewhere with its time kept: Spark passes over files that are a week older than the newest."""
    folder = tmp_path / "events"
    stream = Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    stream.reads(StreamSource("events", str(folder), "parquet", EVENTS))
    stream.add((1, "a", 1))
    for days in (0, 30):
        before = set(folder.glob("*.parquet"))
        spark.table(stream.events).write.mode("append").parquet(str(folder))
        for each in {*folder.glob("*.parquet")} - before:
            os.utime(each, (time.time() - days * 86_400,) * 2)
        stream.run()
    assert len(stream.rows()) == 2
