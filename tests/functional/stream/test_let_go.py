"""A run that has ended leaves nothing in memory."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.microbatch.loop import Batches
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream

from . import programs
from .harness import TUMBLE, Stream
from .programs import SECOND


def run(s: Stream) -> Any:
    """Java's weak reference to the query of a run."""
    with RunningStream(s.spark, s.model, s.program) as stream:
        query = s.spark._jvm.java.lang.ref.WeakReference(stream.query._jsq.streamingQuery())
        try:
            stream.wait()
        except StreamError as problem:
            assert "broken" in str(problem)
        return query


def is_let_go(spark: Any, query: Any) -> bool:
    """Whether the garbage collectors of both processes find that nobody has it any more."""
    deadline = time.monotonic() + 60  # its thread may still be at its end
    while query.get() is not None and time.monotonic() < deadline:
        gc.collect()
        spark._jvm.java.lang.System.gc()
        time.sleep(1)  # for others: it takes a whole collection of all that the tests have made
    return query.get() is None


def test_a_run_that_ended_is_let_go(spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    s.add((0, "a", 1))
    queries = [run(s)]
    s.add((1000, "a", 1))

    def breaks(self: Batches, batch: Any, number: int) -> None:
        raise StreamError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "ingest", breaks)
        queries.append(run(s))
    assert [is_let_go(spark, query) for query in queries] == [True, True]
