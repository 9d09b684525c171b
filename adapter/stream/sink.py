"""The model's table: each step's rows are appended to it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .errors import StreamError
from .iceberg import load
from .model import StreamModel
from .position import Position, read_position
from .writing import Columns, one_file, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AppendSink:
    """A table whose rows never change."""

    def __init__(self, spark: SparkSession, model: StreamModel) -> None:
        self._model = model
        self._table = load(spark, model.target)
        self._columns: Columns | None = None

    @property
    def exists(self) -> bool:
        """Whether the table was made."""
        return self._table is not None

    @property
    def written(self) -> bool:
        """Whether anything was ever written to the table as it is now."""
        return self._table is not None and self._table.snapshot_id is not None

    def position(self) -> Position | None:
        """The last step in the table, its own rows counted in; None if there is none."""
        if self._table is None:
            return None
        summary = self._table.last_summary()
        found = read_position(summary)
        if found is None:
            return None
        return replace(found, rows_out=found.rows_out + int(summary.get("added-records", 0)))

    def append(self, spark: SparkSession, query: str, position: Position, few: bool) -> int:
        """Add rows in one commit that carries `position`.

        Args:
            spark: the session of the micro-batch.
            query: the program's output.
            position: the step they belong to.
            few: they fit into one file.

        Returns:
            How many rows.

        Raises:
            StreamError: the table has other columns.
        """
        assert self._table is not None
        if self._columns is None:
            self._columns = Columns(spark.table(self._model.target).schema)
            self._check(spark.sql(query).columns, self._columns.names)
        made = self._columns.select(spark, query)
        writer(spark.sql(one_file(made) if few else made), self._model.target, position).append()
        self._table.refresh()
        return self._table.count("added-records")

    def _check(self, of_query: Sequence[str], of_table: Sequence[str]) -> None:
        has = {name.lower() for name in of_table}
        gives = {name.lower() for name in of_query}
        if has == gives:
            return
        differences = [
            *(f"the query gives {name}, which the table lacks" for name in sorted(gives - has)),
            *(f"the table has {name}, which the query doesn't give" for name in sorted(has - gives)),
        ]
        raise StreamError(
            f"Model {self._model.name}: its table {self._model.target} has other columns than its query "
            f"({'; '.join(differences)}). To build it anew from its sources: {self._model.rebuild}."
        )
