"""Runs one model's stream for the supervisor: prepares it, takes in what is there, follows what comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ..stream.common.model import StreamModel
from ..stream.common.stop_requests import StopRequest, stop_requests
from ..stream.progress.report import latest_progress, read_progress
from ..stream.run.runner import RunningStream
from ..stream.sources.source_schemas import SchemaChanged
from .health import CATCHING_UP, RUNNING
from .preparation import PreparationError, Prepared, Preparer, SkippedError
from .supervisor import Attempt, NotReady

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Spark")


@dataclass
class Stream:
    """A model and what this process knows of it."""

    name: str
    upstream: frozenset[str]
    """Names of the service's models that it reads."""
    model: StreamModel | None = None
    """As it was prepared last; None: it never was."""
    request: StopRequest | None = None
    before: Mapping[str, Any] | None = None
    """Its last figures before this process took in anything."""
    running: RunningStream | None = None

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """Its last figures, from memory."""
        return self.latest or self.before

    @property
    def latest(self) -> Mapping[str, Any] | None:
        """Its last figures, if they are of this process."""
        return None if self.model is None else latest_progress(self.model)


class Streams:
    """The streams of a service.

    Args:
        streams: by name.
        preparer: prepares them.
        session: gives the project's Spark session.
        every: the interval between micro-batches of models that don't say one.
    """

    def __init__(
        self,
        streams: Mapping[str, Stream],
        preparer: Preparer,
        session: Callable[[], SparkSession],
        every: str,
    ) -> None:
        self._streams = streams
        self._preparer = preparer
        self._session = session
        self._every = every

    def run(self, name: str, attempt: Attempt) -> None:
        """Runs a model until it is asked to stop.

        It is prepared again at each start: what it reads may have changed.

        Raises:
            NotReady: a table that it reads isn't there yet.
            Exception: it can't start or go on.
        """
        stream = self._streams[name]
        while (prepared := self._prepare(stream, attempt)) is not None:
            try:
                self._run(stream, prepared, attempt)
            except SchemaChanged as problem:
                # Prepared again, it reads the columns that there are now.
                logger.info(problem.restarts)
            else:
                return

    def _prepare(self, stream: Stream, attempt: Attempt) -> Prepared | None:
        try:
            prepared = self._preparer.prepare(stream.name, attempt.stop.is_set)
        except PreparationError as problem:
            missing = sorted(name for name in stream.upstream if self._streams[name].model is None)
            if isinstance(problem, SkippedError) or (missing and "TABLE_OR_VIEW_NOT_FOUND" in str(problem)):
                raise NotReady(_waits_for(missing)) from problem
            raise
        if prepared is None:
            return None
        if stream.request is None:
            # Of what was asked before this process nothing counts.
            stream.request = stop_requests(prepared.model.storage).watch(prepared.model)
        if stream.before is None:
            stream.before = read_progress(prepared.model)
        stream.model = prepared.model
        return prepared

    def _run(self, stream: Stream, prepared: Prepared, attempt: Attempt) -> None:
        taken = _batch(stream)
        model = replace(prepared.model, trigger=None)
        with RunningStream(self._session(), model, prepared.program, attempt.stop.is_set) as running:
            stream.running = running
            attempt.phase = CATCHING_UP
            try:
                if _wait(stream, running, attempt, taken):
                    return
                running.follow(prepared.trigger or self._every)
                attempt.phase = RUNNING
                _wait(stream, running, attempt, taken)
            finally:
                stream.running = None

    def activity(self, name: str) -> str | None:
        """Returns what a stream is doing, or None if it waits for rows. Asks Spark."""
        stream = self._streams[name]
        running = stream.running
        if running is None:
            return None
        if (busy := running.busy) is not None:
            return busy[0]
        try:
            status = running.query.status
        except Exception:
            return None
        return f"'{status['message']}'" if status["isTriggerActive"] else None


def _wait(stream: Stream, running: RunningStream, attempt: Attempt, taken: object) -> bool:
    """Waits until the query ends; returns whether it was asked to."""
    while True:
        result = running.wait(1.0)
        attempt.has_committed = attempt.has_committed or _batch(stream) != taken
        if result.stopped or attempt.stop.is_set():
            return True
        if not running.query.isActive:
            # What ended it may have come after the look.
            return running.wait(1.0).stopped


def _batch(stream: Stream) -> object:
    found = stream.latest
    return None if found is None else (found["batch"], found["flush"])


def _waits_for(missing: Sequence[str]) -> str:
    if not missing:
        return "A model that it reads failed when both were prepared."
    return f"It reads {' and '.join(missing)}: no table yet."
