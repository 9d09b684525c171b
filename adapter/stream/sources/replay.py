"""Reads all input that a stream has consumed as one batch, up to exactly the stream's offsets. Unlike the views of
`as_of`, the batch has the stream's columns and types, and exactly the files that were read from a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import unquote

from ...query.program import StreamInput
from ...sources.file_options import is_pattern, with_checked_header
from ...sources.limits import without_limits
from ...sources.unreadable import Records
from ...util.text import counted, verb_form
from ..common.errors import StreamError
from ..common.identifiers import parts
from ..common.model import StreamModel, StreamSource
from ..common.session import jvm
from ..iceberg.table import APPEND, REPLACE, IcebergTable
from ..storage.checkpoint import files_until, last_snapshot, read_offsets, topic_offsets
from ..storage.source_order import in_checkpoint_order
from .as_of import fully_read, source_table
from .initial_offset import bootstrapped_from
from .readers import rows_of_messages, rows_of_stream, schema_of_files, union_of_streams
from .records import read_files, records_of
from .upstream import FROM_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TOPIC_OPTIONS = ("subscribe", "subscribepattern", "assign")
"""Options that select topics."""


_Offsets: TypeAlias = Mapping[str, Mapping[str, int]]
"""Topic → partition → offset."""


class _Messages(NamedTuple):
    """Offsets between which messages were read."""

    first: _Offsets
    end: _Offsets


@dataclass(frozen=True)
class _Read:
    """The input that was read of a source: a table up to a snapshot, files or messages."""

    source: StreamSource
    stream: StreamInput
    table: IcebergTable | None = None
    snapshot: int | None = None
    files: tuple[str, ...] = ()
    messages: _Messages | None = None


@dataclass(frozen=True)
class History:
    """The input that a stream has read up to a micro-batch."""

    model: StreamModel
    """The model, its sources in the order of the checkpoint."""
    inputs: tuple[StreamInput, ...]
    sources: tuple[_Read, ...]
    unsure: tuple[str, ...]
    """Reasons why the input may differ from what was read, as clauses of a sentence."""

    @property
    def has_messages(self) -> bool:
        """Whether some of the input is in Kafka, where it is unknown until it is read."""
        return any(each.messages is not None for each in self.sources)

    @property
    def size_text(self) -> str:
        """Amount of input, in words. Reads no data."""
        sizes = []
        for each in self.sources:
            of = each.source.name or ".".join(parts(each.source.relation)[-2:])
            kind = "message" if each.messages is not None else "row"
            what = (
                counted(len(each.files), "file") if each.source.is_files else counted(_row_count(each), kind)
            )
            sizes.append(f"{what} of {of}")
        return " and ".join(sizes)

    @property
    def count(self) -> int | None:
        """Number of rows; None if it is unknown before they are read."""
        if any(each.source.is_files for each in self.sources):
            return None
        return sum(map(_row_count, self.sources))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Returns the rows, as a micro-batch of the model's stream."""
        read = ((each.stream, _rows_read(spark, self.model, each)) for each in self.sources)
        return union_of_streams(
            [(stream.view, rows_of_stream(stream, *rows, counted=False)) for stream, rows in read]
        )


def history(spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput], batch: int) -> History:
    """Returns the input that a stream has read up to the end of a micro-batch. Reads only metadata."""
    if bootstrapped_from(model) is not None:
        raise StreamError(
            f"Model {model.name}: it began with the rows of another table (`dbt-stream state bootstrap`), which its sources "
            "don't have."
        )
    order = in_checkpoint_order(model, inputs)
    offsets = read_offsets(model.storage, model.checkpoint, batch)
    if len(offsets) != len(order.model.sources):
        raise StreamError(
            f"Model {model.name}: its checkpoint {model.checkpoint} doesn't say how far micro-batch {batch} has read."
        )
    found, unsure = [], []
    read = zip(order.model.sources, order.inputs, offsets, strict=True)
    for place, (source, stream, offset) in enumerate(read):
        if stream.feed:
            raise StreamError(
                f"Model {model.name}: rows of its source {source.relation} change, and only their present values are known."
            )
        if source.is_table:
            found.append(_read_of_table(spark, model, source, stream, offset))
            table, at = found[-1].table, found[-1].snapshot
            past = table.lineage_of(at) if table is not None and at is not None else ()
            if {each.operation for each in past} - {APPEND, REPLACE}:
                unsure.append(
                    f"rows of its source {source.relation} were changed or deleted by another writer"
                )
        elif source.is_files:
            files = files_until(model.storage, model.checkpoint, place, offset)
            found.append(_read_of_files(spark, model, source, stream, files))
        else:
            found.append(_read_of_topics(model, source, stream, place, offset))
            unsure.append(
                f"messages of its source {source.relation} may be gone, as where a topic is compacted"
            )
    return History(order.model, order.inputs, tuple(found), tuple(unsure))


def _row_count(read: _Read) -> int:
    """Returns the number of rows, or an upper bound of the number of messages."""
    if read.messages is not None:
        first, end = read.messages
        return sum(last - first[topic][each] for topic in end for each, last in end[topic].items())
    return 0 if read.table is None or read.snapshot is None else read.table.appended_rows(None, read.snapshot)


def _read_of_table(
    spark: SparkSession, model: StreamModel, source: StreamSource, stream: StreamInput, offset: str
) -> _Read:
    if source.option(FROM_TIMESTAMP) is not None:
        raise StreamError(
            f"Model {model.name}: its source {source.relation} is read from a time on ({FROM_TIMESTAMP}), and its rows "
            "don't show which of them came after it."
        )
    table = source_table(spark, model, source.location)
    # If nothing of the table was read, all its rows are still to come.
    at = None if last_snapshot(offset) is None else fully_read(model, source, table, offset)
    return _Read(source, stream, table, at)


def _read_of_files(
    spark: SparkSession, model: StreamModel, source: StreamSource, stream: StreamInput, read: set[str]
) -> _Read:
    files = sorted(map(unquote, read))
    globs = [each for each in files if is_pattern(each)]
    if globs:
        raise StreamError(
            f"Model {model.name}: Spark takes the name of the file {globs[0]} for a pattern, so it can't be read on its own."
        )
    path_of = jvm(spark).org.apache.hadoop.fs.Path
    system = path_of(source.location).getFileSystem(spark._jsc.hadoopConfiguration())
    gone = [each for each in files if not system.exists(path_of(each))]
    if gone:
        raise StreamError(
            f"Model {model.name}: {counted(len(gone), 'file')} that it has read of {source.relation} "
            f"{verb_form(len(gone), 'is', 'are')} gone, as {gone[0]}."
        )
    return _Read(source, stream, files=tuple(files))


def _read_of_topics(
    model: StreamModel, source: StreamSource, stream: StreamInput, place: int, offset: str
) -> _Read:
    if source.option_is("failOnDataLoss", "false"):
        raise StreamError(
            f"Model {model.name}: messages of its source {source.relation} may have been gone before they were read "
            "(failOnDataLoss is false)."
        )
    began = model.storage.read_text(f"{model.checkpoint}/sources/{place}/0")
    if began is None:
        raise StreamError(
            f"Model {model.name}: its checkpoint {model.checkpoint} doesn't say from where it has read {source.relation}."
        )
    end, begin = topic_offsets(offset) or {}, topic_offsets(began[began.index("{") :]) or {}
    # A later partition is read from its beginning.
    first = {topic: {each: begin.get(topic, {}).get(each, 0) for each in end[topic]} for topic in end}
    return _Read(source, stream, messages=_Messages(first, end))


def _rows_read(spark: SparkSession, model: StreamModel, read: _Read) -> tuple[DataFrame, Records | None]:
    source = read.source
    if read.table is not None:
        none = f"{read.table.name} where false"
        rows = f"select * from {none if read.snapshot is None else read.table.snapshot_sql(read.snapshot)}"
        return spark.sql(rows), None
    if read.messages is not None:
        partitions = {topic: sorted(map(int, each)) for topic, each in read.messages.end.items()}
        first, end = json.dumps(read.messages.first), json.dumps(read.messages.end)
        options = {
            name: value
            for name, value in without_limits(source.options).items()
            if name.lower() not in _TOPIC_OPTIONS and not name.lower().startswith(("starting", "ending"))
        } | {"assign": json.dumps(partitions), "startingOffsets": first, "endingOffsets": end}
        return rows_of_messages(source, spark.read.format("kafka").options(**options).load())
    schema = schema_of_files(spark, model, source)

    def reading(format: str, options: Mapping[str, str], schema: StructType | str) -> DataFrame:
        if not read.files:
            nothing = spark.readStream.format(format).schema(schema).load(source.location)
            return spark.createDataFrame([], nothing.schema)
        reader = spark.read.format(format).options(**without_limits(with_checked_header(format, options)))
        if not is_pattern(source.location):
            # Folder names give columns, as in the stream; but not with patterns.
            reader = reader.option("basePath", source.location)
        return reader.schema(schema).load([*read.files])

    return read_files(reading, records_of(spark, source, schema), source, schema)
