"""Runs a model's stream: start, wait, stop; flush; reset."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ...query.errors import QueryError
from ...query.program import Program, StreamInput
from ...util.types import column_types
from ..common.errors import StreamError, TransientError, readable_errors
from ..common.failpoints import around, reached
from ..common.model import StreamModel
from ..common.session import working_session
from ..common.stop_requests import stop_requests
from ..evolution.output_schema import alterations, widenings
from ..iceberg import owner
from ..iceberg.ownership import check_no_foreign_tables, drop_owned_table
from ..iceberg.table import IcebergTable
from ..microbatch.lookups import Lookups
from ..microbatch.loop import Batches
from ..microbatch.micro_batch import RunContext
from ..microbatch.read_windows import read_windows
from ..progress.open_windows import OpenWindowSummary
from ..progress.position import Position, with_output_counts
from ..progress.report import with_counts_of_progress, write_open_windows
from ..progress.result import StreamResult
from ..sink.append import Sink
from ..sink.upsert import sink_of
from ..sources import initial_offset, upstream
from ..sources.bootstrap import begin_with_table
from ..sources.changed_files import ReadFiles
from ..sources.cleaned_files import forget_cleaned_files, note_cleaned
from ..sources.file_columns import FileColumns
from ..sources.readers import read_streams, with_rows_of_tables
from ..sources.source_schemas import ReadTables, Restarts, SchemaChanged, check_fields, note_schemas
from ..sources.static_tables import StaticTables
from ..sources.topics import check_topics, note_topics
from ..state.table import StateTable
from ..storage.checkpoint import delete_incomplete_offsets, last_snapshot, read_checkpoint, read_offsets
from ..storage.deployments import check_no_interrupted_swap
from ..storage.savepoints import CHANGELOG, MIGRATION, STATE, check_not_interrupted
from ..storage.source_order import Order, in_checkpoint_order, note_order, noted_sources
from .evolve import backfilled_metrics, migrate_state, plan_state_change, with_signature
from .lock import model_lock
from .recovery import StoredProgress, check_can_continue, is_unfinished, progress_of
from .saving import delete_all_savepoints, save_before

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession


logger = AdapterLogger("Spark")

_POOL = "spark.scheduler.pool"
_STOP_CHECK = 1.0
"""Seconds between two checks for a stop request."""
_NOTE_INTERVAL_FACTOR = 20
"""Reading open windows takes at most this fraction (one in …) of a stream's running time."""


def run_stream(
    spark: SparkSession,
    model: StreamModel,
    program: Program,
    replan: Callable[[], tuple[StreamModel, Program]] | None = None,
) -> StreamResult:
    """Runs a stream until its input is ingested (or, with an interval as trigger, until it is stopped).

    Args:
        model: the model, whose table exists.
        replan: plans the model with the current columns of its sources, to restart the query when they change during the
            run. If None, the run ends then.

    Raises:
        StreamError: the stream can't start or continue, or was interrupted. Each of its micro-batches is in its table
            entirely or not at all.
    """
    before: StreamResult | None = None
    restarts, is_restart = Restarts(), False
    while True:
        try:
            with RunningStream(spark, model, program, is_restart=is_restart) as stream:
                result = replace(stream.wait(), windows=stream.note_windows())
                return before.followed_by(result) if before else result
        except SchemaChanged as problem:
            if replan is None:
                raise
            restarts.check(problem)
            is_restart = True
            logger.info(problem.restarts)
            if problem.result is not None:
                before = before.followed_by(problem.result) if before else problem.result
        model, program = replan()


def flush(spark: SparkSession, model: StreamModel, program: Program) -> StreamResult:
    """Closes all open windows, as at the end of the input, without reading input."""
    with readable_errors(model), model_lock(spark, model):
        session = working_session(spark)
        batches = _resume(session, model, program)
        if program.keeps_state and batches.position.batch >= 0:
            with around("flush", model.name):
                batches.flush(session)
        return replace(batches.result, windows=_note_windows(session, batches))


@dataclass(frozen=True)
class StoppedStream:
    """A stopped stream, opened for maintenance."""

    session: SparkSession
    """Session for the maintenance."""
    position: Position
    """The last epoch of the stream."""
    context: RunContext
    finish: Callable[[], object]
    """Emits the output of an epoch that the caller has written to the state."""

    @property
    def sink(self) -> Sink:
        """Sink of the model's table."""
        return self.context.sink


@contextmanager
def open_stopped(spark: SparkSession, model: StreamModel, program: Program) -> Iterator[StoppedStream]:
    """Opens a stopped stream: finishes an interrupted epoch, and excludes other runs during the block."""
    with readable_errors(model), model_lock(spark, model):
        session = working_session(spark)
        batches = _resume(session, model, program)
        yield StoppedStream(
            session, batches.position, batches.context, lambda: _resume(session, model, program)
        )


def reset(spark: SparkSession, model: StreamModel) -> None:
    """Deletes checkpoint and state, so that the next run starts at the sources' beginning.

    The caller empties the table afterwards. Until then a run refuses to start, as it does after a crash in this function.
    The state is dropped before the checkpoint, so that a state never stays behind without its checkpoint.

    Raises:
        StreamError: the model is running, or a swap of its versions is incomplete.
    """
    with readable_errors(model), model_lock(spark, model):
        check_no_interrupted_swap(model)
        with around("state.drop", model.name):
            drop_owned_table(spark, model, STATE)
        with around("changelog.drop", model.name):
            drop_owned_table(spark, model, CHANGELOG)
        with around("checkpoint.delete", model.name):
            model.storage.delete(model.checkpoint)
        with around("progress.delete", model.name):
            model.storage.delete(model.progress)
            model.storage.delete(model.attempt)
            model.storage.delete(model.health)
        delete_all_savepoints(spark, model)
        owner.forget_owner(model)


class RunningStream:
    """A running stream. As a context manager, it stops the stream at the end of the block.

    Args:
        model: the model, whose table exists.
        is_asked_to_stop: returns, without waiting, whether the run should end. Default: whether there is a stop request
            in the model's storage.
        is_restart: whether it continues a run, so that a stop request from before counts.
    """

    _noted: tuple[int, int] | None = None
    """The epoch after which open windows were last noted in the progress: (micro-batch, flush)."""
    _next_note = 0.0
    """Earliest time to note open windows again, in seconds of the monotonic clock."""

    def __init__(
        self,
        spark: SparkSession,
        model: StreamModel,
        program: Program,
        is_asked_to_stop: Callable[[], bool] | None = None,
        is_restart: bool = False,
    ) -> None:
        self.model = model
        self._problem: Exception | None = None
        self._begun = False
        """Whether rows of every source table were read."""
        self._with_all = False
        """Whether the query ingests the initial load: all rows of tables that can't be read from their first snapshot."""
        self._stopped = False
        self._blank: Sequence[IcebergTable] = ()
        """Tables that were blank when a query with a trigger interval started, so that it would never read their rows."""
        self.busy: tuple[str, float] | None = None
        """The micro-batch being processed, and its start in seconds of the monotonic clock."""
        self._turn = threading.Lock()
        """Held during a micro-batch, while open windows are read, and to set `_is_restarting`."""
        self._is_restarting = False
        """Whether the query is about to be stopped and started again, so that it must not process a micro-batch."""
        with readable_errors(model), ExitStack() as stack:
            stack.enter_context(model_lock(spark, model))
            if is_asked_to_stop is None:
                requests = stop_requests(model.storage)
                request = requests.watch(model, keep=is_restart)
                stack.callback(requests.forget, request)
            self._is_asked_to_stop = is_asked_to_stop or (lambda: request.is_asked)
            self._session = session = working_session(spark)
            upstream.check_versions(session, model)
            if program.keeps_state:
                check_fields(session, model, program.inputs)
            # The columns that the state is resumed with. A query that starts later must not read others.
            self._fields = ReadTables(session, model, program.inputs).by_relation
            # The columns that results are written with until the stream ends.
            self._static = StaticTables(session, model, program.tables)
            if any(source.format == "kafka" for source in model.sources):
                # Checked before messages are replayed for an edited query.
                check_topics(session, in_checkpoint_order(model, program.inputs).model)
            self._files = _checked_read_files(session, model, program)
            self._batches = _resume(session, model, program)
            self._files.check(self._batches.position.batch)
            delete_incomplete_offsets(model.storage, model.checkpoint)
            order = self._batches.order
            self._ordered, self._inputs = ordered, inputs = order.model, order.inputs
            upstream.check_sources(session, ordered, self._batches.ingested)
            initial_offset.advance_offsets(ordered, self._batches.ingested)
            if self._batches.position.batch < 0 and initial_offset.has_to_begin_again(session, ordered):
                # The previous run failed for this reason.
                initial_offset.discard_first_batch(model)
                self._files = ReadFiles(session, ordered)
                upstream.check_beginnings(session, ordered)
            self._note_start(order)
            begin_with_table(session, ordered, inputs, begun=self._batches.position.batch >= 0)
            reached("stream:starting", model.name)
            stopped = self._run_initial_load(session, ordered, inputs)
            self._stopped = stopped is not None
            self.query = stopped or self._start(session, ordered, inputs)
            self._resources = stack.pop_all()

    def _note_start(self, order: Order) -> None:
        """Records the stream's table, sources and files, once nothing prevents the start."""
        owner.claim(self._session, self.model)
        note_order(order)
        self._files.accept(self._batches.position.batch)
        if self._batches.position.batch < 0:
            forget_cleaned_files(order.model)

    def _start(self, session: SparkSession, model: StreamModel, inputs: tuple[StreamInput, ...]) -> Any:
        self._started = model
        self._blank = () if model.trigger is None else initial_offset.blank_tables(session, model)
        begun = self._batches.position.batch >= 0
        self._read = ReadTables(session, model, inputs)
        self._read.check_same_fields(self._fields)
        note_schemas(model, self._read, inputs, begun)
        self._static.note(begun)
        note_topics(session, model)
        streams = read_streams(session, model, inputs)
        self._file_columns = FileColumns(session, model, inputs, streams.schema)
        self._file_columns.check_no_new_columns()
        self._file_columns.record_columns(begun)
        writer = streams.writeStream.queryName(model.key).option("checkpointLocation", model.checkpoint)
        trigger: Any = {"availableNow": True} if model.trigger is None else {"processingTime": model.trigger}
        with _in_scheduler_pool(session, model.key):
            return writer.foreachBatch(_Callback(self)).trigger(**trigger).start()

    def _run_initial_load(
        self, session: SparkSession, model: StreamModel, inputs: tuple[StreamInput, ...]
    ) -> Any:
        """Ingests the initial load of tables that can't be read snapshot by snapshot, as the stream's first micro-batch,
        in a separate query. Returns that query if the stream was stopped on request meanwhile, otherwise None."""
        while initial_offset.prepare_initial_load(session, model) or initial_offset.is_initial_load_planned(
            model
        ):
            self._with_all = True
            query = self._start(session, replace(model.without_source_limits(), trigger=None), inputs)
            try:
                stopped, problem = self._wait_for_end(query, math.inf)
            finally:
                query.stop()
                self._with_all = False
                self._problem = None
            if problem is None or isinstance(problem, _SecondBatch):
                if not stopped:
                    initial_offset.defer_bootstrap_rows(model)
                return query if stopped else None
            if not isinstance(problem, _ChangedDuringLoad):
                raise problem
            initial_offset.discard_first_batch(model)
        return None

    def _emit_result_of_no_rows(self) -> None:
        """Emits the result of an empty input, if the query has one and no row has arrived."""
        if self._batches.has_to_emit_first:
            streams = read_streams(self._session, self._ordered, self._inputs)
            nothing = self._session.createDataFrame([], streams.schema)
            self._batches.begin_without_input(self._session, nothing)

    def continue_with_trigger(self, trigger: str) -> None:
        """Starts a query with a trigger interval, after the stream has ingested the available rows."""
        with readable_errors(self.model):
            # The query has finished, but Spark accepts no other with its checkpoint until it is stopped.
            self.query.stop()
            self.note_windows()
            self.query = self._start(self._session, replace(self._ordered, trigger=trigger), self._inputs)

    def wait(self, seconds: float | None = None) -> StreamResult:
        """Waits until the stream ends or is stopped, or for a number of seconds. Returns its result so far."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        with readable_errors(self.model):
            stopped, problem = self._wait_for_end(self.query, deadline)
            self._stopped = self._stopped or stopped
            if problem is not None:
                raise problem
            if self.model.trigger is None and not self._stopped and not self.query.isActive:
                self._emit_result_of_no_rows()
        return replace(self._batches.result, stopped=self._stopped)

    def note_windows(self) -> OpenWindowSummary | None:
        """Returns the open windows, after the query has ended, and notes them in the model's progress."""
        self._noted = self._batches.position.step
        return _note_windows(self._session, self._batches)

    def _note_windows_in_between(self) -> None:
        """Notes the open windows after new micro-batches, if none is being processed and `_next_note` has come."""
        is_due = self._started.trigger is not None and time.monotonic() >= self._next_note
        if not is_due or not self._turn.acquire(timeout=_STOP_CHECK / 2):
            return
        try:
            if self._noted != self._batches.position.step:
                began = time.monotonic()
                # Open windows are only displayed: a stream doesn't end because they can't be read.
                with suppress(Exception):
                    self.note_windows()
                self._next_note = began + _NOTE_INTERVAL_FACTOR * (time.monotonic() - began)
        finally:
            self._turn.release()

    def _wait_for_end(self, query: Any, deadline: float) -> tuple[bool, Exception | None]:
        """Waits for a query to end. Returns whether it was stopped on request, and the exception if it failed."""
        try:
            return self._wait_until_stopped(query, deadline), None
        except Exception as problem:
            # For an exception in a micro-batch Spark reports only that the callback failed.
            found = self._problem or problem
            if isinstance(found, SchemaChanged):
                found.result = self._batches.result
            return False, found

    def _wait_until_stopped(self, query: Any, deadline: float) -> bool:
        """Waits for a query to end. Returns whether it was stopped on request."""
        # Spark counts in milliseconds, and waits for at least one.
        while (left := min(_STOP_CHECK, deadline - time.monotonic())) >= 0.001:
            if query.awaitTermination(left):  # accepts fractions of seconds
                break
            if self._is_asked_to_stop():
                query.stop()
                return True
            if self._has_first_rows() and self._turn.acquire(timeout=_STOP_CHECK / 2):
                # This query would never read the first rows: see `reading_options`. It isn't restarted during a
                # micro-batch, or after a failed one, whose rows may be in the state and would be ingested again.
                self._is_restarting = self._problem is None
                self._turn.release()
                if self._is_restarting:
                    query.stop()
                    self._is_restarting = False
                    query = self.query = self._start(self._session, self._started, self._inputs)
            self._note_windows_in_between()
        return False

    def _has_first_rows(self) -> bool:
        """Returns whether a table that was blank when the query started has rows now."""
        for table in self._blank:
            table.refresh()
        return any(not table.is_blank for table in self._blank)

    def stop(self) -> None:
        """Stops the stream. The current micro-batch is committed entirely or not at all."""
        with readable_errors(self.model):
            try:
                # A failed query is stopped too: Spark reports the failure before the query has ended, and until then
                # accepts no other.
                self.query.stop()
            finally:
                self._resources.close()

    def process(self, batch: DataFrame, number: int) -> bool:
        """Processes a micro-batch. Returns False if it failed, so that `wait` raises the exception, or if the query is
        about to be restarted."""
        with self._turn:
            return not self._is_restarting and self._process_batch(batch, number)

    def _process_batch(self, batch: DataFrame, number: int) -> bool:
        self.busy = (f"micro-batch {number}", time.monotonic())
        try:
            reached("batch:begun", self.model.name)
            if self._with_all and number > 0:
                raise _SecondBatch
            if number <= self._batches.ingested:
                # A crash came between the commits of this micro-batch and Spark's commit. Its input may be gone since.
                self._batches.ingest(batch, number)
                return True
            self._check_tables(number)
            self._files.check_now_and_then(self._batches.position.batch)
            note_cleaned(self._ordered, number)
            # The first micro-batch has the initial load also if the source was empty when the stream started.
            with_all = self._with_all or (
                number == 0 and initial_offset.bootstrapped_from(self.model) is not None
            )
            self._check_beginning(batch.sparkSession, number, with_all)
            if with_all:
                tables = initial_offset.whole_tables(batch.sparkSession, self._ordered)
                batch = with_rows_of_tables(batch, self._ordered, self._inputs, tables)
            self._batches.ingest(batch, number)
            # After this, Spark commits the micro-batch in the checkpoint.
            reached("batch:done", self.model.name)
        except Exception as problem:
            self._problem = problem
            return False
        finally:
            self.busy = None
        return True

    def _check_tables(self, number: int) -> None:
        """Raises if source tables or topics were recreated, or columns of tables, static ones too, or of files have
        changed, since the query started."""
        note_topics(self._session, self._ordered)
        storage, checkpoint = self.model.storage, self.model.checkpoint
        starts = read_offsets(storage, checkpoint, number - 1) if number else []
        self._read.check(starts, read_offsets(storage, checkpoint, number))
        self._file_columns.check(number)
        self._static.check()

    def _check_beginning(self, spark: SparkSession, number: int, with_all: bool) -> None:
        """Raises unless the first micro-batch with rows of a table has all rows since the table's first snapshot."""
        if self._begun:
            return
        if (source := initial_offset.source_lacking_rows(spark, self._ordered, number, with_all)) is not None:
            if number or self._batches.position.batch >= 0:
                # The first pieces of a micro-batch may be ingested: it can't be planned again with other rows.
                raise StreamError(upstream.lost_beginning_message(spark, self.model, source))
            raise _ChangedDuringLoad(upstream.overtaken_message(self.model, source))
        ends = read_offsets(self.model.storage, self.model.checkpoint, number)
        pairs = zip(self._ordered.sources, ends, strict=False)
        self._begun = None not in (last_snapshot(end) for source, end in pairs if source.is_table)

    def __enter__(self) -> RunningStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except StreamError:
            # The exception of the block is more specific than this one.
            if problem is None:
                raise


class _Callback:
    """The function that Spark calls with each micro-batch of a run.

    Spark's query, in the JVM, refers to the callback, and the run refers to the query. A strong reference to the run would
    close a cycle across both processes that neither garbage collector can see, and leak the run. Spark also keeps the
    exception of the callback, with the local variables of its frames.
    """

    def __init__(self, stream: RunningStream) -> None:
        self._stream = weakref.ref(stream)

    def __call__(self, batch: DataFrame, number: int) -> None:
        if not _process_if_alive(self._stream(), batch, number):
            raise _Failed


def _process_if_alive(stream: RunningStream | None, batch: DataFrame, number: int) -> bool:
    # A separate function, so that no local variable in the frame that raises refers to the run.
    return stream is not None and stream.process(batch, number)


@contextmanager
def _in_scheduler_pool(session: SparkSession, name: str) -> Iterator[None]:
    """Sets the pool of Spark's fair scheduler for threads that are started in the block: a large micro-batch of one model
    doesn't delay all tasks of another model's small one."""
    context = session.sparkContext
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, name)
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]


class _Failed(Exception):
    """A micro-batch failed."""


class _ChangedDuringLoad(TransientError):
    """A table changed during a stream's initial load, before anything was ingested."""


class _SecondBatch(Exception):
    """A query for the initial load reached a second micro-batch, which is left to the next query."""


def _checked_read_files(session: SparkSession, model: StreamModel, program: Program) -> ReadFiles:
    """Returns the files that a stream has read. Raises if one was rewritten: they may be replayed for an edited query."""
    try:
        ordered = in_checkpoint_order(model, program.inputs).model
    except StreamError:
        ordered = replace(model, sources=())  # `_resume` reports the problem
    files = ReadFiles(session, ordered)
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is not None and checkpoint.done is not None:
        files.check(checkpoint.done)
    return files


def _resume(session: SparkSession, model: StreamModel, program: Program) -> Batches:
    """Checks checkpoint and tables, migrates the state to an edited query, and finishes an interrupted epoch. Returns the
    micro-batches that follow."""
    check_not_interrupted(model)
    check_no_foreign_tables(session, model, program.keeps_state)
    state = StateTable(session, model)
    program = with_signature(session, model, program, state.signature() if program.keeps_state else None)
    sink = sink_of(session, model, program.upsert)
    found = replace(
        progress_of(model, state if program.keeps_state else None, sink),
        reads=noted_sources(model.storage, model.checkpoint),
    )
    check_can_continue(model, program.keeps_state, program.signature, found)
    sink.prepare_for_run(session)
    # `begin` has written changes that were only in the changelog to the table.
    found = replace(found, target=sink.position())
    context = RunContext(model, program, state, sink, Lookups(model))
    found = _migrate_state_and_table(session, context, found)
    if program.keeps_state and found.state is None:
        # If the state was created and never written, its columns may be those of an earlier query.
        state.drop_empty_table(session)
    return _finish_interrupted(session, context, found)


def _migrate_state_and_table(
    session: SparkSession, context: RunContext, found: StoredProgress
) -> StoredProgress:
    """Migrates the state to an edited query, and the table to its columns. Returns the progress afterwards."""
    model, sink = context.model, context.sink
    has, change = column_types(session.table(model.target).schema), None
    if found.state is not None and found.signature is not None:
        change = plan_state_change(
            session, context, found.signature, found.state, is_unfinished(found), has=has
        )
    add, drop = alterations(model, list(has))
    sink.check_dropped_columns(drop)
    with backfilled_metrics(
        spark=session,
        context=context,
        change=change,
        had=found.signature,
        position=found.state,
        unfinished=is_unfinished(found),
    ) as added:
        if change is not None and change.migration is not None:
            save_before(session, model, MIGRATION)
        # Both the old and the new query accept a table with additional or wider columns.
        sink.change_columns(session, add, ())
        sink.widen_columns(session, widenings(model, has))
        if change is not None and found.state is not None:
            found = replace(found, state=migrate_state(session, context, change, found.state, added))
    sink.change_columns(session, {}, drop)
    return replace(found, target=sink.position())


def _last_position(context: RunContext, found: StoredProgress) -> Position | None:
    """Returns the last committed epoch; None before the first."""
    stateful = context.program.keeps_state
    position = found.state if stateful else found.target
    if position is not None:
        position = with_output_counts(position, found.target)
    return position if position is None or stateful else with_counts_of_progress(context.model, position)


def _query_id(model: StreamModel) -> str:
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None:
        raise StreamError(f"Model {model.name}: its checkpoint {model.checkpoint} was deleted meanwhile.")
    return checkpoint.query_id


def _finish_interrupted(session: SparkSession, context: RunContext, found: StoredProgress) -> Batches:
    """Finishes an interrupted epoch or rebuild, and returns the micro-batches that follow."""
    model, program = context.model, context.program
    position, query_id = _last_position(context, found), partial(_query_id, model)
    checkpoint = found.checkpoint
    is_cut = checkpoint is not None and checkpoint.planned != checkpoint.done
    cut_short = checkpoint.planned if checkpoint is not None and is_cut else None
    batches = Batches(session, context, position, query_id, cut_short)
    if batches.position.needs_rebuild:
        # A rebuild emits all rows of the result, including the output of an interrupted epoch.
        batches = Batches(session, _rebuild_context(session, context), position, query_id)
        nothing = session.createDataFrame([], read_streams(session, model, program.inputs).schema)
        with around("batch.rebuild", model.name):
            batches.rebuild_operators(session, nothing)
    elif program.keeps_state and is_unfinished(found):
        is_rebuild = batches.position.is_rebuild
        if is_rebuild:
            batches = Batches(session, _rebuild_context(session, context), position, query_id)
        with around("batch.finish", model.name):
            batches.finish_interrupted(session)
        if not is_rebuild:
            return batches
    else:
        return batches
    context = replace(context, sink=_prepared_sink(session, model, program))
    return Batches(session, context, batches.position, query_id, cut_short)


def _prepared_sink(session: SparkSession, model: StreamModel, program: Program) -> Sink:
    """Returns the sink of a model's table, ready for an epoch."""
    sink = sink_of(session, model, program.upsert)
    sink.prepare_for_run(session)
    return sink


def _rebuild_context(session: SparkSession, context: RunContext) -> RunContext:
    """Returns the context with the program that rebuilds the operators that the state's signature names."""
    assert context.program.rebuild is not None
    signature = context.state.signature()
    rebuilt_from = None if signature is None else signature.rebuilt_from
    try:
        made = context.program.rebuild(rebuilt_from or ())
    except QueryError as problem:
        raise StreamError(f"Model {context.model.name}: {problem}") from problem
    program = replace(made, signature=context.program.signature)
    return replace(context, program=program, sink=_prepared_sink(session, context.model, program))


def _note_windows(session: SparkSession, batches: Batches) -> OpenWindowSummary | None:
    model = batches.context.model
    with readable_errors(model):
        windows = read_windows(session, batches.context, batches.position)
        if windows is not None:
            write_open_windows(model, windows)
        return windows
