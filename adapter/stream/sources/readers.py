"""Reads sources as one streaming DataFrame, and splits its micro-batches into one view per stream.

A model with several streams is still one streaming query, so that one checkpoint and one batch number cover all of
them. Their rows are structs, in one column per stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...query.program import StreamInput
from ...query.sql.instants import conversion_text
from ...sources.file_options import is_pattern, pattern_like_folder_message, with_checked_header
from ...sources.limits import without_limits
from ...sources.messages import connector_advice
from ...sources.unreadable import DROPPED, UNREADABLE, Records
from ...util.quoting import is_path, quote_time, split_path, time_name_text
from ...util.quoting import quote as quoted
from ...util.types import type_text
from ..common.errors import StreamError, TransientError
from ..common.model import StreamModel, StreamSource
from ..common.session import jvm
from ..common.table_rows import converted_value
from ..evolution.output_schema import can_hold
from ..iceberg.table import IcebergTable
from .file_names import check_folder
from .initial_offset import SnapshotRead, reading_options
from .records import columns_of, read_files, records_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

_TABLE_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_ANY_AGE = "100000d"
"""`maxFileAge` that admits every file. By default Spark silently skips files that are a week older than the newest one."""


def read_streams(spark: SparkSession, model: StreamModel, inputs: tuple[StreamInput, ...]) -> DataFrame:
    """Reads all streams of a model as one: the columns of the stream if there is only one, else a struct column per
    stream, named after its view.

    Raises:
        StreamError: a source doesn't exist or can't be read as a stream, or an event time isn't a timestamp.
    """
    sources = {source.relation: source for source in model.sources}
    return union_of_streams([(each.view, _read_source(spark, model, sources, each)) for each in inputs])


def union_of_streams(streams: Sequence[tuple[str, DataFrame]]) -> DataFrame:
    """Unions streams, given with the names of their views, into one DataFrame."""
    from pyspark.sql import functions as F

    if len(streams) == 1:
        return streams[0][1]
    structs = [stream.select(F.struct(*map(quoted, stream.columns)).alias(view)) for view, stream in streams]
    united = structs[0]
    for struct in structs[1:]:
        united = united.unionByName(struct, allowMissingColumns=True)
    return united


def with_rows_of_tables(
    batch: DataFrame, model: StreamModel, inputs: tuple[StreamInput, ...], tables: Mapping[str, SnapshotRead]
) -> DataFrame:
    """Replaces the rows of some streams in a micro-batch by those of their tables at a snapshot."""
    from pyspark.sql import functions as F

    read = {}
    for each in inputs:
        if each.relation in tables:
            spark, (name, at, _) = batch.sparkSession, tables[each.relation]
            table = IcebergTable(spark, name)
            rows = spark.sql(f"select {table.snapshot_select_list(at)} from {table.name} version as of {at}")
            read[each.view] = select_read_columns(each, rows)
    if len(inputs) == 1:
        if not read:
            return batch
        rows = rows_with_schema(batch.schema, read[inputs[0].view], model, tables[inputs[0].relation].table)
        return rows.unionByName(batch) if tables[inputs[0].relation].beside else rows
    for view, rows in read.items():
        struct = F.struct(*map(quoted, rows.columns)).alias(view)
        others = batch.where(batch[view].isNull())
        batch = others.unionByName(rows.select(struct), allowMissingColumns=True)
    return batch


def rows_with_schema(schema: StructType, rows: DataFrame, model: StreamModel, name: str) -> DataFrame:
    """Returns rows of the table `name` with the columns of a stream. Raises if it lacks one, or has one that doesn't fit."""
    has = {field.name.lower(): field for field in rows.schema.fields}
    columns = []
    for wanted in schema.fields:
        found = has.get(wanted.name.lower()) if wanted.name not in (UNREADABLE, DROPPED) else None
        columns.append(converted_value(found, wanted))
        if wanted.name in (UNREADABLE, DROPPED):
            continue
        kind, given = type_text(wanted.dataType), None if found is None else type_text(found.dataType)
        if given is None or not can_hold(given.lower(), kind.lower()):
            what = "has no such column" if given is None else f"has it as {given.upper()}"
            raise StreamError(
                f"Model {model.name}: its stream has {wanted.name} as {kind.upper()}, and {name}, whose rows it is to begin "
                f"with, {what}."
            )
    return rows.selectExpr(*columns)


def split_by_view(batch: DataFrame, inputs: tuple[StreamInput, ...]) -> dict[str, DataFrame]:
    """Splits a micro-batch into view → rows of a stream."""
    if len(inputs) == 1:
        return {inputs[0].view: batch}
    return {
        each.view: batch.where(batch[each.view].isNotNull()).select(f"{quoted(each.view)}.*")
        for each in inputs
    }


def _read_source(
    spark: SparkSession, model: StreamModel, sources: Mapping[str, StreamSource], stream: StreamInput
) -> DataFrame:
    source = sources.get(stream.relation)
    if source is None:
        raise StreamError(f"Model {model.name}: there is no source for its stream {stream.relation}.")
    read = _read_table if source.is_table else _read_files if source.is_files else _read_kafka
    found, records = read(spark, model, source)
    if stream.event_time is not None and stream.needs_time:
        _check_event_time(model, stream, columns_of(found, records))
    return rows_of_stream(stream, found, records, counted=True)


def rows_of_stream(
    stream: StreamInput, found: DataFrame, records: Records | None, counted: bool
) -> DataFrame:
    """Returns the rows of a stream. `counted`: whether to keep the columns with unreadable values, as in `rows_of`."""
    if records is None:
        return select_read_columns(stream, found)
    return rows_of(found, records, _columns_read(stream, records.names), counted)


def select_read_columns(stream: StreamInput, rows: DataFrame) -> DataFrame:
    """Selects the columns that the query reads of a stream."""
    columns = _columns_read(stream, rows.columns)
    return rows if columns is None else rows.select(*map(quoted, columns))


def _columns_read(stream: StreamInput, columns: Sequence[str]) -> Sequence[str] | None:
    """Returns the source columns that the query reads of a stream; None for all."""
    if stream.columns is None:
        return None
    wanted = {name.lower() for name in stream.columns}
    # `count(*)` reads no column, but a row needs one.
    return [name for name in columns if name.lower() in wanted] or columns[:1]


def _read_table(spark: SparkSession, model: StreamModel, source: StreamSource) -> tuple[DataFrame, None]:
    from pyspark.errors import AnalysisException

    try:
        spark.table(source.location)  # also finds a view, which the catalog doesn't list among tables
    except AnalysisException as problem:
        raise StreamError(
            f"Model {model.name}: its stream {source.relation} is the table {source.location}, which doesn't exist."
        ) from problem
    try:
        rows = spark.readStream.options(**reading_options(spark, model, source)).table(source.location)
        if not rows.isStreaming:
            raise StreamError(
                f"Model {model.name}: {source.location} can't be read as a stream: it is a view. Streams are "
                "Iceberg tables and folders of files. Materialize that model as ephemeral, with stream() around what it "
                "reads and a plain ref() here; or write its query as a CTE of this one."
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
    has_pattern, is_there = is_pattern(source.location), files.exists(folder)
    if has_pattern and is_there:
        raise StreamError(
            f"Model {model.name}: of its stream {source.relation}, {pattern_like_folder_message(source.location)}"
        )
    if not has_pattern and not is_there:
        # It was there when the model was prepared.
        raise TransientError(
            f"Model {model.name}: the folder {source.location} of its stream {source.relation} doesn't exist."
        )
    if not has_pattern and files.getFileStatus(folder).isFile():
        raise StreamError(
            f"Model {model.name}: {source.location}, the 'path' of its stream {source.relation}, is a file, and a stream "
            "reads a folder. Name the folder, or a pattern such as *.json, in the source's options."
        )
    for log, kind in _TABLE_LOGS.items():
        if not has_pattern and files.exists(jvm(spark).org.apache.hadoop.fs.Path(folder, log)):
            raise StreamError(
                f"Model {model.name}: the folder {source.location} of its stream {source.relation} is a {kind} table, for "
                f"it has {log}, which says which of the files hold rows. Read as files, it would give deleted and replaced "
                f"rows. {kind} tables aren't read as streams: have an incremental model copy new rows to "
                "an Iceberg table, and read that."
            )
    check_folder(spark, model, source, model.sources.index(source))

    def read(format: str, options: Mapping[str, str], schema: StructType | str) -> DataFrame:
        if "maxfileage" not in {name.lower() for name in options}:
            options = {**options, "maxFileAge": _ANY_AGE}
        reader = spark.readStream.format(format).options(**with_checked_header(format, options))
        return reader.schema(schema).load(source.location)

    schema = schema_of_files(spark, model, source)
    return read_files(read, records_of(spark, source, schema), source, schema)


def schema_of_files(spark: SparkSession, model: StreamModel, source: StreamSource) -> StructType | str:
    """Returns the declared columns of a folder's files, or else those that Spark infers. Raises `StreamError` if no
    columns are declared, and Spark can't infer them."""
    from pyspark.errors import AnalysisException

    if source.schema is not None:
        return source.schema
    reader = spark.read.format(source.format).options(**without_limits(source.options))
    try:
        return reader.load(source.location).schema
    except AnalysisException as problem:
        raise StreamError(
            f"Model {model.name}: the columns of its stream {source.relation} can't be found from the files in "
            f"{source.location} ({_first_line(problem)}). Declare them as 'schema' in the source's config.meta.stream."
        ) from problem


def _read_kafka(
    spark: SparkSession, model: StreamModel, source: StreamSource
) -> tuple[DataFrame, Records | None]:
    from pyspark.errors import AnalysisException

    begins = any(name.lower().startswith("starting") for name in source.options)
    # Spark's default is to begin with new messages; a model's table includes the history, as with other sources.
    options = source.options if begins else {**source.options, "startingOffsets": "earliest"}
    try:
        rows = spark.readStream.format("kafka").options(**options).load()
    except AnalysisException as problem:
        raise StreamError(
            f"Model {model.name}: its stream {source.relation} can't be read from Kafka: "
            f"{connector_advice(source.format, _first_line(problem))}."
        ) from problem
    return rows_of_messages(source, rows)


def rows_of_messages(source: StreamSource, messages: DataFrame) -> tuple[DataFrame, Records | None]:
    """Returns Kafka's messages and the SQL that converts them to rows; None for it if the source has no schema."""
    if source.schema is None:
        return messages, None
    records = records_of(messages.sparkSession, source, source.schema)
    assert records is not None
    return messages, records


def _check_event_time(model: StreamModel, stream: StreamInput, columns: StructType) -> None:
    name = time_name_text(stream.event_time or "")
    found = _time_field(stream, columns)
    if found is None:
        raise StreamError(
            f"Model {model.name}: its stream {stream.relation} has no column {name}, which is "
            f"to be its event time. It has {', '.join(name for name in columns.names if not name.startswith('__'))}."
        )
    if not is_timestamp_type(found.dataType):
        kind = found.dataType.simpleString()
        raise StreamError(
            f"Model {model.name}: the event time {name} of its stream {stream.relation} is a {kind.upper()} and must "
            "be a TIMESTAMP, for this query needs the time of its rows. Give the column that type in the source's schema or "
            f"read a model that converts it and has the new column as its config event_time: {conversion_text(kind, name)}."
        )


def event_time_column(stream: StreamInput, schema: StructType) -> tuple[str, DataType] | None:
    """Returns SQL of a stream's event time, and its type; None if the column is missing or isn't a timestamp.

    >>> from pyspark.sql.types import StringType, StructField, StructType, TimestampType
    >>> schema = StructType([StructField("At", TimestampType()), StructField("day", StringType())])
    >>> [event_time_column(StreamInput("t", "t", None, time), schema) for time in ("at", "day", "hour")]
    [('`at`', TimestampType()), None, None]
    """
    found = _time_field(stream, schema)
    if found is None or not is_timestamp_type(found.dataType):
        return None
    return quote_time(stream.event_time or ""), found.dataType


def _time_field(stream: StreamInput, schema: StructType) -> StructField | None:
    """Returns the column or nested field with a stream's event time; None if there is none."""
    from pyspark.sql.types import StructType

    time = stream.event_time or ""
    kind: DataType = schema
    found: StructField | None = None
    for name in split_path(time) if is_path(time) else (time,):
        fields = kind.fields if isinstance(kind, StructType) else []
        found = next((field for field in fields if field.name.lower() == name.lower()), None)
        if found is None:
            return None
        kind = found.dataType
    return found


def is_timestamp_type(kind: DataType) -> bool:
    """Returns whether a column of this type can be an event time."""
    from pyspark.sql.types import TimestampNTZType, TimestampType

    return isinstance(kind, TimestampType | TimestampNTZType)


def _first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0]
