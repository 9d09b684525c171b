"""Finds columns of ORC and Parquet files with another type than the source declares, where Spark doesn't reject the file.

Spark's reader of ORC converts values to the source's type, and those that it can't convert become NULL without an error.
Its reader of Parquet takes the lower bits of an INT for a TINYINT, an unsigned number for a negative one, and a number for
a DATE; it rejects other files, as the reader of Avro rejects all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..util.types import quote_if_needed, simple_type_fits, type_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

ORC, PARQUET = "orc", "parquet"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_EXACT_AS_TEXT = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "decimal(")


def _orc_keeps_values(has: str, kind: str) -> bool:
    return has == kind or simple_type_fits(has, kind) or (kind == "string" and has.startswith(_EXACT_AS_TEXT))


def _parquet_keeps_values(has: str, kind: str) -> bool:
    # Spark's type of an unsigned BIGINT is DECIMAL(20,0).
    if kind in _INTEGERS and has in (*_INTEGERS, "date", "decimal(20,0)"):
        return has == kind or simple_type_fits(has, kind)
    return kind != "date" or has not in _INTEGERS


KEEPS: Mapping[str, Callable[[str, str], bool]] = {ORC: _orc_keeps_values, PARQUET: _parquet_keeps_values}
"""Format → whether Spark reads values of a file's type as the same values of a source's type, or rejects the file."""
_CONVERTED = {
    ORC: "Spark would convert the values, and those that it can't convert would be NULL",
    PARQUET: "Spark would take some of the values for others",
}
_WHERE_FILES_DIFFER = {
    ORC: ". Where files differ, declare the column as STRING and cast it in the query",
    PARQUET: "",
}


def type_mismatch_message(
    spark: SparkSession,
    format: str,
    options: Mapping[str, str],
    files: Sequence[str],
    wanted: Sequence[StructType],
) -> str | None:
    """Returns a message on the first file with a column of another type; None if there is none.

    Files that can't be read are left out: their error is raised when their rows are read.

    Args:
        options: the source's options, without its path.
        wanted: the columns that are read, by each reader of the files.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    if not files:
        return None
    try:
        found = spark.read.format(format).options(**{**options, "mergeSchema": "true"}).load([*files]).schema
        differs = next(filter(None, (mismatched_column(found, each, KEEPS[format]) for each in wanted)), None)
    except (PySparkException, Py4JJavaError):  # one can't be read, or their types can't be merged
        differs = ""
    if differs is None or (len(files) == 1 and not differs):
        return None
    if len(files) == 1:
        return (
            f"the file {files[0]} has {differs}: {_CONVERTED[format]}. Correct the type in the source's schema, or have the "
            f"file written with that type{_WHERE_FILES_DIFFER[format]}"
        )
    # Files that come one after the other are mostly alike.
    half = len(files) // 2
    halves = (
        type_mismatch_message(spark, format, options, some, wanted) for some in (files[:half], files[half:])
    )
    return next(filter(None, halves), None)


def mismatched_column(
    found: DataType, wanted: DataType, keeps: Callable[[str, str], bool], path: str = ""
) -> str | None:
    """Returns the first column or nested field whose values would be others, as text for a message; None if there is none.

    Args:
        keeps: one of `KEEPS`.

    >>> from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructType
    >>> texts, numbers = (StructType().add("s", StructType().add("A", kind())) for kind in (StringType, LongType))
    >>> mismatched_column(texts, numbers, KEEPS[ORC]), mismatched_column(numbers, texts, KEEPS[ORC])
    ('the column s.A as STRING, and it is to be read as BIGINT', None)
    >>> mismatched_column(LongType(), IntegerType(), KEEPS[PARQUET], "n"), mismatched_column(texts, numbers, KEEPS[PARQUET])
    ('the column n as BIGINT, and it is to be read as INT', None)
    >>> mismatched_column(IntegerType(), DateType(), KEEPS[PARQUET], "d")
    'the column d as INT, and it is to be read as DATE'
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(found, StructType) and isinstance(wanted, StructType):
        fields = {field.name.lower(): field.dataType for field in found.fields}
        pairs = [
            (fields[name], field.dataType, quote_if_needed(field.name))
            for field in wanted.fields
            if (name := field.name.lower()) in fields
        ]
    elif isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        pairs = [(found.elementType, wanted.elementType, "element")]
    elif isinstance(found, MapType) and isinstance(wanted, MapType):
        pairs = [(found.keyType, wanted.keyType, "key"), (found.valueType, wanted.valueType, "value")]
    else:
        has, kind = type_text(found).lower(), type_text(wanted).lower()
        if keeps(has, kind):
            return None
        return f"the column {path} as {has.upper()}, and it is to be read as {kind.upper()}"
    for one, other, name in pairs:
        if text := mismatched_column(one, other, keeps, f"{path}.{name}" if path else name):
            return text
    return None
