"""Compares the rows of two queries as multisets, in one Spark query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...util.quoting import quote as quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_SCALE = 0.7390851332151607
"""Factor that moves rounding boundaries away from common decimals: 2.5 and 2.4999999999999996 round to one number."""


@dataclass(frozen=True)
class Difference:
    """Row counts of a comparison of two queries, `ours` and `theirs`."""

    ours: int
    theirs: int
    equal: int
    only_ours: Sequence[dict[str, Any]] = ()
    """Sample of the rows that only ours has, or has more often."""
    only_theirs: Sequence[dict[str, Any]] = ()


def compare(ours: DataFrame, theirs: DataFrame, sample: int) -> Difference:
    """Compares rows as multisets.

    Args:
        theirs: rows of the other query, with the same columns and types.
        sample: maximum rows to return of each side's surplus.
    """
    from pyspark.sql import functions as F

    columns = [ours[name] for name in map(quoted, ours.columns)]
    keys = [f"k{number}" for number in range(len(columns))]

    def side(rows: DataFrame, is_ours: bool) -> DataFrame:
        of = [rows[name] for name in map(quoted, rows.columns)]
        made = [
            comparable_column(column, item.dataType).alias(key)
            for column, item, key in zip(of, ours.schema.fields, keys, strict=True)
        ]
        whole = F.struct(*(column.alias(name) for column, name in zip(of, ours.columns, strict=True)))
        return rows.select(*made, whole.alias("whole"), F.lit(int(is_ours)).alias("is_ours"))

    both = side(ours, True).unionAll(side(theirs, False))
    grouped = both.groupBy(*keys).agg(
        F.sum("is_ours").alias("ours"),
        F.sum(1 - F.col("is_ours")).alias("theirs"),
        F.first("whole").alias("whole"),
    )
    row = grouped.agg(
        F.sum("ours"), F.sum("theirs"), F.sum(F.least(F.col("ours"), F.col("theirs")))
    ).collect()[0]
    found = Difference(int(row[0] or 0), int(row[1] or 0), int(row[2] or 0))
    if found.ours == found.theirs == found.equal:
        return found

    def lacking(more: str, less: str) -> list[dict[str, Any]]:
        some = grouped.where(F.col(more) > F.col(less)).orderBy(*keys).limit(sample)
        shown = [F.col("whole").getField(name).cast("string").alias(name) for name in ours.columns]
        times = (F.col(more) - F.col(less)).alias("__stream_times")
        listed = []
        for each in some.select(*shown, times).collect():
            *values, often = each
            listed += [dict(zip(ours.columns, values, strict=True))] * min(int(often), sample)
        return listed[:sample]

    return replace(found, only_ours=lacking("ours", "theirs"), only_theirs=lacking("theirs", "ours"))


def comparable_column(column: Column, kind: DataType) -> Column:
    """Returns the column to compare instead of a column of this type. Floating-point numbers are compared by their first
    digits: the last ones of a sum depend on the order of its rows. Types that Spark can't compare are compared as text."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

    if isinstance(kind, DoubleType | FloatType):
        digits = 6 if isinstance(kind, DoubleType) else 4
        # Adding 0.0 turns -0.0 into 0.0.
        return F.format_string(f"%.{digits}e", column.cast("double") * _SCALE + F.lit(0.0))
    if isinstance(kind, MapType) and not _has_text(kind.valueType):
        entries = StructType().add("key", kind.keyType).add("value", kind.valueType)
        return comparable_column(F.array_sort(F.map_entries(column)), ArrayType(entries))
    if _has_text(kind):
        return column.cast("string")
    if isinstance(kind, ArrayType) and _has_floats(kind):
        return F.transform(column, lambda each: comparable_column(each, kind.elementType))
    if isinstance(kind, StructType) and _has_floats(kind):
        fields = (
            comparable_column(column.getField(field.name), field.dataType).alias(f"f{number}")
            for number, field in enumerate(kind.fields)
        )
        return F.when(column.isNotNull(), F.struct(*fields))
    return column


def _has_floats(kind: DataType) -> bool:
    """Returns whether values of a type contain floating-point numbers."""
    return _contains(kind, "float", "double")


def _has_text(kind: DataType) -> bool:
    """Returns whether values of a type are compared as text."""
    return _contains(kind, "map", "variant")


def _contains(kind: DataType, *names: str) -> bool:
    """Returns whether a type, or one in its arrays and structs, has one of these names."""
    from pyspark.sql.types import ArrayType, StructType

    inner = [kind.elementType] if isinstance(kind, ArrayType) else []
    inner += [each.dataType for each in kind.fields] if isinstance(kind, StructType) else []
    return kind.typeName() in names or any(_contains(each, *names) for each in inner)
