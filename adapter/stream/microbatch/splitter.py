"""Splits a micro-batch that is too large for the memory into pieces, in order of event time.

Each piece runs as its own micro-batch. All of its rows are older than the next piece's, so no row becomes late, windows
close piece by piece, and the state stays small. The position records where the next piece begins
(`Position.cut`), so the run after an interrupted one continues there.

The driver's memory gives an estimate of how many rows fit. If a run didn't finish a micro-batch, perhaps because its
JVM ran out of memory, the next run halves that number; a file counts the attempts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from ...environment.memory import out_of_memory_message
from ...query.sql.instants import usable_time_condition
from ...sources.messages import exception_text
from ...util.quoting import quote as quoted
from ..common.errors import StreamError
from ..common.session import driver_memory
from ..iceberg.table import IcebergTable
from ..progress.position import SplitPoint
from ..sources.initial_offset import bootstrapped_from
from ..sources.readers import event_time_column
from ..storage.checkpoint import last_snapshot, read_offsets, topic_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ...query.program import StreamInput
    from ..common.model import StreamModel

logger = AdapterLogger("Spark")

_BYTES_OF_A_ROW, _BYTES_OF_A_VALUE = 256, 64
"""Bytes of driver memory per row, and per value: a row is in several hash tables, sorts and exchanges at a time."""
_BYTES_IN_A_FILE = 8
"""Minimum bytes of a row in a file."""
_FEWEST = 50_000
"""Rows that fit in any memory."""
_MANY = 5_000_000
"""Above this number, rows are counted before they are shuffled."""
_MOST_PIECES = 100
"""Maximum number of pieces of a micro-batch."""


@dataclass(frozen=True)
class SubBatch:
    """A part of a micro-batch's rows."""

    rows: DataFrame
    cut: SplitPoint | None
    """Where the next piece begins; None for the last piece."""
    expected: int | None = None
    """Upper bound of the number of rows; None if it wasn't requested or exceeds `_MANY`."""


class BatchSplitter:
    """Splits the micro-batches of a model that are too large.

    Args:
        stateful: whether the model has a state; rows that are only passed on need no memory.
        cut_short: the micro-batch that an earlier run began and didn't finish, perhaps for lack of memory; None if
            there is none.
        counts_rows: whether pieces carry the expected number of rows.
    """

    def __init__(
        self,
        spark: SparkSession,
        model: StreamModel,
        inputs: Sequence[StreamInput],
        stateful: bool,
        cut_short: int | None,
        counts_rows: bool = False,
    ) -> None:
        self._counts_rows = counts_rows
        self._spark, self._model, self._inputs, self._cut_short = spark, model, inputs, cut_short
        # A changelog is in order of its micro-batches, not of event time.
        self._can_split = stateful and all(each.event_time is not None and not each.feed for each in inputs)
        self._time_names = tuple(f"{each.relation}.{each.event_time}".lower() for each in inputs)
        self._fit: int | None = None
        self._tables: dict[str, IcebergTable] = {}
        self._memory = driver_memory(spark)

    @contextmanager
    def split_batch(
        self, batch: DataFrame, number: int, ordered: StreamModel, since: SplitPoint | None
    ) -> Iterator[Iterator[SubBatch]]:
        """Yields the pieces of a micro-batch in order; a single one if it isn't large.

        Args:
            ordered: the model, its sources in the order of the checkpoint.
            since: where the first piece that isn't ingested begins; None if no piece is ingested.

        Raises:
            StreamError: the event time has changed, so the rows that are left are unknown.
        """
        can_split = self._can_split and bool(self._time_columns(batch))
        if since is not None and (not can_split or sorted(since.by) != sorted(self._time_names)):
            raise StreamError(
                f"Model {self._model.name}: its last micro-batch is partly ingested, in order of "
                f"{' and '.join(since.by)}, which is no longer its event time. Set that event time again until a run "
                f"has ingested the rest. To rebuild it: {self._model.rebuild}."
            )
        tries = self._failed_attempts(number) if can_split else 0
        most = max(1, self._rows_that_fit(batch) >> tries)
        is_large = can_split and (since is not None or self._expected_rows(batch, number, ordered) > most)
        with self._record_attempt(number, tries) if is_large or tries else nullcontext():
            if not is_large:
                yield iter([SubBatch(batch, None, self._countable_rows(batch, number, ordered))])
                return
            from pyspark import StorageLevel

            # Each piece would read the whole input again. Spark skips cached blocks by their minimum and maximum
            # event time.
            batch.persist(StorageLevel.DISK_ONLY)
            try:
                yield self._split(batch, number, since, most)
            finally:
                batch.unpersist()

    def _split(
        self, batch: DataFrame, number: int, since: SplitPoint | None, most: int
    ) -> Iterator[SubBatch]:
        """Yields pieces of at most about `most` rows, and at most `_MOST_PIECES` of them."""
        cuts = self._piece_starts(batch, since, most)
        if cuts:
            logger.info(
                f"Model {self._model.name}: micro-batch {number} is too large for the memory of Spark ({most} rows at "
                f"once); it is ingested in {len(cuts) + 1} pieces, in order of event time"
            )
        bounds = [None if since is None else since.at, *cuts, None]
        for start, end in pairwise(bounds):
            is_all = start is None and end is None
            rows = batch if is_all else batch.where(self._is_in_piece(batch, start, end))
            yield SubBatch(rows, None if end is None else SplitPoint(end, self._time_names))

    def _piece_starts(self, batch: DataFrame, since: SplitPoint | None, most: int) -> list[int]:
        """Returns the event times at which the second and later pieces begin."""
        rows = batch if since is None else batch.where(self._is_in_piece(batch, since.at, None))
        shares = ", ".join(str(share / _MOST_PIECES) for share in range(1, _MOST_PIECES))
        time = self._sql_over_streams(
            batch,
            lambda time, _: f"case when {usable_time_condition(time)} then cast({time} as timestamp) end",
        )
        count, first, quantiles = (
            rows.selectExpr(f"unix_micros({time}) as time")
            .selectExpr("count(*)", "min(time)", f"percentile_approx(time, array({shares}), 2000)")
            .collect()[0]
        )
        wanted = min(_MOST_PIECES, -(-count // most))
        if wanted <= 1 or not quantiles:
            return []
        found = (quantiles[max(0, round(_MOST_PIECES * place / wanted) - 1)] for place in range(1, wanted))
        return [time for time in dict.fromkeys(found) if time > first]

    def _is_in_piece(self, batch: DataFrame, start: int | None, end: int | None) -> str:
        """Returns the SQL condition for a piece's rows. The first piece also has the rows without a usable event time."""

        def condition(time: str, is_instant: bool) -> str:
            # Compares a timestamp column directly, so that Spark can skip blocks by its minimum and maximum.
            at = (
                time
                if is_instant
                else f"case when {usable_time_condition(time)} then cast({time} as timestamp) end"
            )
            bounds = [] if start is None else [f"{at} >= timestamp_micros({start}L)"]
            bounds += [] if end is None else [f"{at} < timestamp_micros({end}L)"]
            return " and ".join(bounds) if start is not None else f"({bounds[0]} or {at} is null)"

        return self._sql_over_streams(batch, condition)

    def _sql_over_streams(self, batch: DataFrame, made: Callable[[str, bool], str]) -> str:
        """Returns SQL over the event time of a row of any stream. `made(time, is_instant)` returns the SQL for one stream's
        event time."""
        columns = self._time_columns(batch)
        if len(columns) == 1:
            return made(*columns[0][1:])
        cases = (f"when {view} is not null then {made(time, instant)}" for view, time, instant in columns)
        return f"case {' '.join(cases)} end"

    def _time_columns(self, batch: DataFrame) -> list[tuple[str, str, bool]]:
        """Returns (view, SQL of the event time, whether it is an instant) of each stream; empty if one has no event time."""
        from pyspark.sql.types import StructType, TimestampType

        alone = len(self._inputs) == 1
        found = []
        for each in self._inputs:
            schema: Any = batch.schema if alone else batch.schema[each.view].dataType
            assert isinstance(schema, StructType)
            if (event_time := event_time_column(each, schema)) is None:
                return []
            time, kind = event_time
            time = time if alone else f"{quoted(each.view)}.{time}"
            found.append((quoted(each.view), time, isinstance(kind, TimestampType)))
        return found

    # The number of rows that fit, and the expected number.

    def _rows_that_fit(self, batch: DataFrame) -> int:
        if self._fit is None:
            # With several streams, each one's row is a struct column.
            kinds: list[Any] = (
                [field.dataType for field in batch.schema] if len(self._inputs) > 1 else [batch.schema]
            )
            width = max(len(getattr(kind, "fields", ())) for kind in kinds)
            self._fit = max(_FEWEST, self._memory // (_BYTES_OF_A_ROW + _BYTES_OF_A_VALUE * width))
        return self._fit

    def _countable_rows(self, batch: DataFrame, number: int, ordered: StreamModel) -> int | None:
        """Returns an upper bound of the number of rows; None if it isn't needed, unknown or above `_MANY`."""
        expected = self._expected_rows(batch, number, ordered) if self._counts_rows else 0
        # 0 if the checkpoint doesn't list the sources' offsets.
        return expected if 0 < expected <= _MANY else None

    def _expected_rows(self, batch: DataFrame, number: int, model: StreamModel) -> int:
        """Returns an upper bound of the number of rows, without reading any; 0 if it is unknown."""
        ends = read_offsets(model.storage, model.checkpoint, number)
        starts = read_offsets(model.storage, model.checkpoint, number - 1) if number else []
        if len(ends) != len(model.sources):
            return 0
        if number == 0 and (bootstrap := bootstrapped_from(model)) is not None:
            return IcebergTable(self._spark, bootstrap.table).appended_rows(None, bootstrap.snapshot)
        total = 0
        for place, (source, end) in enumerate(zip(model.sources, ends, strict=True)):
            start = starts[place] if place < len(starts) else None
            if source.is_table:
                total += self._appended_rows(source.location, start, end)
            elif source.format == "kafka":
                total += _message_count(end) - _message_count(start)
            else:
                size = batch._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
                # py4j converts a small BigInt to a Python int.
                total += int(str(size)) // _BYTES_IN_A_FILE
        return total

    def _appended_rows(self, name: str, start: str | None, end: str) -> int:
        """Returns the number of rows appended to a table between two offsets."""
        last = last_snapshot(end)
        if last is None:
            return 0
        if name not in self._tables:
            self._tables[name] = IcebergTable(self._spark, name)
        table = self._tables[name]
        table.refresh()
        return table.appended_rows(last_snapshot(start or ""), last)

    # Attempts at the micro-batch.

    def _failed_attempts(self, number: int) -> int:
        """Returns the number of earlier attempts at a micro-batch that ran out of memory, or may have."""
        if number != self._cut_short:
            return 0
        before = self._model.storage.read_json(self._model.attempt)
        return int(before["tries"]) + 1 if before.get("batch") == number else 1

    @contextmanager
    def _record_attempt(self, number: int, tries: int) -> Iterator[None]:
        """Records in a file that a micro-batch is being ingested, and deletes it at the end."""
        storage, path = self._model.storage, self._model.attempt
        storage.write_text(path, json.dumps({"batch": number, "tries": tries}))
        try:
            yield
        except Exception as problem:
            if out_of_memory_message(exception_text(problem)) is None:
                # Fewer rows at once wouldn't have helped.
                storage.write_text(path, json.dumps({"batch": number, "tries": tries - 1}))
            raise
        storage.delete(path)


def _message_count(offset: str | None) -> int:
    """Returns the number of messages read up to a Kafka offset.

    >>> _message_count('{"bids":{"0":23,"1":19}}'), _message_count(None), _message_count("-")
    (42, 0, 0)
    """
    return sum(sum(partitions.values()) for partitions in (topic_offsets(offset) or {}).values())
