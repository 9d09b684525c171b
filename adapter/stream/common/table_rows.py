"""Rows as a table takes them: its columns found by name, and names and texts as SQL takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...query.sql.maps import ordered
from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ...util.types import type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


class Columns:
    """The columns of a table, and queries put into them.

    What comes out is text, and the same for the same query: Spark analyses it in one go, where
    operations on a DataFrame are analysed one by one.
    """

    def __init__(
        self,
        schema: StructType,
        passes_over: bool = False,
        rebuild: str = "",
        apart: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`passes_over`: columns of a query that the table lacks are left out. `rebuild`: how the table is built anew.
        `apart`: by part columns of a query that the table calls otherwise."""
        self._passes_over, self._rebuild, self._apart = passes_over, rebuild, apart or {}
        self.names = list(schema.names)
        self._types = {field.name.lower(): type_text(field.dataType) for field in schema.fields}
        self._fields = {field.name.lower(): _fields(field.dataType) for field in schema.fields}
        self._texts: dict[tuple[str, str | None], str] = {}

    def select(
        self,
        spark: SparkSession,
        query: str,
        part: str | None = None,
        check: Callable[[str, str, str], None] | None = None,
    ) -> str:
        """`query` with the table's columns, in their order and types, found by name whatever the case.

        Args:
            spark: where the query can be analysed.
            query: any query.
            part: the value of the column ``part``, which the query lacks. Other columns it lacks are NULL.
            check: passes a column whose values are cast: its name, the type it has in the query, and that in the table.

        Raises:
            ValueError: the table has no column for one of the query's.
        """
        key = (query, part)
        if key not in self._texts:
            self._texts[key] = self._make(spark.sql(query), query, part, check)
        return self._texts[key]

    def comparable(self, name: str, relation: str) -> str:
        """A column of a relation as a value that can be compared, which a MAP can't be."""
        return ordered(f"{relation}.{quoted(name)}", self._types[name.lower()])

    def none(self) -> str:
        """A relation of no rows, with the table's columns."""
        columns = (f"cast(null as {self._types[name.lower()]}) as {quoted(name)}" for name in self.names)
        # A test that no row passes, which Spark's optimizer sees: what is joined with it is computed once then, if at all.
        return f"(select {', '.join(columns)} from range(0) where false)"

    def _make(
        self, rows: DataFrame, query: str, part: str | None, check: Callable[[str, str, str], None] | None
    ) -> str:
        names = self._apart.get(part or "", {})
        have = {names.get(field.name.lower(), field.name.lower()): field for field in rows.schema.fields}
        unknown = have.keys() - self._types.keys()
        if unknown and not self._passes_over:
            raise ValueError(f"no column for {', '.join(sorted(unknown))}")
        columns = []
        for wanted in self.names:
            if (field := have.get(wanted.lower())) is not None and _fields(field.dataType) != self._fields[
                wanted.lower()
            ]:
                # Spark would cast them one after the other, whatever their names.
                what_to_do = f". To build it anew: {self._rebuild}." if self._rebuild else ""
                raise ValueError(f"column {wanted} has other fields in it than it had{what_to_do}")
            kind, found = self._types[wanted.lower()], have.get(wanted.lower())
            if found is None:
                value = literal(part) if part is not None and wanted == "part" else "null"
            else:
                value = quoted(found.name)
            given = None if found is None else type_text(found.dataType)
            if given != kind:
                if check is not None and given is not None:
                    check(wanted, given, kind)
                value = f"cast({value} as {kind})"
            columns.append(f"{value} as {quoted(wanted)}")
        return f"select {', '.join(columns)}\nfrom (\n{query}\n)"


def _fields(type_: DataType) -> list[object]:
    """The names in a type, however deep."""
    found: list[object] = []
    for name in ("fields", "elementType", "keyType", "valueType"):
        inner = getattr(type_, name, None)
        if name == "fields" and inner is not None:
            found += [(field.name.lower(), _fields(field.dataType)) for field in inner]
        elif inner is not None:
            found.append(_fields(inner))
    return found


def one_file(query: str) -> str:
    """The query, computed by one task."""
    return f"select /*+ coalesce(1) */ * from (\n{query}\n)"
