"""From sources to one streaming DataFrame, and from its micro-batches to one view per stream.

A model with several streams still is one streaming query, so that one checkpoint and one batch
number cover all of them: their rows travel as structs, one column per stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...query.program import StreamInput
from ...query.sql.instants import converted
from ...sources.file_options import is_pattern, named_like_a_pattern, with_checked_header
from ...sources.limits import without_limits
from ...sources.messages import advice
from ...sources.unreadable import DROPPED, UNREADABLE, Records
from ...util.quoting import is_path, path_of, quote_time, shown_time
from ...util.quoting import quote as quoted
from ...util.types import type_text
from ..common.errors import StreamError
from ..common.model import StreamModel, StreamSource
from ..common.session import jvm
from ..evolution.output_schema import fits
from ..iceberg.table import IcebergTable
from .file_names import check_folder
from .initial_offset import SnapshotRead, reading_options
from .records import read_files, read_messages, records_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

_TABLE_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_ANY_AGE = "100000d"
"""How much older than the newest one that was read a file may be. Spark passes over those that are a week older, without a
word; to know which ones are read it needs no age, for its log in the checkpoint has all of them."""


def read_streams(spark: SparkSession, model: StreamModel, inputs: tuple[StreamInput, ...]) -> DataFrame:
    """All streams of a model as one: the columns of the stream where there is one stream, else a
    column of structs per stream, named as its view.

    Raises:
        StreamError: a source that isn't there or can't be read as a stream, or an event time that
            isn't a time.
    """
    sources = {source.relation: source for source in model.sources}
    return as_one([(each.view, _read(spark, model, sources, each)) for each in inputs])


def as_one(streams: Sequence[tuple[str, DataFrame]]) -> DataFrame:
    """The rows of streams, each with the name of its view, as one."""
    from pyspark.sql import functions as F

    if len(streams) == 1:
        return streams[0][1]
    structs = [stream.select(F.struct(*map(quoted, stream.columns)).alias(view)) for view, stream in streams]
    united = structs[0]
    for struct in structs[1:]:
        united = united.unionByName(struct, allowMissingColumns=True)
    return united


def as_a_whole(
    batch: DataFrame, model: StreamModel, inputs: tuple[StreamInput, ...], tables: Mapping[str, SnapshotRead]
) -> DataFrame:
    """A micro-batch in which some streams have the rows of their tables at a snapshot.

    Args:
        batch: the micro-batch.
        model: whose sources they are.
        inputs: the model's streams.
        tables: by `StreamInput.relation`.
    """
    from pyspark.sql import functions as F

    read = {}
    for each in inputs:
        if each.relation in tables:
            spark, (name, at, _) = batch.sparkSession, tables[each.relation]
            table = IcebergTable(spark, name)
            columns = table.columns_of(at)
            read[each.view] = wanted(
                each, spark.sql(f"select {columns} from {table.name} version as of {at}")
            )
    if len(inputs) == 1:
        if not read:
            return batch
        rows = as_stream(batch.schema, read[inputs[0].view], model, tables[inputs[0].relation].table)
        return rows.unionByName(batch) if tables[inputs[0].relation].beside else rows
    for view, rows in read.items():
        struct = F.struct(*map(quoted, rows.columns)).alias(view)
        others = batch.where(batch[view].isNull())
        batch = others.unionByName(rows.select(struct), allowMissingColumns=True)
    return batch


def as_stream(schema: StructType, rows: DataFrame, model: StreamModel, name: str) -> DataFrame:
    """Rows of another table than the stream's, with its columns.

    Args:
        schema: the stream's.
        rows: the table's.
        model: whose stream it is.
        name: the table's.

    Raises:
        StreamError: they have others.
    """
    has = {field.name.lower(): field for field in rows.schema.fields}
    columns = []
    for wanted in schema.fields:
        if wanted.name in (UNREADABLE, DROPPED):
            columns.append(f"cast(null as {type_text(wanted.dataType)}) as {wanted.name}")
            continue
        found = has.get(wanted.name.lower())
        kind, given = type_text(wanted.dataType), None if found is None else type_text(found.dataType)
        if found is None or given is None or not fits(given.lower(), kind.lower()):
            what = "has no such column" if given is None else f"has it as {given.upper()}"
            raise StreamError(
                f"Model {model.name}: its stream has {wanted.name} as {kind.upper()}, and {name}, with whose rows it is to "
                f"begin, {what}."
            )
        columns.append(f"cast({quoted(found.name)} as {kind}) as {quoted(wanted.name)}")
    return rows.selectExpr(*columns)


def split(batch: DataFrame, inputs: tuple[StreamInput, ...]) -> dict[str, DataFrame]:
    """The rows of each stream of a micro-batch, by view."""
    if len(inputs) == 1:
        return {inputs[0].view: batch}
    return {
        each.view: batch.where(batch[each.view].isNotNull()).select(f"{quoted(each.view)}.*")
        for each in inputs
    }


def _read(
    spark: SparkSession, model: StreamModel, sources: Mapping[str, StreamSource], stream: StreamInput
) -> DataFrame:
    source = sources.get(stream.relation)
    if source is None:
        raise StreamError(f"Model {model.name}: there is no source for its stream {stream.relation}.")
    read = _read_table if source.is_table else _read_files if source.is_files else _read_kafka
    found, records = read(spark, model, source)
    if stream.event_time is not None and stream.needs_time:
        _check_event_time(model, stream, found)
    return as_rows(stream, found, records, counted=True)


def as_rows(stream: StreamInput, found: DataFrame, records: Records | None, counted: bool) -> DataFrame:
    """What is read of a stream.

    Args:
        stream: the stream.
        found: the rows, or the records, of its source.
        records: how these become rows; None: they are rows.
        counted: as of `rows_of`.
    """
    if records is None:
        return wanted(stream, found)
    return rows_of(found, records, _wanted(stream, records.names), counted)


def wanted(stream: StreamInput, rows: DataFrame) -> DataFrame:
    """The columns that are read of a stream."""
    columns = _wanted(stream, rows.columns)
    return rows if columns is None else rows.select(*map(quoted, columns))


def _wanted(stream: StreamInput, columns: Sequence[str]) -> Sequence[str] | None:
    """Which columns of its source are read of a stream; None: all."""
    if stream.columns is None:
        return None
    wanted = {name.lower() for name in stream.columns}
    # `count(*)` reads no column, yet a row needs one.
    return [name for name in columns if name.lower() in wanted] or columns[:1]


def _read_table(spark: SparkSession, model: StreamModel, source: StreamSource) -> tuple[DataFrame, None]:
    from pyspark.errors import AnalysisException

    try:
        spark.table(source.location)  # also finds a view, which the catalog doesn't count among tables
    except AnalysisException as problem:
        raise StreamError(
            f"Model {model.name}: its stream {source.relation} is the table {source.location}, which doesn't "
            "exist."
        ) from problem
    try:
        rows = spark.readStream.options(**reading_options(spark, model, source)).table(source.location)
        if not rows.isStreaming:
            raise StreamError(
                f"Model {model.name}: {source.location} can't be read as a stream: it is a view. Streams are "
                "Iceberg tables and folders of files; write the view's query as a CTE of the model."
            )
        return rows, None
    except AnalysisException as problem:
        raise StreamError(
            f"Model {model.name}: {source.location} can't be read as a stream "
            f"({_first_line(problem)}). Streams are Iceberg tables and folders of files."
        ) from problem


def _read_files(
    spark: SparkSession, model: StreamModel, source: StreamSource
) -> tuple[DataFrame, Records | None]:
    folder = jvm(spark).org.apache.hadoop.fs.Path(source.location)
    files = folder.getFileSystem(spark._jsc.hadoopConfiguration())
    if is_pattern(source.location) and files.exists(folder):
        raise StreamError(
            f"Model {model.name}: of its stream {source.relation}, {named_like_a_pattern(source.location)}"
        )
    if not is_pattern(source.location) and not files.exists(folder):
        raise StreamError(
            f"Model {model.name}: the folder {source.location} of its stream {source.relation} doesn't exist."
        )
    for log, kind in _TABLE_LOGS.items():
        if not is_pattern(source.location) and files.exists(
            jvm(spark).org.apache.hadoop.fs.Path(folder, log)
        ):
            raise StreamError(
                f"Model {model.name}: the folder {source.location} of its stream {source.relation} is a {kind} table, for "
                f"it has {log}, which says which of the files hold rows. Read as files, rows would come that were deleted "
                f"or replaced. {kind} tables aren't read as streams: have an incremental model copy the rows that come to "
                "an Iceberg table, and read that."
            )
    check_folder(spark, model, source, model.sources.index(source))

    def read(options: Mapping[str, str], schema: StructType | str) -> DataFrame:
        if "maxfileage" not in {name.lower() for name in options}:
            options = {**options, "maxFileAge": _ANY_AGE}
        return (
            spark.readStream.format(source.format)
            .options(**with_checked_header(source.format, options))
            .schema(schema)
            .load(source.location)
        )

    schema = schema_of_files(spark, model, source)
    return read_files(read, records_of(spark, source, schema), source, schema)


def schema_of_files(spark: SparkSession, model: StreamModel, source: StreamSource) -> StructType | str:
    """The columns of a folder's files: those that the source says, or else those that the files have.

    Raises:
        StreamError: nothing says them.
    """
    from pyspark.errors import AnalysisException

    if source.schema is not None:
        return source.schema
    reader = spark.read.format(source.format).options(**without_limits(source.options))
    try:
        return reader.load(source.location).schema
    except AnalysisException as problem:
        raise StreamError(
            f"Model {model.name}: the columns of its stream {source.relation} can't be found from the files "
            f"in {source.location} ({_first_line(problem)}). Say them as 'schema' in the source's "
            "config.meta.stream."
        ) from problem


def _read_kafka(
    spark: SparkSession, model: StreamModel, source: StreamSource
) -> tuple[DataFrame, Records | None]:
    from pyspark.errors import AnalysisException

    begins = any(name.lower().startswith("starting") for name in source.options)
    # Spark's own default is to begin with what comes next; a model's table has history, as with other sources.
    options = source.options if begins else {**source.options, "startingOffsets": "earliest"}
    try:
        rows = spark.readStream.format("kafka").options(**options).load()
    except AnalysisException as problem:
        raise StreamError(
            f"Model {model.name}: its stream {source.relation} can't be read from Kafka: {advice(_first_line(problem))}."
        ) from problem
    return of_messages(source, rows)


def of_messages(source: StreamSource, messages: DataFrame) -> tuple[DataFrame, Records | None]:
    """The records that are in Kafka's messages, and how they become rows; the messages themselves where the source doesn't
    say what is in them."""
    if source.schema is None:
        return messages, None
    records = records_of(messages.sparkSession, source, source.schema)
    assert records is not None
    return read_messages(messages, records), records


def _check_event_time(model: StreamModel, stream: StreamInput, rows: DataFrame) -> None:
    name = shown_time(stream.event_time or "")
    found = _field(stream, rows.schema)
    if found is None:
        raise StreamError(
            f"Model {model.name}: its stream {stream.relation} has no column {name}, which is "
            f"to be its event time. It has {', '.join(name for name in rows.columns if not name.startswith('__'))}."
        )
    if not is_time(found.dataType):
        kind = found.dataType.simpleString()
        raise StreamError(
            f"Model {model.name}: the event time {name} of its stream {stream.relation} is a {kind.upper()} and must "
            "be a TIMESTAMP, for this query needs the time of its rows. Give the column that type in the source's schema or "
            f"read a model that converts it and has the new column as its config event_time: {converted(kind, name)}."
        )


def time_of(stream: StreamInput, schema: StructType) -> tuple[str, DataType] | None:
    """Returns SQL of the event time among the columns of a stream, and its type; None if it has none, or one that is no
    time."""
    found = _field(stream, schema)
    if found is None or not is_time(found.dataType):
        return None
    return quote_time(stream.event_time or ""), found.dataType


def _field(stream: StreamInput, schema: StructType) -> StructField | None:
    """Returns the column with the event time of a stream, or the field of one; None if there is none."""
    from pyspark.sql.types import StructType

    time = stream.event_time or ""
    kind: DataType = schema
    found: StructField | None = None
    for name in path_of(time) if is_path(time) else (time,):
        fields = kind.fields if isinstance(kind, StructType) else []
        found = next((field for field in fields if field.name.lower() == name.lower()), None)
        if found is None:
            return None
        kind = found.dataType
    return found


def is_time(kind: DataType) -> bool:
    """Whether a column of this type can be an event time."""
    from pyspark.sql.types import TimestampNTZType, TimestampType

    return isinstance(kind, TimestampType | TimestampNTZType)


def _first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0]
