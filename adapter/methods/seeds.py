"""Loads the rows of a seed's CSV file into a temporary view, and stores how its table is defined."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import agate
    from pyspark.sql import SparkSession

    from ..stream.iceberg.table import IcebergTable

_DEFINITION = "dbt_spark_streaming.seed"
"""The property of a seed's table with a digest of its definition."""


def create_staging_view(table: agate.Table, view: str, session: SparkSession) -> None:
    """Creates a temporary view of a seed's rows, with STRING columns. dbt-spark writes 10,000 rows at a time into a
    statement, which Spark takes minutes to parse and optimize."""
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField(str(name), StringType()) for name in table.column_names])
    rows = [tuple(_castable_text(value) for value in row) for row in table.rows]
    session.createDataFrame(rows, schema).createOrReplaceTempView(view)


def record_definition(table: IcebergTable, definition: str) -> None:
    """Stores a digest of a seed's definition in its table's properties.

    Args:
        definition: the columns and the clauses of the CREATE TABLE.
    """
    table.set_properties({_DEFINITION: _definition_digest(definition)})


def is_defined_as(table: IcebergTable, definition: str, columns: Sequence[str]) -> bool:
    """Returns whether a seed's table was created by a definition, still has its columns, and has no VARIANT, which can't be
    compared."""
    from ..stream.iceberg.table import columns_in_spark

    if table.property(_DEFINITION) != _definition_digest(definition):
        return False
    fields = columns_in_spark(table.spark, table.java).fields
    return [field.name.lower() for field in fields] == [name.lower() for name in columns] and not any(
        field.dataType.typeName() == "variant" for field in fields
    )


def _definition_digest(definition: str) -> str:
    """Returns a digest of a text that doesn't depend on its white space.

    >>> _definition_digest("`a` int,  using iceberg") == _definition_digest(" `a` int, using\\niceberg")
    True
    """
    return hashlib.sha256(" ".join(definition.split()).encode()).hexdigest()


def _castable_text(value: Any) -> str | None:
    """Returns a value of an agate table as text that Spark can cast back."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return str(value)
