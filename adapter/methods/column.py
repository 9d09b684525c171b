"""Columns of relations, from Spark's schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt.adapters.spark.column import SparkColumn

from ..util.quoting import quote
from ..util.types import type_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""The key of a field's metadata that has the declared type of CHAR and VARCHAR columns, which are STRING in queries."""


@dataclass(repr=False)
class SparkStreamingColumn(SparkColumn):
    """A column of a relation or a query."""

    @property
    def quoted(self) -> str:
        """The name as a quoted identifier."""
        return quote(self.column)


def columns_from_schema(schema: StructType) -> list[SparkStreamingColumn]:
    return [
        SparkStreamingColumn(
            column=field.name,
            dtype=(field.metadata or {}).get(_DECLARED_TYPE) or type_text(field.dataType),
        )
        for field in schema.fields
    ]
