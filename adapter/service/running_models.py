"""Runs a model's stream for the supervisor: prepares it, catches up with its sources, then follows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ..stream.common.errors import TransientError
from ..stream.common.identifiers import joined_name, parts
from ..stream.common.model import StreamModel
from ..stream.common.stop_requests import StopRequest, stop_requests
from ..stream.progress.report import last_written_progress, progress_of_this_process, read_progress
from ..stream.run.runner import RunningStream
from ..stream.sources.source_schemas import Restarts, SchemaChanged
from .health import CATCHING_UP, RUNNING
from .preparation import PreparationError, Prepared, Preparer, SkippedError
from .supervisor import Attempt, NotReady

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Spark")

_NO_FOLDER = ": there is no folder "
_NO_TABLE = re.compile(r"TABLE_OR_VIEW_NOT_FOUND\][^`\n]*?((?:`(?:[^`]|``)+`\.?)+)")


@dataclass
class RunningModel:
    """A model, and its progress in this process."""

    name: str
    upstream: frozenset[str]
    """Names of the service's models that it reads."""
    tables: frozenset[str] = frozenset()
    """The tables of other nodes that it reads, in the form of `_missing_table`."""
    model: StreamModel | None = None
    """The model as it was last prepared, or None if it never was."""
    request: StopRequest | None = None
    """The watch for a stop request by `dbt-stream stop`."""
    earlier_progress: Mapping[str, Any] | None = None
    """The last progress of earlier processes."""
    trigger: str | None = None
    """The interval between its micro-batches, once it follows its streams."""
    running: RunningStream | None = None
    """The stream while it runs."""

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """The last progress that this process knows, without reading storage."""
        written = None if self.model is None else last_written_progress(self.model)
        return written or self.earlier_progress

    @property
    def progress_in_this_process(self) -> Mapping[str, Any] | None:
        """The progress after the last micro-batch or flush of this process, or None if there was none."""
        return None if self.model is None else progress_of_this_process(self.model)


@dataclass(frozen=True)
class RunningModels:
    """The streams of a service."""

    streams: Mapping[str, RunningModel]
    preparer: Preparer
    session: Callable[[], SparkSession]
    every: str
    """The interval between micro-batches of models that don't configure one."""

    def run(self, name: str, attempt: Attempt) -> None:
        """Runs a model until a stop is requested.

        The model is prepared again at each start, because its sources may have changed.

        Raises:
            NotReady: a table that it reads doesn't exist yet.
            Exception: it can't start or continue.
        """
        stream, restarts = self.streams[name], Restarts()
        while (prepared := self._prepare(stream, attempt)) is not None:
            try:
                self._run_stream(stream, prepared, attempt)
            except SchemaChanged as problem:
                restarts.check(problem)
                # The next preparation reads the new columns.
                logger.info(problem.restarts)
            else:
                return

    def _prepare(self, stream: RunningModel, attempt: Attempt) -> Prepared | None:
        try:
            prepared = self.preparer.prepare(stream.name, attempt.stop.is_set)
        except PreparationError as problem:
            missing = sorted(name for name in stream.upstream if self.streams[name].model is None)
            gone = _missing_table(str(problem))
            if isinstance(problem, SkippedError) or (missing and gone):
                raise NotReady(_waiting_reason(missing)) from problem
            if stream.model is not None and (gone or _NO_FOLDER in str(problem)):
                # It was there before. It may be being built again, or its file system is away.
                raise TransientError(problem.msg) from problem
            if gone in stream.tables:
                raise NotReady(f"It reads {gone}: no table yet.") from problem
            raise
        if prepared is None:
            return None
        if stream.request is None:
            # Requests from before this process started don't count.
            stream.request = stop_requests(prepared.model.storage).watch(prepared.model)
        if stream.earlier_progress is None:
            stream.earlier_progress = read_progress(prepared.model)
        stream.model = prepared.model
        return prepared

    def _run_stream(self, stream: RunningModel, prepared: Prepared, attempt: Attempt) -> None:
        taken = _last_batch_id(stream)
        model = replace(prepared.model, trigger=None)
        with RunningStream(self.session(), model, prepared.program, attempt.stop.is_set) as running:
            stream.running = running
            attempt.phase = CATCHING_UP
            try:
                if _wait_until_ended(stream, running, attempt, taken):
                    return
                running.continue_with_trigger(prepared.trigger or self.every)
                stream.trigger = prepared.trigger or self.every
                attempt.phase = RUNNING
                _wait_until_ended(stream, running, attempt, taken)
            finally:
                stream.running = stream.trigger = None

    def describe_activity(self, name: str) -> str | None:
        """Returns a description of a stream's current work, or None if it waits for rows. Queries Spark."""
        stream = self.streams[name]
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


def _wait_until_ended(stream: RunningModel, running: RunningStream, attempt: Attempt, taken: object) -> bool:
    """Waits until the query ends. Returns whether it was stopped on request.

    Args:
        taken: the last micro-batch before this attempt.
    """
    while True:
        result = running.wait(1.0)
        attempt.has_committed = attempt.has_committed or _last_batch_id(stream) != taken
        if result.stopped or attempt.stop.is_set():
            return True
        if not running.query.isActive:
            # It may have ended after the first wait: read the result again.
            return running.wait(1.0).stopped


def _last_batch_id(stream: RunningModel) -> object:
    found = stream.progress_in_this_process
    return None if found is None else (found["batch"], found["flush"])


def table_key(name: str) -> str:
    """Returns schema and name of a table, in lower case.

    >>> table_key("`lakehouse`.`shop`.`Sizes`"), table_key("shop.sizes")
    ('shop.sizes', 'shop.sizes')
    """
    return joined_name([part.lower() for part in parts(name)[-2:]])


def _missing_table(error: str) -> str | None:
    """Returns the table that an error says isn't there, as `table_key`; None if it says no such thing.

    >>> _missing_table("[TABLE_OR_VIEW_NOT_FOUND] There is no table or view `lakehouse`.`shop`.`sizes`: a model …")
    'shop.sizes'
    >>> _missing_table("[UNRESOLVED_COLUMN] `sizes`")
    """
    found = _NO_TABLE.search(error)
    return None if found is None else table_key(found[1])


def _waiting_reason(missing: Sequence[str]) -> str:
    """Returns the reason why a model can't start, given the models it reads that have no table.

    >>> _waiting_reason(["orders", "clicks"])
    'It reads orders and clicks: no table yet.'
    """
    if not missing:
        return "A model that it reads failed when both were prepared."
    return f"It reads {' and '.join(missing)}: no table yet."
