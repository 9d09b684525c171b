"""Seeds: a CSV file's rows as a temporary view."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import agate
    from pyspark.sql import SparkSession


def stage(table: agate.Table, view: str, session: SparkSession) -> None:
    """Make the rows of a seed a temporary view, all columns text.

    dbt-spark writes them into the statement, 10,000 rows at a time, which Spark parses and
    optimizes for minutes.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField(str(name), StringType()) for name in table.column_names])
    rows = [tuple(_text(value) for value in row) for row in table.rows]
    session.createDataFrame(rows, schema).createOrReplaceTempView(view)


def _text(value: Any) -> str | None:
    """A value of agate's as text that Spark casts back to it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return str(value)
