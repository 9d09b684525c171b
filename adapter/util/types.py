"""Formats Spark's types as DDL, and compares simple ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .quoting import is_plain, quote

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def type_text(type_: DataType) -> str:
    """Returns a type as DDL. Unlike Spark's own text it quotes the names of a struct's fields where needed.

    >>> from pyspark.sql.types import StructType, StructField, IntegerType, ArrayType
    >>> type_text(ArrayType(StructType([StructField("a b", IntegerType()), StructField("c", IntegerType())])))
    'array<struct<`a b`:int,c:int>>'
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, StructType):
        fields = ",".join(
            f"{quote_if_needed(field.name)}:{type_text(field.dataType)}" for field in type_.fields
        )
        return f"struct<{fields}>"
    if isinstance(type_, ArrayType):
        return f"array<{type_text(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{type_text(type_.keyType)},{type_text(type_.valueType)}>"
    return str(type_.simpleString())


def column_types(schema: StructType) -> dict[str, str]:
    """Returns the types of columns as DDL, by name."""
    return {field.name: type_text(field.dataType) for field in schema.fields}


def quote_if_needed(name: str) -> str:
    """Returns a name, quoted if SQL needs it."""
    return name if is_plain(name) else quote(name)


_WIDER: Mapping[str, tuple[str, ...]] = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}
_TEXT = re.compile(r"(char|varchar)\(\d+\)|string collate .*")


def simple_type_fits(kind: str, known: str) -> bool:
    """Returns whether a column of the simple type `known` holds all values of another one, `kind`, without loss.

    >>> pairs = (("int", "bigint"), ("decimal(10,2)", "decimal(11,3)"), ("int", "string"))
    >>> [simple_type_fits(*each) for each in pairs]
    [True, True, False]
    """
    if kind in _WIDER:
        return known in _WIDER[kind]
    digits, others = decimal_digits(kind), decimal_digits(known)
    if digits is not None and others is not None:
        return decimal_fits(digits, others)
    return _TEXT.match(kind) is not None and known == "string"


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Returns precision and scale of a DECIMAL; None for other types."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None


def decimal_fits(digits: tuple[int, int], others: tuple[int, int]) -> bool:
    """Returns whether a column of some precision and scale (`others`) holds values of another precision and scale."""
    return digits[0] - digits[1] <= others[0] - others[1] and digits[1] <= others[1]
