"""A stream that is over lets the next one begin."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream


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
