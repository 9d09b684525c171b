"""A model's stream as a whole: start, wait, stop; close its windows; forget it."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ...query.errors import QueryError
from ...query.program import Program, StreamInput
from ...util.types import type_text
from ..common.errors import StreamError, TransientError, sentences
from ..common.failpoints import around, reached
from ..common.model import StreamModel
from ..common.session import working_session
from ..common.stop_requests import stop_requests
from ..evolution.compare import REPLAYED
from ..evolution.output_schema import alterations, widenings
from ..iceberg import owner
from ..iceberg.ownership import check_names, drop
from ..iceberg.table import IcebergTable
from ..microbatch.lookups import Lookups
from ..microbatch.loop import Batches
from ..microbatch.micro_batch import Work
from ..progress.position import Position
from ..progress.report import caught_up
from ..progress.result import StreamResult
from ..sink.append import AppendSink, Sink
from ..sink.upsert import UpsertSink
from ..sources.bootstrap import begin_with_table
from ..sources.changed_files import ReadFiles
from ..sources.cleaned_files import forget_cleaned, note_cleaned
from ..sources.file_columns import FileColumns
from ..sources.initial_offset import (
    begin_again,
    begin_with_all,
    begins_with_all,
    blank_tables,
    bootstrapped_from,
    has_to_begin_again,
    lacks_rows,
    move_along,
    wait_for_source,
    whole_tables,
)
from ..sources.readers import as_a_whole, read_streams
from ..sources.source_schemas import ReadTables, SchemaChanged, check_fields, note_schemas
from ..sources.topics import check_topics, note_topics
from ..sources.upstream import check_beginnings, check_sources, check_versions, lost, overtaken
from ..state.table import StateTable
from ..storage.checkpoint import clear_beginning, last_snapshot, read_checkpoint, read_offsets
from ..storage.deployments import check_settled
from ..storage.savepoints import CHANGELOG, MIGRATION, STATE, check_whole
from ..storage.source_order import in_first_order, note_order, noted_sources
from .evolve import go_on, of_history, prepare, signed
from .lock import locked
from .recovery import Found, check, unfinished
from .saving import forget_all, save_before

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession


logger = AdapterLogger("Spark")

_POOL = "spark.scheduler.pool"
_LOOK = 1.0
"""Seconds from one look to the next at whether a run should end."""


def run_stream(
    spark: SparkSession,
    model: StreamModel,
    program: Program,
    replan: Callable[[], tuple[StreamModel, Program]] | None = None,
) -> StreamResult:
    """Run a stream until its input is taken in (or, with an interval as trigger, until it is stopped).

    Args:
        spark: the project's session.
        model: the model; its table exists.
        program: what a micro-batch does.
        replan: plans the model with the columns that its sources have now, for the query to start again when they change
            while it runs; None: it ends then.

    Raises:
        StreamError: the stream can't start, go on or was cut short. Each of its micro-batches is in its
            table entirely or not at all.
    """
    before: StreamResult | None = None
    while True:
        try:
            with RunningStream(spark, model, program) as stream:
                result = stream.wait()
                return before.followed_by(result) if before else result
        except SchemaChanged as problem:
            if replan is None:
                raise
            logger.info(problem.restarts)
            if problem.result is not None:
                before = before.followed_by(problem.result) if before else problem.result
        model, program = replan()


def flush(spark: SparkSession, model: StreamModel, program: Program) -> StreamResult:
    """Close all windows that are open, as at the end of the input; no input is read.

    Args:
        spark: the project's session.
        model: the model.
        program: what a micro-batch does.

    Raises:
        StreamError: as in `run_stream`.
    """
    with sentences(model), locked(spark, model):
        session = working_session(spark)
        batches = _resume(session, model, program)
        if program.keeps_state and batches.position.batch >= 0:
            with around("flush", model.name):
                batches.flush(session)
        return _result(batches)


@dataclass(frozen=True)
class AtRest:
    """A stream between two runs."""

    session: SparkSession
    """To work in."""
    position: Position
    """How far the stream has come."""
    work: Work
    finish: Callable[[], object]
    """Puts out what comes of a step that was written to the state meanwhile."""

    @property
    def sink(self) -> Sink:
        """The model's table."""
        return self.work.sink


@contextmanager
def at_rest(spark: SparkSession, model: StreamModel, program: Program) -> Iterator[AtRest]:
    """Hold a stream between two runs: what a crash cut short is finished, and no other run begins.

    Raises:
        StreamError: as in `run_stream`.
    """
    with sentences(model), locked(spark, model):
        session = working_session(spark)
        batches = _resume(session, model, program)
        yield AtRest(session, batches.position, batches.work, lambda: _resume(session, model, program))


def reset(spark: SparkSession, model: StreamModel) -> None:
    """Forget checkpoint and state, so that the next run begins at the sources' beginning.

    The table is the caller's to empty, afterwards: until it is, a run refuses to start, as it does after a
    crash in here. (State goes first: a state without a checkpoint could be taken for a new one's.)

    Args:
        spark: the project's session.
        model: the model.

    Raises:
        StreamError: a run of the model is going on, or it is in the middle of becoming another version.
    """
    with sentences(model), locked(spark, model):
        check_settled(model)
        with around("state.drop", model.name):
            drop(spark, model, STATE)
        with around("changelog.drop", model.name):
            drop(spark, model, CHANGELOG)
        with around("checkpoint.delete", model.name):
            model.storage.delete(model.checkpoint)
        with around("progress.delete", model.name):
            model.storage.delete(model.progress)
            model.storage.delete(model.attempt)
            model.storage.delete(model.health)
        forget_all(spark, model)
        owner.forget(model)


class RunningStream:
    """A stream that is going on. As a context manager it is stopped at the end of the block.

    Args:
        spark: the project's session.
        model: the model; its table exists.
        program: what a micro-batch does.
        is_asked_to_stop: returns whether the run is to end, without waiting; default: whether there is a file that asks
            for it.

    Raises:
        StreamError: it can't start.
    """

    def __init__(
        self,
        spark: SparkSession,
        model: StreamModel,
        program: Program,
        is_asked_to_stop: Callable[[], bool] | None = None,
    ) -> None:
        self.model = model
        self._problem: Exception | None = None
        self._begun = False
        """Whether something was read of every table."""
        self._with_all = False
        """Whether a micro-batch has all rows of tables that can't be read from their beginning."""
        self._stopped = False
        self._blank: Sequence[IcebergTable] = ()
        """Tables that had no rows when a query began that goes on: it doesn't see their first ones."""
        self.busy: tuple[str, float] | None = None
        """The work of a micro-batch that is going on, and since when, in seconds that go by evenly."""
        with sentences(model), ExitStack() as stack:
            stack.enter_context(locked(spark, model))
            if is_asked_to_stop is None:
                requests = stop_requests(model.storage)
                request = requests.watch(model)
                stack.callback(requests.forget, request)
                self._is_asked_to_stop: Callable[[], bool] = lambda: request.is_asked
            else:
                self._is_asked_to_stop = is_asked_to_stop
            self._session = session = working_session(spark)
            check_versions(session, model)
            if program.keeps_state:
                check_fields(session, model, program.inputs)
            # What the state goes on with. A query that begins later must not read other columns.
            self._fields = ReadTables(session, model, program.inputs).by_relation
            if any(source.format == "kafka" for source in model.sources):
                # Before messages are read again for a query that was edited.
                check_topics(session, in_first_order(model, program.inputs).model)
            self._files = _read_files(session, model, program)
            self._batches = _resume(session, model, program)
            self._files.check(self._batches.position.batch)
            clear_beginning(model.storage, model.checkpoint)
            order = in_first_order(model, program.inputs)
            self._ordered, self._inputs = ordered, inputs = order.model, order.inputs
            check_sources(session, ordered, self._batches.taken_in)
            move_along(ordered, self._batches.taken_in)
            if self._batches.position.batch < 0 and has_to_begin_again(session, ordered):
                # The run before ended of it.
                begin_again(model)
                check_beginnings(session, ordered)
            owner.claim(session, model)
            note_order(order)
            self._files.accept(self._batches.position.batch)
            if self._batches.position.batch < 0:
                forget_cleaned(ordered)
            begin_with_table(session, ordered, inputs, begun=self._batches.position.batch >= 0)
            reached("stream:starting", model.name)
            stopped = self._take_all(session, ordered, inputs)
            self._stopped = stopped is not None
            self._query = stopped or self._start(session, ordered, inputs)
            self._resources = stack.pop_all()

    def _start(self, session: SparkSession, model: StreamModel, inputs: tuple[StreamInput, ...]) -> Any:
        self._started = model
        self._blank = () if model.trigger is None else blank_tables(session, model)
        self._read = ReadTables(session, model, inputs)
        self._read.check_same(self._fields)
        note_schemas(model, self._read, inputs, begun=self._batches.position.batch >= 0)
        note_topics(model, check_topics(session, model))
        streams = read_streams(session, model, inputs)
        self._file_columns = FileColumns(session, model, inputs, streams.schema)
        self._file_columns.check_planned()
        self._file_columns.note(begun=self._batches.position.batch >= 0)
        writer = (
            streams.writeStream.queryName(model.key)
            .option("checkpointLocation", model.checkpoint)
            .foreachBatch(_Callback(self))
        )
        if model.trigger is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=model.trigger)
        with _pool(session, model.key):
            return writer.start()

    def _take_all(self, session: SparkSession, model: StreamModel, inputs: tuple[StreamInput, ...]) -> Any:
        """Take in what tables hold that can't be read snapshot by snapshot, where the stream begins: its first
        micro-batch, by a query of its own. Gives that query if somebody asked the stream to stop meanwhile."""
        while begin_with_all(session, model) or begins_with_all(model):
            self._with_all = True
            query = self._start(session, replace(model.at_once(), trigger=None), inputs)
            try:
                stopped, problem = self._watch(query, math.inf)
            finally:
                query.stop()
                self._with_all = False
                self._problem = None
            if problem is None or isinstance(problem, _Second):
                if not stopped:
                    wait_for_source(model)
                return query if stopped else None
            if not isinstance(problem, _Beyond):
                raise problem
            begin_again(model)
        return None

    def _begin_with_nothing(self) -> None:
        """Puts out what there is where no row has come yet."""
        if self._batches.lacks_rows_of_nothing:
            streams = read_streams(self._session, self._ordered, self._inputs)
            self._batches.begin_with_nothing(self._session, self._session.createDataFrame([], streams.schema))

    @property
    def query(self) -> Any:
        """Spark's handle of the stream."""
        return self._query

    def follow(self, trigger: str) -> None:
        """Goes on with what comes, once the stream has taken in what was there.

        Args:
            trigger: the interval between micro-batches.

        Raises:
            StreamError: it can't go on.
        """
        with sentences(self.model):
            # It is over, and Spark lets no other begin before it has ended it.
            self._query.stop()
            self._query = self._start(self._session, replace(self._ordered, trigger=trigger), self._inputs)

    def wait(self, seconds: float | None = None) -> StreamResult:
        """Wait until the stream ends, is asked to stop, or for a time, and say what it did so far.

        Raises:
            StreamError: it ended because something went wrong.
        """
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        with sentences(self.model):
            stopped, problem = self._watch(self._query, deadline)
            self._stopped = self._stopped or stopped
            if problem is not None:
                raise problem
            if self.model.trigger is None and not self._stopped and not self._query.isActive:
                self._begin_with_nothing()
        return replace(_result(self._batches), stopped=self._stopped)

    def _watch(self, query: Any, deadline: float) -> tuple[bool, Exception | None]:
        """Wait until a query ends: whether it was stopped, for somebody asked for that, and what ended it otherwise."""
        try:
            return self._has_stopped(query, deadline), None
        except Exception as problem:
            # Of what went wrong in a micro-batch Spark knows no more than that something did.
            return False, self._problem or problem

    def _has_stopped(self, query: Any, deadline: float) -> bool:
        """Wait until a query ends; whether it was stopped, for somebody asked for that."""
        # Spark counts milliseconds, and waits for one at least.
        while (left := min(_LOOK, deadline - time.monotonic())) >= 0.001:
            if query.awaitTermination(left):  # fractions too
                break
            if self._is_asked_to_stop():
                query.stop()
                return True
            if self._has_first_rows():
                # This query was told to wait for ever: see `reading_options`.
                query.stop()
                query = self._query = self._start(self._session, self._started, self._inputs)
        return False

    def _has_first_rows(self) -> bool:
        """Returns whether a table has rows that had none when the query began."""
        for table in self._blank:
            table.refresh()
        return any(not table.is_blank for table in self._blank)

    def stop(self) -> None:
        """End the stream after the commits of the micro-batch it is in, or without that micro-batch."""
        with sentences(self.model):
            try:
                # Of one that failed, too: Spark tells what it died of before it has ended it, and lets no other begin.
                self._query.stop()
            finally:
                self._resources.close()

    def take(self, batch: DataFrame, number: int) -> bool:
        """Take in a micro-batch; whether that went well. What went wrong is told by `wait`."""
        self.busy = (f"micro-batch {number}", time.monotonic())
        try:
            reached("batch:begun", self.model.name)
            if self._with_all and number > 0:
                raise _Second
            if number <= self._batches.taken_in:
                # A crash came between its commits and Spark's. What it was read from may be gone since.
                self._batches.take(batch, number)
                return True
            self._check_tables(number)
            self._files.check_now_and_then(self._batches.position.batch)
            note_cleaned(self._ordered, number)
            # Also where the source had no rows when the stream began, and has its first now.
            with_all = self._with_all or (number == 0 and bootstrapped_from(self.model) is not None)
            self._check_beginning(batch.sparkSession, number, with_all)
            if with_all:
                batch = as_a_whole(
                    batch, self._ordered, self._inputs, whole_tables(batch.sparkSession, self._ordered)
                )
            self._batches.take(batch, number)
            # What follows is Spark's own commit in the checkpoint.
            reached("batch:done", self.model.name)
        except Exception as problem:
            self._problem = problem
            return False
        finally:
            self.busy = None
        return True

    def _check_tables(self, number: int) -> None:
        """Returns if the tables go on as they did when the query began, which others may have changed since."""
        storage, checkpoint = self.model.storage, self.model.checkpoint
        starts = read_offsets(storage, checkpoint, number - 1) if number else []
        try:
            self._read.check(starts, read_offsets(storage, checkpoint, number))
            self._file_columns.check(number)
        except SchemaChanged as problem:
            problem.result = _result(self._batches)
            raise

    def _check_beginning(self, spark: SparkSession, number: int, with_all: bool) -> None:
        """Passes a micro-batch that has all rows of tables with which it begins."""
        if self._begun:
            return
        if (source := lacks_rows(spark, self._ordered, number, with_all)) is not None:
            if number:
                raise _Beyond(lost(spark, self.model, source))
            raise _Overtaken(overtaken(self.model, source))
        ends = read_offsets(self.model.storage, self.model.checkpoint, number)
        self._begun = None not in (
            last_snapshot(end)
            for source, end in zip(self._ordered.sources, ends, strict=False)
            if source.is_table
        )

    def __enter__(self) -> RunningStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except StreamError:
            # What came first says more.
            if problem is None:
                raise


class _Callback:
    """What Spark calls with each micro-batch of a run.

    Spark's query has a hold of it from its own process, and the run has one of the query. With one of the run it would
    close a circle that neither process's garbage collector sees, and all that a run needed would stay after it. Spark
    keeps what it raises, too, and with that whatever its calls had at hand.
    """

    def __init__(self, stream: RunningStream) -> None:
        self._stream = weakref.ref(stream)

    def __call__(self, batch: DataFrame, number: int) -> None:
        if not _take(self._stream(), batch, number):
            raise _Failed


def _take(stream: RunningStream | None, batch: DataFrame, number: int) -> bool:
    # A call of its own: no name where the exception is raised has the run.
    return stream is not None and stream.take(batch, number)


@contextmanager
def _pool(session: SparkSession, name: str) -> Iterator[None]:
    """The pool of Spark's fair scheduler for the threads that are started meanwhile: tasks of one model's large micro-batch
    don't go before all of another's small one."""
    context = session.sparkContext
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, name)
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]


class _Failed(Exception):
    """A micro-batch wasn't taken in."""


class _Beyond(StreamError):
    """A micro-batch can't be read as it was planned."""


class _Overtaken(_Beyond, TransientError):
    """A table changed while a stream began with it."""


class _Second(Exception):
    """The micro-batch after the one in which tables are read as a whole is another query's."""


def _read_files(session: SparkSession, model: StreamModel, program: Program) -> ReadFiles:
    """Returns the files that a stream has read, none of which was written again since. They may be read again for a query
    that was edited."""
    try:
        ordered = in_first_order(model, program.inputs).model
    except StreamError:
        ordered = replace(model, sources=())  # that it can't go on is said later
    files = ReadFiles(session, ordered)
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is not None and checkpoint.done is not None:
        files.check(checkpoint.done)
    return files


def _resume(session: SparkSession, model: StreamModel, program: Program) -> Batches:
    """Look at checkpoint, state, changelog and table, and finish what a crash cut short."""
    check_whole(model)
    check_names(session, model, program.keeps_state)
    state = StateTable(session, model)
    program = signed(session, model, program, state.signature() if program.keeps_state else None)
    upsert = program.upsert
    sink = UpsertSink(session, model, upsert) if upsert else AppendSink(session, model)
    stateful = program.keeps_state
    found = Found(
        checkpoint=read_checkpoint(model.storage, model.checkpoint),
        has_target=sink.exists,
        target_written=sink.written,
        target=sink.position(),
        target_has_past=sink.has_past,
        target_rows=sink.rows,
        state=state.position() if stateful else None,
        signature=state.signature() if stateful else None,
        changes=sink.changes.position() if sink.changes else None,
        changes_ahead=sink.changes_ahead(),
        target_incremental=sink.incremental,
        reads=noted_sources(model.storage, model.checkpoint),
    )
    check(model, stateful, program.signature, found)

    def query_id() -> str:
        checkpoint = read_checkpoint(model.storage, model.checkpoint)
        if checkpoint is None:
            raise StreamError(f"Model {model.name}: its checkpoint {model.checkpoint} was deleted meanwhile.")
        return checkpoint.query_id

    sink.begin(session)
    # What the changelog had of a step is in the table now.
    found = replace(found, target=sink.position())
    work = Work(model, program, state, sink, Lookups(model))
    change = None
    if found.state is not None and found.signature is not None:
        change = prepare(session, work, found.signature, found.state, unfinished(found))
    has = {field.name: type_text(field.dataType) for field in session.table(model.target).schema.fields}
    add, drop = alterations(model, list(has))
    with of_history(
        spark=session,
        work=work,
        change=change,
        had=found.signature,
        position=found.state,
        unfinished=unfinished(found),
    ) as added:
        if change is not None and change.migration is not None:
            save_before(session, model, MIGRATION)
        # Old and new query both go on with a table that has a column more, or a wider one.
        sink.change_columns(session, add, ())
        sink.widen_columns(session, widenings(model, has))
        if change is not None and found.state is not None:
            found = replace(found, state=go_on(session, work, change, found.state, added))
    sink.change_columns(session, {}, drop)
    found = replace(found, target=sink.position())
    position = found.state if stateful else found.target
    if position is not None and found.target is not None:
        # The state was written before the rows of its step were out.
        later = {
            name: max(getattr(position, name), getattr(found.target, name))
            for name in ("rows_out", "lookup_requests", "lookup_keys")
        }
        position = replace(position, **later)
    if position is not None and not stateful:
        position = caught_up(model, position)
    if stateful and state.exists and found.state is None:
        # Made, and never written: the query may be another one by now.
        state.drop(session)
    checkpoint = found.checkpoint
    cut_short = (
        checkpoint.planned if checkpoint is not None and checkpoint.planned != checkpoint.done else None
    )
    batches = Batches(session, work, position, query_id, cut_short)
    open_step = stateful and unfinished(found)
    remake = batches.position.to_remake
    if open_step and not remake:
        remade = batches.position.remade
        if remade:
            batches = Batches(session, _remaking(session, work), position, query_id)
        with around("batch.finish", model.name):
            batches.finish(session)
        remake = remade
    elif remake:
        # That puts out all there is, what a step that was cut short has not put out too.
        batches = Batches(session, _remaking(session, work), position, query_id)
        nothing = session.createDataFrame([], read_streams(session, model, program.inputs).schema)
        with around("batch.remake", model.name):
            batches.remake(session, nothing)
    if remake:
        work = replace(work, sink=_sink(session, model, program))
        batches = Batches(session, work, batches.position, query_id, cut_short)
    return batches


def _sink(session: SparkSession, model: StreamModel, program: Program) -> Sink:
    """A model's table, ready for a step."""
    upsert = program.upsert
    sink = UpsertSink(session, model, upsert) if upsert else AppendSink(session, model)
    sink.begin(session)
    return sink


def _remaking(session: SparkSession, work: Work) -> Work:
    """The same work as a step that makes anew what an edited query has to have so."""
    assert work.program.remake is not None
    signature = work.state.signature() or {}
    replayed: Any = signature.get(REPLAYED) or ()
    try:
        made = work.program.remake(replayed)
    except QueryError as problem:
        raise StreamError(f"Model {work.model.name}: {problem}") from problem
    program = replace(made, signature=work.program.signature)
    return replace(work, program=program, sink=_sink(session, work.model, program))


def _result(batches: Batches) -> StreamResult:
    taken = batches.taken
    return StreamResult(
        batches=taken.batches,
        rows_in=taken.rows_in,
        rows_out=taken.rows_out,
        late_rows=taken.late_rows,
        null_time_rows=taken.null_time_rows,
        watermark=batches.position.after,
        lookup_requests=taken.lookup_requests,
        lookup_keys=taken.lookup_keys,
        state=batches.state,
        unreadable=taken.unreadable,
    )
