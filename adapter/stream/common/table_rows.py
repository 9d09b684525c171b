"""Casts the columns of queries to a table's columns, matched by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...query.sql.maps import orderable_sql
from ...util.nested_types import reorder_fields_sql
from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ...util.types import type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType


class Columns:
    """The columns of a table, and queries cast to them.

    The results are SQL text, cached by query: Spark analyses a text once, but each operation on a DataFrame
    separately.
    """

    def __init__(
        self,
        schema: StructType,
        drop_unknown: bool = False,
        rebuild: str = "",
        mapping: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Reads the columns of a table.

        Args:
            drop_unknown: whether to drop columns of a query that the table lacks, instead of an error.
            rebuild: the command that rebuilds the table, for messages.
            mapping: by state table, the table's names of columns that the query names differently.
        """
        self._passes_over, self._rebuild, self._mapping = drop_unknown, rebuild, mapping or {}
        self.names = list(schema.names)
        self._types = {field.name.lower(): type_text(field.dataType) for field in schema.fields}
        self._field_names = {field.name.lower(): _field_names(field.dataType) for field in schema.fields}
        self._texts: dict[tuple[str, str | None], str] = {}

    def select(
        self,
        spark: SparkSession,
        query: str,
        part: str | None = None,
        check: Callable[[str, str, str], None] | None = None,
    ) -> str:
        """Returns `query` with the table's columns in their order and types, matched by name without regard to case.

        Args:
            part: value of the column ``part``, which the query lacks. Other columns that it lacks are NULL.
            check: called for each column that is cast, with its name, its type in the query and its type in the table;
                raises if the cast is not allowed.

        Raises:
            ValueError: the table lacks a column of the query, or its column has other nested fields.
        """
        key = (query, part)
        if key not in self._texts:
            self._texts[key] = self._select_text(spark.sql(query), query, part, check)
        return self._texts[key]

    def comparable_sql(self, name: str, relation: str) -> str:
        """Returns a comparable SQL expression for a column, also for a MAP."""
        return orderable_sql(f"{relation}.{quoted(name)}", self._types[name.lower()])

    def empty_relation(self) -> str:
        """Returns an empty relation with the table's columns.

        >>> from pyspark.sql.types import IntegerType, StructField, StructType
        >>> Columns(StructType([StructField("n", IntegerType())])).empty_relation()
        '(select cast(null as int) as `n` from range(0) where false)'
        """
        columns = (f"cast(null as {self._types[name.lower()]}) as {quoted(name)}" for name in self.names)
        # Spark's optimizer sees that WHERE FALSE is empty, so it computes a relation joined with it once or not at all.
        return f"(select {', '.join(columns)} from range(0) where false)"

    def _select_text(
        self, rows: DataFrame, query: str, part: str | None, check: Callable[[str, str, str], None] | None
    ) -> str:
        names = self._mapping.get(part or "", {})
        have = {names.get(field.name.lower(), field.name.lower()): field for field in rows.schema.fields}
        unknown = have.keys() - self._types.keys()
        if unknown and not self._passes_over:
            raise ValueError(f"the table has no column {', '.join(sorted(unknown))}")
        columns = []
        for wanted in self.names:
            kind, found = self._types[wanted.lower()], have.get(wanted.lower())
            value, given = literal(part) if part is not None and wanted == "part" else "null", None
            if found is not None:
                value, given = quoted(found.name), type_text(found.dataType)
                if _field_names(found.dataType) != self._field_names[wanted.lower()]:
                    # Spark casts nested fields by position and ignores their names.
                    what_to_do = f". To rebuild it: {self._rebuild}." if self._rebuild else ""
                    raise ValueError(f"column {wanted} has other fields in it than it had{what_to_do}")
            if given != kind:
                if check is not None and given is not None:
                    check(wanted, given, kind)
                value = f"cast({value} as {kind})"
            columns.append(f"{value} as {quoted(wanted)}")
        return f"select {', '.join(columns)}\nfrom (\n{query}\n)"


def converted_value(found: StructField | None, wanted: StructField) -> str:
    """Returns a select item that casts a column to another one's name, type and order of struct fields; NULL if `found` is
    None."""
    kind = type_text(wanted.dataType)
    value = (
        "null" if found is None else reorder_fields_sql(quoted(found.name), type_text(found.dataType), kind)
    )
    return f"cast({value} as {kind}) as {quoted(wanted.name)}"


def _field_names(type_: DataType) -> list[object]:
    """Returns the field names of a type, nested like its structs."""
    found: list[object] = []
    for name in ("fields", "elementType", "keyType", "valueType"):
        inner = getattr(type_, name, None)
        if name == "fields" and inner is not None:
            found += [(field.name.lower(), _field_names(field.dataType)) for field in inner]
        elif inner is not None:
            found.append(_field_names(inner))
    return found


def one_file_sql(query: str) -> str:
    """Returns the query with a hint that computes it in one task."""
    return f"select /*+ coalesce(1) */ * from (\n{query}\n)"
