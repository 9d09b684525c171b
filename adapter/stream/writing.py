"""Rows into a table: its columns found by name, and one commit that says which step it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriterV2
    from pyspark.sql.types import StructType

    from .position import Position


def as_columns(rows: DataFrame, schema: StructType, **constants: str) -> DataFrame:
    """The rows with a table's columns, in its order and types, found by name whatever the case.

    Args:
        rows: any rows.
        schema: the table's.
        constants: text for columns that the rows lack; other columns they lack are NULL.

    Raises:
        ValueError: the table has no column for one of theirs.
    """
    have = {field.name.lower(): field for field in rows.schema.fields}
    unknown = have.keys() - {field.name.lower() for field in schema.fields}
    if unknown:
        raise ValueError(f"no column for {', '.join(sorted(unknown))}")
    columns = []
    for wanted in schema.fields:
        kind, name = wanted.dataType.simpleString(), quoted(wanted.name)
        found = have.get(wanted.name.lower())
        if found is None:
            value = constants.get(wanted.name)
            columns.append(f"cast({'null' if value is None else literal(value)} as {kind}) as {name}")
        elif found.dataType.simpleString() == kind:
            columns.append(f"{quoted(found.name)} as {name}")
        else:
            columns.append(f"cast({quoted(found.name)} as {kind}) as {name}")
    return rows.selectExpr(*columns)


def writer(rows: DataFrame, table: str, position: Position) -> DataFrameWriterV2:
    """Spark's writer for a commit that carries `position`."""
    made = rows.writeTo(table)
    for key, value in position.properties().items():
        made = made.option(f"snapshot-property.{key}", value)
    return made


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as SQL takes it, whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
