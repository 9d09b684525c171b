"""A stream that is over lets the next one begin."""

from __future__ import annotations

import math
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError, TransientError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.progress.result import StreamResult
from dbt.adapters.spark_streaming.stream.run import runner
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream
from dbt.adapters.spark_streaming.stream.sources.source_schemas import SchemaChanged

NO_SPARK: Any = None


class Query:
    """One that has failed: Spark tells what it died of, and calls it inactive, before it is unregistered."""

    isActive = False

    def __init__(self) -> None:
        self.ended = False

    def stop(self) -> None:
        """Comes back when its thread has ended, as Spark's does."""
        self.ended = True


def test_a_query_that_failed_is_waited_for_before_the_lock_is_given_back(tmp_path: Path) -> None:
    """bench/kill.py met it: the same stream, begun again at once, was another instance of a running query for Spark."""
    query, ended = Query(), []
    stream = RunningStream.__new__(RunningStream)
    stream.model = StreamModel(
        "views", "shop.views", "shop.views__state", Storage(str(tmp_path), lambda: None), ()
    )
    stream.query, stream._resources = query, ExitStack()
    stream._resources.callback(lambda: ended.append(query.ended))
    stream.stop()
    assert ended == [True]


@pytest.mark.parametrize("ingested", [-1, 0])
def test_an_initial_load_of_which_pieces_are_ingested_is_not_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ingested: int
) -> None:
    """The rest would be taken of other rows: those before the last piece's end would be lost."""
    source = StreamSource("t", "shop.t")
    stream = RunningStream.__new__(RunningStream)
    stream.model = stream._ordered = StreamModel(
        "m", "shop.m", "shop.m__state", Storage(str(tmp_path), lambda: None), (source,)
    )
    stream._begun, stream._problem = False, None
    batches: Any = SimpleNamespace(position=SimpleNamespace(batch=ingested))
    stream._batches = batches
    begun: list[object] = []
    monkeypatch.setattr(runner.initial_offset, "source_lacking_rows", lambda *given: source)
    monkeypatch.setattr(runner.initial_offset, "prepare_initial_load", lambda *given: not begun)
    monkeypatch.setattr(runner.initial_offset, "is_initial_load_planned", lambda *given: False)
    monkeypatch.setattr(runner.initial_offset, "discard_first_batch", begun.append)
    monkeypatch.setattr(runner.upstream, "lost_beginning_message", lambda *given: "it lacks rows")

    def watch(*given: object) -> tuple[bool, Exception | None]:
        try:
            stream._check_beginning(NO_SPARK, 0, with_all=True)
        except Exception as problem:
            return False, problem
        return False, None

    monkeypatch.setattr(stream, "_start", lambda *given: Query())
    monkeypatch.setattr(stream, "_wait_for_end", watch)
    if ingested < 0:
        assert stream._run_initial_load(NO_SPARK, stream.model, ()) is None
        assert begun == [stream.model]
        return
    with pytest.raises(StreamError, match="it lacks rows") as raised:
        stream._run_initial_load(NO_SPARK, stream.model, ())
    assert not isinstance(raised.value, TransientError)
    assert begun == []


def test_a_query_is_not_started_again_in_the_middle_of_a_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state may be committed and its position not noted yet: the next query would ingest its rows again."""
    stream = RunningStream.__new__(RunningStream)
    blank: Any = SimpleNamespace(refresh=lambda: None, is_blank=False)
    stream._blank, stream._turn, stream._is_restarting = (blank,), threading.Lock(), False
    stream._problem, stream._is_asked_to_stop = None, lambda: False
    taken: list[object] = []

    def process(batch: object, number: int) -> bool:
        taken.append(number)
        return True

    monkeypatch.setattr(stream, "_process_batch", process)
    monkeypatch.setattr(stream, "_note_windows_in_between", lambda: None)
    monkeypatch.setattr(runner, "_STOP_CHECK", 0.01)

    class Restarted(Query):
        """One that is in a micro-batch when it is looked at first."""

        looks = 0

        def awaitTermination(self, seconds: float) -> bool:
            self.looks += 1
            if self.looks == 2:
                stream._turn.release()
            return False

        def stop(self) -> None:
            assert self.looks == 2 and not stream._turn.locked()
            assert not stream.process(NO_SPARK, 1), "one that begins meanwhile is left to the next query"
            self.ended = True

    class Next(Query):
        """The one that is started then."""

        def awaitTermination(self, seconds: float) -> bool:
            return True

    query = Restarted()
    monkeypatch.setattr(stream, "_start", lambda *given: Next())
    stream._session = stream._started = NO_SPARK
    stream._inputs = ()
    stream._turn.acquire()
    assert not stream._wait_until_stopped(query, math.inf)
    assert query.ended and taken == []
    assert stream.process(NO_SPARK, 1) and taken == [1]


def test_a_query_is_not_started_again_after_a_micro_batch_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its state may be committed and its rows not emitted: the next query would ingest its rows again."""
    stream = RunningStream.__new__(RunningStream)
    blank: Any = SimpleNamespace(refresh=lambda: None, is_blank=False)
    stream._blank, stream._turn, stream._is_restarting = (blank,), threading.Lock(), False
    stream._problem = StreamError("it can't be emitted")
    stream._is_asked_to_stop = lambda: False
    monkeypatch.setattr(stream, "_note_windows_in_between", lambda: None)

    class Failing(Query):
        """One whose micro-batch has failed, and that ends when it is looked at again."""

        looks = 0

        def awaitTermination(self, seconds: float) -> bool:
            self.looks += 1
            if self.looks == 2:
                raise RuntimeError("the callback failed")
            return False

    query = Failing()
    monkeypatch.setattr(stream, "_start", lambda *given: pytest.fail("it is started again"))
    stream._session = stream._started = NO_SPARK
    stream._inputs = ()
    assert stream._wait_for_end(query, math.inf) == (False, stream._problem)
    assert not query.ended and not stream._is_restarting and not stream._turn.locked()


def test_a_request_to_stop_counts_for_a_run_that_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come while the model is planned with its sources' new columns, when no query looks for it."""
    kept: list[bool] = []

    class Stream:
        def __init__(self, *given: object, is_restart: bool = False) -> None:
            kept.append(is_restart)
            if len(kept) < 3:
                raise SchemaChanged("m", "raw.orders", [f"c{len(kept)}"])

        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *problem: object) -> None:
            pass

        def wait(self) -> StreamResult:
            return StreamResult(1)

        def note_windows(self) -> None:
            pass

    monkeypatch.setattr(runner, "RunningStream", Stream)
    planned: Any = (None, None)
    assert runner.run_stream(NO_SPARK, *planned, replan=lambda: planned).batches == 1
    assert kept == [False, True, True]


def test_rows_before_a_restart_for_first_rows_are_counted_if_columns_changed_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = RunningStream.__new__(RunningStream)
    batches: Any = SimpleNamespace(result=StreamResult(3, rows_in=7))
    stream._batches, stream._problem = batches, None

    def starts_again(*given: object) -> bool:
        raise SchemaChanged("m", "raw.orders", ["c"])

    monkeypatch.setattr(stream, "_wait_until_stopped", starts_again)
    _, problem = stream._wait_for_end(Query(), math.inf)
    assert isinstance(problem, SchemaChanged) and problem.result == StreamResult(3, rows_in=7)
