"""When a micro-batch is cut, and how often it was tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment import java
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.program import StreamInput
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.microbatch import splitter
from dbt.adapters.spark_streaming.stream.microbatch.splitter import BatchSplitter
from dbt.adapters.spark_streaming.stream.progress.position import Position, SplitPoint, read_position


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamModel:
    monkeypatch.setattr(splitter, "driver_memory", lambda _: 0)
    monkeypatch.setattr(BatchSplitter, "_rows_that_fit", lambda *_: 100)
    monkeypatch.setattr(BatchSplitter, "_expected_rows", lambda *_: 10)
    monkeypatch.setattr(BatchSplitter, "_time_columns", lambda *_: [("`stream`", "`ts`", True)])
    return StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), ())


def cutter(
    model: StreamModel, cut_short: int | None = None, time: str | None = "ts", feed: bool = False
) -> BatchSplitter:
    return BatchSplitter(
        None, model, (StreamInput("raw.events", "stream", None, time, feed),), True, cut_short
    )


def take(
    of: BatchSplitter, problem: str | None = None, since: SplitPoint | None = None
) -> dict[str, Any] | None:
    """Take in micro-batch 5; the note while it is being taken in."""
    with of.split_batch(None, 5, of._model, since) as found:
        assert [piece.cut for piece in found] == [None]
        note = of._model.storage.read_text(of._model.attempt)
        if problem is not None:
            raise RuntimeError(problem)
    return None if note is None else json.loads(note)


def test_a_note_is_made_of_what_was_cut_short_before(model: StreamModel) -> None:
    assert take(cutter(model)) is None
    assert take(cutter(model, cut_short=4)) is None
    assert take(cutter(model, cut_short=5)) == {"batch": 5, "tries": 1}
    assert not model.storage.exists(model.attempt)


def test_fewer_rows_at_once_only_for_lack_of_memory(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "jvm_answers", lambda: False)
    for problem, then in (
        ("division by zero", 1),
        ("java.lang.OutOfMemoryError: heap", 2),
        ("Answer from Java side is empty", 3),
    ):
        with pytest.raises(RuntimeError):
            take(cutter(model, cut_short=5), problem)
        assert cutter(model, cut_short=5)._failed_attempts(5) == then
    assert cutter(model, cut_short=6)._failed_attempts(6) == 1


def test_what_is_left_is_told_by_the_same_event_time(model: StreamModel) -> None:
    for changed in (cutter(model, time="other"), cutter(model, time=None), cutter(model, feed=True)):
        with pytest.raises(
            StreamError, match=r"in order of raw\.events\.ts, which is no longer its event time"
        ):
            take(changed, since=SplitPoint(17, ("raw.events.ts",)))


def test_a_column_that_is_no_time_any_more_does_not_tell_what_is_left(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole micro-batch would be ingested, with the rows of its first pieces once more."""
    since = SplitPoint(7, ("raw.events.ts",))
    monkeypatch.setattr(BatchSplitter, "_time_columns", lambda *_: [])
    with pytest.raises(StreamError, match=r"in order of raw\.events\.ts, which is no longer its event time"):
        take(cutter(model), since=since)
    assert take(cutter(model)) is None


def test_where_it_goes_on_is_in_the_position() -> None:
    position = Position("m", "id", 5, cut=SplitPoint(17, ("raw.events.ts", "raw.others.at")))
    assert read_position(position.properties()) == position
