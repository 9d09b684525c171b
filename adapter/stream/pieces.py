"""A micro-batch that is too large for the memory is cut into pieces, in order of event time.

Each piece is a step of its own, as if it were a micro-batch: its rows are all older than those of the next, so none of
them is late for being cut off, windows close piece by piece, and the state stays small. How far it has come is in the
position (`Position.cut`), so a run that was ended goes on with the next piece.

How many rows fit is guessed from the memory of Spark's driver. A note of what is being taken in outlives a JVM that dies
of it: the next run takes half as many at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from .checkpoint import last_snapshot, read_offsets
from .iceberg import IcebergTable
from .session import driver_memory
from .source_order import in_first_order
from .sources import is_time
from .writing import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..query.program import StreamInput
    from .model import StreamModel

logger = AdapterLogger("Spark")

_BYTES_OF_A_ROW, _BYTES_OF_A_VALUE = 256, 64
"""Of the driver's memory: a row in hash tables, sorts and exchanges, several at a time."""
_BYTES_IN_A_FILE = 8
"""At least, of a row: Parquet is dense."""
_FEWEST = 50_000
_MOST_PIECES = 100


@dataclass(frozen=True)
class Piece:
    """Rows of a micro-batch."""

    rows: DataFrame
    until: int | None
    """The event time, in microseconds since 1970, at which the next piece begins; None: it is the last."""


class Cutter:
    """Cuts the micro-batches of a model where they are too large.

    Args:
        spark: the project's session.
        model: the model.
        inputs: its streams.
        stateful: whether a micro-batch has a state; rows that are only passed on need no memory.
    """

    def __init__(
        self, spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput], stateful: bool
    ) -> None:
        self._spark, self._model, self._inputs = spark, model, inputs
        # What changes a row is in a feed in order of its micro-batches, not of event time.
        self._cuts = stateful and all(each.event_time is not None and not each.feed for each in inputs)
        self._fit: int | None = None
        self._ordered: StreamModel | None = None
        self._tables: dict[str, IcebergTable] = {}
        self._memory = driver_memory(spark)

    @contextmanager
    def pieces(self, batch: DataFrame, number: int, since: int | None) -> Iterator[Iterator[Piece]]:
        """The pieces of a micro-batch, one after the other: all of it as one, if it isn't large.

        Args:
            batch: its rows.
            number: which micro-batch it is.
            since: the event time at which those begin that are not in yet; None: none is.
        """
        if not self._cuts or (since is None and self._expected(batch, number) <= self._most_rows(batch)):
            yield iter([Piece(batch, None)])
            return
        from pyspark import StorageLevel

        with self._noted(number) as tries:
            most = max(_FEWEST, self._most_rows(batch) >> tries)
            # Each piece would read the whole input again; what is kept is passed over by its least and greatest time.
            batch.persist(StorageLevel.DISK_ONLY)
            try:
                cuts = self._cuts_of(batch, most, since)
                if cuts:
                    logger.info(
                        f"Model {self._model.name}: micro-batch {number} is too large for the memory of Spark "
                        f"({most} rows at once); it is taken in in {len(cuts) + 1} pieces, in order of event time"
                    )
                yield self._cut(batch, since, cuts)
            finally:
                batch.unpersist()

    def _cut(self, batch: DataFrame, since: int | None, cuts: Sequence[int]) -> Iterator[Piece]:
        bounds = [since, *cuts, None]
        for start, end in pairwise(bounds):
            if start is None and end is None:
                yield Piece(batch, None)
            else:
                yield Piece(batch.where(self._between(batch, start, end)), end)

    def _cuts_of(self, batch: DataFrame, most: int, since: int | None) -> list[int]:
        """The event times at which pieces of about so many rows begin."""
        rows = batch if since is None else batch.where(self._between(batch, since, None))
        shares = ", ".join(str(share / _MOST_PIECES) for share in range(1, _MOST_PIECES))
        times = rows.selectExpr(f"unix_micros(cast({self._time(batch)} as timestamp)) as time")
        count, quantiles = times.selectExpr(
            "count(*)", f"percentile_approx(time, array({shares}), 2000)"
        ).collect()[0]
        pieces = min(_MOST_PIECES, -(-count // most))
        if pieces <= 1 or not quantiles:
            return []
        found = (quantiles[max(0, round(_MOST_PIECES * place / pieces) - 1)] for place in range(1, pieces))
        return [time for time in dict.fromkeys(found) if since is None or time > since]

    def _time(self, batch: DataFrame) -> str:
        """The event time of a row of the batch."""
        columns = self._columns(batch)
        if len(columns) == 1:
            return columns[0][1]
        cases = " ".join(
            f"when {view} is not null then cast({time} as timestamp)" for view, time, _ in columns
        )
        return f"case {cases} end"

    def _between(self, batch: DataFrame, start: int | None, end: int | None) -> str:
        """Which rows are of a piece. The first has those without a time, too."""

        def condition(time: str, plain: bool) -> str:
            compared = time if plain else f"cast({time} as timestamp)"
            parts = [] if start is None else [f"{compared} >= timestamp_micros({start}L)"]
            parts += [] if end is None else [f"{compared} < timestamp_micros({end}L)"]
            return " and ".join(parts) if start is not None else f"({parts[0]} or {time} is null)"

        columns = self._columns(batch)
        if len(columns) == 1:
            return condition(*columns[0][1:])
        cases = " ".join(
            f"when {view} is not null then {condition(time, plain)}" for view, time, plain in columns
        )
        return f"case {cases} end"

    def _columns(self, batch: DataFrame) -> list[tuple[str, str, bool]]:
        """Of each stream its view, its event time, and whether that is an instant."""
        from pyspark.sql.types import StructType, TimestampType

        alone = len(self._inputs) == 1
        found = []
        for each in self._inputs:
            schema: Any = batch.schema if alone else batch.schema[each.view].dataType
            assert isinstance(schema, StructType)
            name = str(each.event_time).lower()
            field = next(field for field in schema.fields if field.name.lower() == name)
            assert is_time(field.dataType)
            time = quoted(field.name) if alone else f"{quoted(each.view)}.{quoted(field.name)}"
            found.append((quoted(each.view), time, isinstance(field.dataType, TimestampType)))
        return found

    # How many rows fit, and how many are to be expected.

    def _most_rows(self, batch: DataFrame) -> int:
        if self._fit is None:
            # Of several streams each row is a struct of its own.
            kinds = (
                [field.dataType for field in batch.schema.fields] if len(self._inputs) > 1 else [batch.schema]
            )
            width = max(len(getattr(kind, "fields", ())) for kind in kinds)
            self._fit = max(_FEWEST, self._memory // (_BYTES_OF_A_ROW + _BYTES_OF_A_VALUE * width))
        return self._fit

    def _expected(self, batch: DataFrame, number: int) -> int:
        """At most so many rows, told without reading one."""
        if self._ordered is None:
            self._ordered, _ = in_first_order(self._model, self._inputs)
        model = self._ordered
        ends = read_offsets(model.storage, model.checkpoint, number)
        starts = read_offsets(model.storage, model.checkpoint, number - 1) if number else []
        if len(ends) != len(model.sources):
            return 0
        total = 0
        for place, (source, end) in enumerate(zip(model.sources, ends, strict=True)):
            start = starts[place] if place < len(starts) else None
            if source.is_table:
                total += self._appended(source.location, start, end)
            elif source.format == "kafka":
                total += _messages(end) - _messages(start)
            else:
                size = batch._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
                total += int(size.toString()) // _BYTES_IN_A_FILE
        return total

    def _appended(self, name: str, start: str | None, end: str) -> int:
        """Rows that were added to a table between two offsets."""
        last = last_snapshot(end)
        if last is None:
            return 0
        if name not in self._tables:
            self._tables[name] = IcebergTable(self._spark, name)
        table = self._tables[name]
        table.refresh()
        return table.appended(last_snapshot(start or ""), last)

    # What is being taken in.

    @contextmanager
    def _noted(self, number: int) -> Iterator[int]:
        """Note that a micro-batch is being taken in; how often that was begun before, and not ended."""
        storage, path = self._model.storage, self._model.attempt
        before = json.loads(storage.read_text(path) or "{}")
        tries = before["tries"] + 1 if before.get("batch") == number else 0
        storage.write_text(path, json.dumps({"batch": number, "tries": tries}))
        yield tries
        storage.delete(path)


def _messages(offset: str | None) -> int:
    """How many messages of its topics were read, up to an offset of Kafka's.

    >>> _messages('{"bids":{"0":23,"1":19}}'), _messages(None), _messages("-")
    (42, 0, 0)
    """
    try:
        topics = json.loads(offset or "{}")
    except ValueError:
        return 0
    return sum(read for partitions in topics.values() for read in partitions.values())
