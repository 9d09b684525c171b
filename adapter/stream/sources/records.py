"""Converts a source's records to rows and handles unreadable ones, with the SQL of `unreadable`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...sources.unreadable import DROP, DROPPED, LINE, UNREADABLE, Records
from ...util.quoting import quote as quoted
from ...util.types import type_text
from ..common.model import StreamSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def records_of(spark: SparkSession, source: StreamSource, schema: StructType | str) -> Records | None:
    """Returns the SQL that converts a source's records to rows; None if Spark rejects unreadable records."""
    fields = spark.createDataFrame([], schema).schema.fields
    named = [(field.name, type_text(field.dataType)) for field in fields]
    return Records.of_source(
        source.name or source.relation, source.format, named, source.on_error, source.options
    )


def read_files(
    read: Callable[[str, Mapping[str, str], StructType | str], DataFrame],
    records: Records | None,
    source: StreamSource,
    schema: StructType | str,
) -> tuple[DataFrame, Records | None]:
    """Reads the records of files, and returns them with the SQL that converts them to rows. `read`: reads files in a
    format, with options and columns."""
    if records is None:
        return read(source.format, source.options, schema), None
    texts, reading = records.are_texts, records.read_options
    format, last = ("text", LINE) if texts else (source.format, records.raw)
    found = read(format, reading, _TEXT if texts else records.schema)
    folders = found.columns[found.columns.index(last) + 1 :]
    if not folders:
        return found, records
    known = {name: kind for name, kind in records.fields}
    if texts and (declared := {name: kind for name, kind in known.items() if name in folders}):
        found = read(format, reading, ", ".join([_TEXT, *(f"{quoted(n)} {k}" for n, k in declared.items())]))
    more = [(name, type_text(found.schema[name].dataType)) for name in folders if name not in known]
    return found, replace(records, fields=[*records.fields, *more], folders=folders)


_TEXT = f"{LINE} string"


def rows_of(found: DataFrame, records: Records, wanted: Sequence[str] | None, counted: bool) -> DataFrame:
    """Converts records to rows.

    Args:
        wanted: the columns that are read; None for all.
        counted: whether rows keep a column with their unreadable values, to be counted.
    """
    hidden = DROPPED if records.on_error == DROP else UNREADABLE
    records = records.with_columns(wanted)
    for selected in records.select_lists():
        found = found.selectExpr(*selected)
    rows = found.selectExpr("*", f"{records.unreadable_values_sql(wanted)} as {hidden}")
    condition = records.kept_rows_condition(hidden)
    if condition is not None and not (counted and hidden == DROPPED):
        rows = rows.where(condition)
    return rows.selectExpr(*records.row_select_list(wanted, hidden), *([hidden] if counted else []))


def columns_of(found: DataFrame, records: Records | None) -> StructType:
    """Returns the columns of the rows that records convert to; without such SQL, `found` has rows."""
    if records is None:
        return found.schema
    types = dict(records.fields)
    columns = ", ".join(f"{quoted(name)} {types.get(name, 'string')}" for name in records.names)
    return found.sparkSession.createDataFrame([], columns).schema


def without_unreadable(rows: DataFrame) -> DataFrame:
    """Removes the columns with unreadable values, and the rows to drop."""
    if DROPPED in rows.columns:
        return rows.where(f"{DROPPED} is null").drop(DROPPED)
    return rows.drop(UNREADABLE) if UNREADABLE in rows.columns else rows
