"""Columns of relations, as Spark's schema has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt.adapters.spark.column import SparkColumn

from ..util.quoting import quote
from ..util.types import type_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

_DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""The key of a field's metadata under which Spark notes CHAR and VARCHAR, which are texts to queries."""


@dataclass(repr=False)
class SparkStreamingColumn(SparkColumn):
    """A column of a relation or a query."""

    @property
    def quoted(self) -> str:
        """The name as SQL takes it."""
        return quote(self.column)


def columns_of(schema: StructType) -> list[SparkStreamingColumn]:
    """The columns of a relation, from its schema and not from a text that prints it."""
    return [SparkStreamingColumn(column=field.name, dtype=_type_of(field)) for field in schema.fields]


def _type_of(field: StructField) -> str:
    return str((field.metadata or {}).get(_DECLARED_TYPE) or type_text(field.dataType))
