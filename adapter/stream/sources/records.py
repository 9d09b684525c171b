"""Converts a source's records to rows and handles unreadable ones, with the SQL of `unreadable`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...sources.unreadable import DROP, DROPPED, UNREADABLE, Records
from ...util.types import type_text
from ..common.model import StreamSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def records_of(spark: SparkSession, source: StreamSource, schema: StructType | str) -> Records | None:
    """Returns the SQL that converts a source's records to rows; None if Spark rejects unreadable records.

    Args:
        spark: a session.
        source: the source.
        schema: its columns.
    """
    fields = spark.createDataFrame([], schema).schema.fields
    named = [(field.name, type_text(field.dataType)) for field in fields]
    return Records.of(source.name or source.relation, source.format, named, source.on_error, source.options)


def read_files(
    read: Callable[[Mapping[str, str], StructType | str], DataFrame],
    records: Records | None,
    source: StreamSource,
    schema: StructType | str,
) -> tuple[DataFrame, Records | None]:
    """Reads the records of files, and returns them with the SQL that converts them to rows.

    Args:
        read: reads files with options and columns.
        records: the result of `records_of`.
        source: the source.
        schema: its columns.
    """
    if records is None:
        return read(source.options, schema), None
    found = read(records.reading, records.schema)
    folders = found.columns[found.columns.index(records.raw) + 1 :]
    if not folders:
        return found, records
    known = {name for name, _ in records.fields}
    more = [(name, type_text(found.schema[name].dataType)) for name in folders if name not in known]
    return found, replace(records, fields=[*records.fields, *more], folders=folders)


def read_messages(messages: DataFrame, records: Records) -> DataFrame:
    """Reads the records in Kafka's messages."""
    first, then = records.of_messages()
    return messages.selectExpr(*first).selectExpr(*then)


def rows_of(found: DataFrame, records: Records, wanted: Sequence[str] | None, counted: bool) -> DataFrame:
    """Converts records to rows.

    Args:
        found: the records.
        records: SQL that converts them.
        wanted: the columns that are read; None for all.
        counted: whether rows keep a column with their unreadable values, to be counted.
    """
    hidden = DROPPED if records.on_error == DROP else UNREADABLE
    rows = found.selectExpr("*", f"{records.found(wanted)} as {hidden}")
    condition = records.condition(hidden)
    if condition is not None and not (counted and hidden == DROPPED):
        rows = rows.where(condition)
    return rows.selectExpr(*records.select(wanted, hidden), *([hidden] if counted else []))


def readable(rows: DataFrame) -> DataFrame:
    """Removes the columns with unreadable values, and the rows to drop."""
    if DROPPED in rows.columns:
        return rows.where(f"{DROPPED} is null").drop(DROPPED)
    return rows.drop(UNREADABLE) if UNREADABLE in rows.columns else rows
