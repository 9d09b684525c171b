"""Formats Spark's types as DDL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .quoting import is_plain, quote

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def type_text(type_: DataType) -> str:
    """Returns a type as DDL. Unlike Spark's own text it quotes the names of a struct's fields where needed.

    >>> from pyspark.sql.types import StructType, StructField, IntegerType, ArrayType
    >>> type_text(ArrayType(StructType([StructField("a b", IntegerType()), StructField("c", IntegerType())])))
    'array<struct<`a b`:int,c:int>>'
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, StructType):
        fields = ",".join(
            f"{quoted_as_needed(field.name)}:{type_text(field.dataType)}" for field in type_.fields
        )
        return f"struct<{fields}>"
    if isinstance(type_, ArrayType):
        return f"array<{type_text(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{type_text(type_.keyType)},{type_text(type_.valueType)}>"
    return str(type_.simpleString())


def quoted_as_needed(name: str) -> str:
    """Returns a name, quoted if SQL needs it."""
    return name if is_plain(name) else quote(name)
