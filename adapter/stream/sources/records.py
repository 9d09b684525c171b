"""Rows of a source's records: read with a look at those that can't be read, which `unreadable` says how to find."""

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
    """How records of a source become rows; None: Spark refuses those that it can't read.

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
    """The records of files, and how they become rows.

    Args:
        read: reads them, with options and columns.
        records: as `records_of` gave it.
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
    """The records that are in Kafka's messages."""
    first, then = records.of_messages()
    return messages.selectExpr(*first).selectExpr(*then)


def rows_of(found: DataFrame, records: Records, wanted: Sequence[str] | None, counted: bool) -> DataFrame:
    """The rows that records become.

    Args:
        found: the records.
        records: how they become rows.
        wanted: the columns that are read; None: all.
        counted: whether rows come with what couldn't be read of them, to be counted.
    """
    hidden = DROPPED if records.on_error == DROP else UNREADABLE
    rows = found.selectExpr("*", f"{records.found(wanted)} as {hidden}")
    condition = records.condition(hidden)
    if condition is not None and not (counted and hidden == DROPPED):
        rows = rows.where(condition)
    return rows.selectExpr(*records.select(wanted, hidden), *([hidden] if counted else []))


def readable(rows: DataFrame) -> DataFrame:
    """The rows of a stream without what is there to be counted."""
    if DROPPED in rows.columns:
        return rows.where(f"{DROPPED} is null").drop(DROPPED)
    return rows.drop(UNREADABLE) if UNREADABLE in rows.columns else rows
