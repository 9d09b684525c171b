"""Runs the micro-batches of a model in order, each exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...query.program import Rows
from ..common import session
from ..common.errors import StreamError, TransientError
from ..common.failpoints import reached
from ..progress import query_metrics
from ..progress.metrics_sink import publish
from ..progress.position import Position
from ..progress.report import BatchMetrics, last_noted_windows, progress_report, read_progress, write_progress
from ..progress.result import COUNTS, StreamResult
from ..progress.unreadable_rows import total_rows
from ..progress.watermark import Watermark
from ..sources.file_names import check_batch
from ..sources.planned_files import check_files_exist
from ..state.schema import KnownColumns
from ..state.table import Widened, signature_digest
from ..storage.source_order import Order, in_checkpoint_order
from .micro_batch import MicroBatch, RunContext, now
from .splitter import BatchSplitter, SubBatch
from .state_meter import StateMeter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Batches:
    """Runs the micro-batches of a program.

    Args:
        position: the last committed position; None at the start of a stream.
        query_id: returns Structured Streaming's id of the checkpoint.
        cut_short: the micro-batch that an earlier run began and didn't finish; None if there is none.
    """

    def __init__(
        self,
        spark: SparkSession,
        context: RunContext,
        position: Position | None,
        query_id: Callable[[], str],
        cut_short: int | None = None,
    ) -> None:
        self._total = StreamResult()
        signature = context.program.signature
        begun = position or Position(
            context.model.name, query_id="", batch=-1, signature=signature_digest(signature)
        )
        self.position = begun.with_text(signature.text)
        self.context = context
        self._query_id = query_id
        self._session_defaults = session.session_defaults(spark)
        self._prepared = False
        self._meter: StateMeter | None = None
        counts_rows = any(rows.read_by is not None for rows in context.program.items_of_kind(Rows))
        self._splitter = BatchSplitter(
            spark=spark,
            model=context.model,
            inputs=context.program.inputs,
            stateful=context.program.keeps_state,
            cut_short=cut_short,
            counts_rows=counts_rows,
        )
        relations = [stream.relation for stream in context.program.inputs]
        self._watermark = Watermark(
            delay=context.model.watermark_delay + context.program.extra_delay,
            newest={relation: self.position.newest.get(relation) for relation in relations},
            value=self.position.after,
            idle_timeout=context.model.idle_timeout,
            last_arrival=self.position.last_arrival,
        )

    @cached_property
    def order(self) -> Order:
        """The sources in the order of the checkpoint."""
        return in_checkpoint_order(self.context.model, self.context.program.inputs)

    @property
    def ingested(self) -> int:
        """Number of the last micro-batch that is ingested completely; -1 if there is none."""
        return self.position.batch - (self.position.cut is not None)

    def ingest(self, batch: DataFrame, number: int) -> None:
        """Ingests a micro-batch, unless it is ingested already: after a crash Spark replays the interrupted one."""
        unfinished = number == self.position.batch and self.position.cut is not None
        if number <= self.ingested:
            self._write_missing_report()
            return
        spark = batch.sparkSession
        ordered = self.order.model
        check_batch(ordered, number)
        check_files_exist(spark, ordered, number)
        if not self._prepared:
            session.prepare(spark, self._session_defaults)
            self._prepared = True
        # All pieces have one arrival time, so that a stream with rows in only one of them isn't idle in the others.
        at = max(self.position.last_arrival.values(), default=now()) if unfinished else now()
        since = self.position.cut if unfinished else None
        with self._splitter.split_batch(batch, number, ordered, since) as pieces:
            for piece in pieces:
                query_id = self.position.query_id or self._query_id()
                position = replace(self.position.next_epoch(number), query_id=query_id, cut=piece.cut)
                self._ingest_piece(spark, piece, position, at)
                if piece.cut is not None:
                    reached("batch:cut", self.context.model.name)

    def _ingest_piece(self, spark: SparkSession, piece: SubBatch, position: Position, at: int) -> None:
        from pyspark.errors import AnalysisException

        rows, committed = piece.rows, False
        try:
            with self._open_micro_batch(spark, position, piece.expected) as step:
                if self.context.program.keeps_state:
                    self._watermark = step.update_state(rows, self._watermark, at)
                    committed = True
                    step.emit()
                else:
                    self._watermark = step.write_without_state(rows, self._watermark, at)
        except (Widened, AnalysisException) as problem:
            if isinstance(problem, AnalysisException) and (committed or not self._widens_state(spark, rows)):
                raise
            if committed:
                raise self._widened_error() from None
            self.context.state.record_inputs(rows.schema)
            self._ingest_piece(spark, piece, position, at)

    def _widens_state(self, spark: SparkSession, rows: DataFrame) -> bool:
        """Widens the state's column types to those of a micro-batch; returns whether any was narrower. Spark refuses
        to compare some values of different types, such as arrays of decimals of different precision."""
        from pyspark.errors import AnalysisException

        state = self.context.state
        if not self.context.program.keeps_state or not state.exists:
            return False
        known = KnownColumns(state.physical_types(spark), state.mapping, lambda part: ())
        step = MicroBatch(self.context, spark, self.position, self._session_defaults)
        try:
            layout = step.state_layout(spark.createDataFrame([], rows.schema), known)
        except (AnalysisException, ValueError):
            return False
        return state.widen(spark, layout.schema)

    @property
    def has_to_emit_first(self) -> bool:
        """Whether no micro-batch has run yet and an epoch without input may emit rows."""
        return self.position.step == (-1, 0) and self.context.program.has_rows_without_input

    def begin_without_input(self, spark: SparkSession, no_rows: DataFrame) -> None:
        """Emits the rows that exist before the first micro-batch, such as a total of no rows."""
        position = replace(self.position.next_epoch(-1), query_id=self._query_id())
        session.prepare(spark, self._session_defaults)
        self._ingest_piece(spark, SubBatch(no_rows, None), position, now())

    def finish_interrupted(self, spark: SparkSession) -> None:
        """Emits the output of the last micro-batch, after a crash between the commits of state and output."""
        with self._with_advice_on_widening(), self._open_micro_batch(spark, self.position) as step:
            step.emit()

    def rebuild_operators(self, spark: SparkSession, no_rows: DataFrame) -> None:
        """Rebuilds operators for an edited query, in a separate epoch without input."""
        # Reuses the last arrival time, so that no stream becomes idle.
        at = max(self.position.last_arrival.values(), default=now())
        self._ingest_piece(spark, SubBatch(no_rows, None), self.position.next_epoch(self.position.batch), at)

    def flush(self, spark: SparkSession) -> None:
        """Closes all open windows, as at the end of the input. Raises if the last micro-batch isn't fully ingested."""
        if self.position.cut is not None:
            raise StreamError(
                f"Model {self.context.model.name}: its last micro-batch is only partly ingested, because its run was "
                f"interrupted. Finish it with `dbt run --select {self.context.model.name}` first."
            )
        # Windows emit rows into windows over them, so this may take several rounds.
        while (closing := closing_watermark(spark, self.context, self.position)) is not None:
            position = self.position.next_epoch(self.position.batch)
            with self._with_advice_on_widening(), self._open_micro_batch(spark, position) as step:
                step.advance_watermark_to(closing)
                step.emit()

    @contextmanager
    def _with_advice_on_widening(self) -> Iterator[None]:
        """Converts `Widened` into an error with advice, for an epoch that can't be repeated."""
        try:
            yield
        except Widened:
            raise self._widened_error() from None

    def _widened_error(self) -> TransientError:
        return TransientError(
            f"Model {self.context.model.name}: columns of its state were widened with those of a source, in the middle "
            "of a micro-batch. Nothing is lost, and the next run continues from there: run it again."
        )

    def _write_missing_report(self) -> None:
        """Writes the progress report of the last micro-batch if a crash came between its commits and the report."""
        progress = read_progress(self.context.model) or {}
        if (progress.get("batch"), progress.get("flush")) != (self.position.batch, self.position.flush):
            progress = progress_report(self.position, BatchMetrics(), self._state_size())
            write_progress(self.context.model, progress, is_of_earlier_process=True)

    def _state_size(self) -> dict[str, int] | None:
        return self.context.state.total_size() if self.context.program.keeps_state else None

    @property
    def result(self) -> StreamResult:
        """The counts of this run so far, with what it read and wrote in each state table."""
        state = () if self._meter is None else self._meter.total_metrics
        return replace(self._total, watermark=self.position.after, state=state)

    @contextmanager
    def _open_micro_batch(
        self, spark: SparkSession, position: Position, expected: int | None = None
    ) -> Iterator[MicroBatch]:
        scheduler = spark._jsc.sc().dagScheduler()
        jobs = scheduler.numTotalJobs()
        step = MicroBatch(self.context, spark, position, self._session_defaults, expected)
        if self._meter is None and self.context.program.keeps_state:
            self._meter = StateMeter(spark, self.context.model, self.context.program, self.context.state)
        meter = self._meter
        with query_metrics.collect_plans() as plans:
            try:
                yield step
            finally:
                step.release()
                # Cached rows and session settings don't leak into the next micro-batch or to other users of the
                # session.
                session.set_shuffle_partitions(spark, self._session_defaults)
            step.compact()
        self.position = step.position
        metrics = step.metrics
        metrics.jobs = scheduler.numTotalJobs() - jobs
        counts: dict[str, Any] = {name: getattr(metrics, name) for name in COUNTS}
        self._total = self._total.followed_by(StreamResult(1, **counts, unreadable=metrics.unreadable))
        if meter is not None:
            meter.measure(plans, step.observed_lookups)
        model, state = self.context.model, None if meter is None else meter.report()
        operators = self.context.program.operators
        entries: dict[str, object] = {} if operators is None else {"operators": operators().tree}
        entries |= last_noted_windows(model, self.position)
        write_progress(model, {**progress_report(self.position, metrics, state), **entries})
        self._publish_metrics(spark, metrics, meter)

    def _publish_metrics(self, spark: SparkSession, metrics: BatchMetrics, meter: StateMeter | None) -> None:
        counts = {
            name: getattr(metrics, name) for name in ("rows_in", "rows_out", "late_rows", "null_time_rows")
        }
        counts |= {"batches": 1, "unreadable_rows": total_rows(metrics.unreadable)}
        sizes = {f"state.{name}": size for name, size in (self._state_size() or {}).items()}
        publish(
            spark, self.context.model.unique_name, counts, sizes, () if meter is None else meter.last_metrics
        )


def closing_watermark(spark: SparkSession, context: RunContext, position: Position) -> int | None:
    """Returns the watermark at which the last open window of a state closes; None if none is open."""
    zones = {
        part.name: (part.closes, part.time_zone) for part in context.program.parts if part.closes is not None
    }
    last = context.state.last_expiry(spark, zones)
    if last is None:
        return None
    closing = last + context.program.allowed_lateness
    return None if position.after is not None and closing <= position.after else closing
