"""Which columns the state has: those of all its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType


def schema_of_parts(parts: Mapping[str, DataFrame]) -> StructType:
    """The columns of parts, ``part`` first. What is NULL in one part has the type another gives it.

    Raises:
        ValueError: a column has two types, or none.
    """
    from pyspark.sql.types import NullType, StringType, StructField, StructType

    merged: dict[str, StructField] = {}
    owner: dict[str, str] = {}
    for name, rows in parts.items():
        for field in rows.schema.fields:
            key = field.name.lower()
            had = merged.get(key)
            if had is None or isinstance(had.dataType, NullType):
                merged[key] = StructField(had.name if had else field.name, field.dataType)
                owner[key] = name
            elif not isinstance(field.dataType, NullType) and _text(had) != _text(field):
                raise ValueError(
                    f"Two parts of the query keep something called {field.name}, one as {_text(had).upper()} and the other "
                    f"as {_text(field).upper()} (in its state: {owner[key]}, {name}), and a state has one column of a name. "
                    f"Give it another name in one of them, as in SELECT {field.name} AS {field.name}_2 in a query below the "
                    "GROUP BY."
                )
    untyped = [field.name for field in merged.values() if isinstance(field.dataType, NullType)]
    if untyped:
        raise ValueError(f"column {untyped[0]} of the state is always NULL; give it a type with CAST")
    return StructType([StructField("part", StringType()), *merged.values()])


def _text(field: StructField) -> str:
    # Unlike the type itself, its text doesn't say whether elements may be NULL, which is no difference.
    return str(field.dataType.simpleString())
