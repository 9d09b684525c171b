"""Finds columns of ORC files whose type isn't that of their source.

Spark's reader of ORC converts values to the source's type, and those that it can't convert become NULL without an error.
The readers of Parquet and Avro reject such files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..util.types import quoted_as_needed, simple_fits, type_text

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

ORC = "orc"
_EXACT_AS_TEXT = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "decimal(")


def other_type(
    read: Callable[[Sequence[str], str], Any], files: Sequence[str], wanted: StructType
) -> str | None:
    """Returns a message on the first file with a column of another type; None if there is none.

    Files that can't be read are left out: their error is raised when their rows are read.

    Args:
        read: returns a DataFrame of files, with a value of the option `mergeSchema`.
        wanted: the columns that are read.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    if not files:
        return None
    try:
        differs = difference(read(files, "true").schema, wanted)
    except (PySparkException, Py4JJavaError):  # one can't be read, or their types can't be merged
        differs = ""
    if differs is None or (len(files) == 1 and not differs):
        return None
    if len(files) == 1:
        return (
            f"the file {files[0]} has {differs}: Spark would convert the values, and those that it can't convert would be "
            "NULL. Correct the type in the source's schema, or have the file written with that type. Where files differ, "
            "declare the column as STRING and cast it in the query"
        )
    half = len(files) // 2
    return other_type(read, files[:half], wanted) or other_type(read, files[half:], wanted)


def difference(found: DataType, wanted: DataType, path: str = "") -> str | None:
    """Returns the first column or nested field whose values would be converted with a loss, as text for a message; None
    if there is none.

    >>> from pyspark.sql.types import LongType, StringType, StructType
    >>> texts, numbers = (StructType().add("s", StructType().add("A", kind())) for kind in (StringType, LongType))
    >>> difference(texts, numbers), difference(numbers, texts)
    ('the column s.A as STRING, and it is to be read as BIGINT', None)
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(found, StructType) and isinstance(wanted, StructType):
        fields = {field.name.lower(): field.dataType for field in found.fields}
        pairs = [
            (fields[name], field.dataType, quoted_as_needed(field.name))
            for field in wanted.fields
            if (name := field.name.lower()) in fields
        ]
    elif isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        pairs = [(found.elementType, wanted.elementType, "element")]
    elif isinstance(found, MapType) and isinstance(wanted, MapType):
        pairs = [(found.keyType, wanted.keyType, "key"), (found.valueType, wanted.valueType, "value")]
    else:
        has, kind = type_text(found).lower(), type_text(wanted).lower()
        if has == kind or simple_fits(has, kind) or (kind == "string" and has.startswith(_EXACT_AS_TEXT)):
            return None
        return f"the column {path} as {has.upper()}, and it is to be read as {kind.upper()}"
    for one, other, name in pairs:
        if text := difference(one, other, f"{path}.{name}" if path else name):
            return text
    return None
