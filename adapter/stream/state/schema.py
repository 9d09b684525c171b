"""Derives the columns of a state: one Iceberg table with the columns of all state tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...util.types import type_text
from .column_mapping import ColumnMapping, physical_names, renamed_columns

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType


@dataclass(frozen=True)
class Layout:
    """The columns of a state."""

    schema: StructType
    """Columns of the Iceberg table, ``part`` first."""
    physical_names: ColumnMapping
    """State table → logical column in lower case → physical column."""

    @property
    def mapping(self) -> ColumnMapping:
        """State table → logical column → physical column, where the names differ because the name has several types."""
        return renamed_columns(self.physical_names)


@dataclass(frozen=True)
class KnownColumns:
    """The columns of an existing state."""

    types: Mapping[str, str]
    """Physical column → type."""
    mapping: ColumnMapping
    """Physical columns with other names than the logical ones, as `Layout.mapping`."""
    begins: Callable[[str], Collection[str] | None]
    """Returns the new columns of a state table; None if all are new."""

    def continued_names(self, parts: Mapping[str, Collection[str]]) -> ColumnMapping:
        """Returns the physical names of the columns that exist in the state already."""
        there = {name.lower() for name in self.types}
        found: dict[str, dict[str, str]] = {}
        for part, names in parts.items():
            begun = self.begins(part)
            if begun is not None:
                columns = {name: self.mapping.get(part, {}).get(name, name) for name in names}
                new = {name.lower() for name in begun}
                found[part] = {n: column for n, column in columns.items() if n not in new and column in there}
        return found


def derive_layout(
    parts: Mapping[str, StructType],
    together: Iterable[Collection[str]],
    stored: Callable[[Sequence[str]], Sequence[str]],
    known: KnownColumns | None = None,
) -> Layout:
    """Returns the columns of the state tables. A column that is always NULL in one state table gets its type from another.

    Args:
        together: sets of state tables that one text of the program reads.
        stored: converts SQL types to the types that a table stores.

    Raises:
        ValueError: a name has two types where only one is possible, or a column has no type.
    """
    names = {part: {name.lower(): name.lower() for name in schema.names} for part, schema in parts.items()}
    if not has_one_type_per_name(parts.values()) or (known is not None and known.mapping):
        texts = {
            part: {each.name.lower(): _type_text(each.dataType) for each in schema.fields}
            for part, schema in parts.items()
        }
        kinds = sorted({kind for of_part in texts.values() for kind in of_part.values() if kind is not None})
        in_table: dict[str | None, str] = dict(zip(kinds, stored(kinds), strict=True))
        wants = {
            part: {name: in_table.get(kind) for name, kind in own.items()} for part, own in texts.items()
        }
        continued = known.continued_names(names) if known is not None else None
        names = physical_names(wants, together, continued, known.types if known is not None else None)
    schema = merged_schema([_with_physical_names(schema, names[part]) for part, schema in parts.items()])
    spelled = {name.lower(): name for name in schema.names}
    physical = {part: {n: spelled[column] for n, column in own.items()} for part, own in names.items()}
    return Layout(schema, physical)


def has_one_type_per_name(schemas: Iterable[StructType]) -> bool:
    """Returns whether every column name has one type only."""
    known: dict[str, str] = {}
    return all(
        kind is None or known.setdefault(each.name.lower(), kind) == kind
        for schema in schemas
        for each in schema.fields
        for kind in [_type_text(each.dataType)]
    )


def merged_schema(schemas: Iterable[StructType]) -> StructType:
    """Merges the columns of several schemas, ``part`` first.

    Raises:
        ValueError: a column has no type.

    >>> from pyspark.sql.types import LongType, NullType, StructField, StructType
    >>> groups = StructType([StructField("k", LongType()), StructField("n", NullType())])
    >>> values = StructType([StructField("N", LongType())])
    >>> merged_schema([groups, values]).simpleString()
    'struct<part:string,k:bigint,n:bigint>'
    """
    from pyspark.sql.types import NullType, StringType, StructField, StructType

    merged: dict[str, StructField] = {}
    for schema in schemas:
        for each in schema.fields:
            had = merged.get(each.name.lower())
            if had is None or isinstance(had.dataType, NullType):
                merged[each.name.lower()] = StructField(had.name if had else each.name, each.dataType)
    untyped = [each.name for each in merged.values() if isinstance(each.dataType, NullType)]
    if untyped:
        raise ValueError(f"column {untyped[0]} of the state is always NULL; give it a type with CAST")
    return StructType([StructField("part", StringType()), *merged.values()])


def _with_physical_names(schema: StructType, names: Mapping[str, str]) -> StructType:
    from pyspark.sql.types import StructField, StructType

    def name(each: StructField) -> str:
        column = names[each.name.lower()]
        return each.name if column == each.name.lower() else column

    return StructType([StructField(name(each), each.dataType) for each in schema.fields])


def _type_text(kind: DataType) -> str | None:
    # Compares types as text, which ignores whether elements may be NULL.
    from pyspark.sql.types import NullType

    return None if isinstance(kind, NullType) else type_text(kind)
