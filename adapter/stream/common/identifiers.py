"""Names of tables in full and types of columns, as SQL takes them, whatever is in them.

>>> parts("lakehouse.`dbt-dev`.`my.model`")
['lakehouse', 'dbt-dev', 'my.model']
>>> joined(["lakehouse", "dbt-dev", "my.model"])
'lakehouse.`dbt-dev`.`my.model`'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...util.quoting import is_plain, quote

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def parts(name: str) -> list[str]:
    """The parts of a table's name, without their quotes."""
    return [(found[1] or found[2]).replace("``", "`") for found in _PART.finditer(name)]


def joined(names: Sequence[str]) -> str:
    """A table's name from its parts; only those are quoted that have to be."""
    return ".".join(map(_as_needed, names))


def with_suffix(name: str, suffix: str) -> str:
    """The name of a table that lies beside another one.

    >>> with_suffix("db.`my-model`", "__state")
    'db.`my-model__state`'
    """
    *above, last = parts(name)
    return joined([*above, last + suffix])


def with_last(name: str, own: str) -> str:
    """The name of another table in the same place.

    >>> with_last("db.`my-model`", "other")
    'db.other'
    """
    return joined([*parts(name)[:-1], own])


def last(name: str) -> str:
    """A table's own name, without quotes."""
    return parts(name)[-1]


def type_text(type_: DataType) -> str:
    """A type as DDL: Spark's own text leaves the names in a struct as they are.

    >>> from pyspark.sql.types import StructType, StructField, IntegerType, ArrayType
    >>> type_text(ArrayType(StructType([StructField("a b", IntegerType()), StructField("c", IntegerType())])))
    'array<struct<`a b`:int,c:int>>'
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, StructType):
        fields = ",".join(f"{_as_needed(field.name)}:{type_text(field.dataType)}" for field in type_.fields)
        return f"struct<{fields}>"
    if isinstance(type_, ArrayType):
        return f"array<{type_text(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{type_text(type_.keyType)},{type_text(type_.valueType)}>"
    return str(type_.simpleString())


def _as_needed(name: str) -> str:
    return name if is_plain(name) else quote(name)
