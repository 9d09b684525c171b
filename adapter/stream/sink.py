"""The model's table: each step's rows come into it once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..query.program import CHANGE_TYPE
from .changes import Changes
from .errors import StreamError
from .failpoints import around
from .iceberg import IcebergTable, load
from .maintenance import PROPERTIES, Maintenance, compacted
from .model import StreamModel
from .position import COMPACTED, ROWS_OUT, Position, read_position
from .rows import Kept
from .session import show
from .writing import Columns, one_file, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sink(ABC):
    """A model's table, and its change feed where the model keeps one."""

    def __init__(self, spark: SparkSession, model: StreamModel, key: Sequence[str] | None = None) -> None:
        self.model = model
        self._table = load(spark, model.target)
        self._columns: Columns | None = None
        self._maintenance: Maintenance | None = None
        self._changes = Changes(spark, model, key) if model.changelog else None

    @property
    def exists(self) -> bool:
        """Whether the table was made."""
        return self._table is not None

    @property
    def table(self) -> IcebergTable:
        """The table, once it was made."""
        assert self._table is not None
        return self._table

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
        if found is None or COMPACTED in summary:
            return found
        return replace(found, rows_out=found.rows_out + self.own_rows(summary))

    def own_rows(self, summary: Mapping[str, str]) -> int:
        """The rows of the step that a commit is of, where the position in it doesn't count them."""
        return int(summary.get("added-records", 0))

    def begin(self, spark: SparkSession) -> None:
        """Get ready for the first step of a run."""
        self.table.set_defaults(PROPERTIES)
        position = self.position()
        if self._changes is not None and position is not None:
            self._changes.begin(spark, position)

    def maintain(self, spark: SparkSession) -> int:
        """Keep the table and the change feed small; how many commits that took."""
        if self._maintenance is None:
            self._maintenance = Maintenance(
                "table", self.model, self.table, self.model.retention, self._carried
            )
        commits = self._maintenance.after_commit(spark)
        return commits + (self._changes.maintain(spark) if self._changes is not None else 0)

    def _carried(self) -> Mapping[str, str]:
        position = self.position()
        counted = {} if position is None else {ROWS_OUT: str(position.rows_out)}
        return compacted(self.table.last_summary()) | counted

    @abstractmethod
    def put(self, spark: SparkSession, query: str, position: Position, few: bool) -> int:
        """Put a step's rows into the table, in one commit that carries `position`.

        Args:
            spark: the session of the micro-batch.
            query: the program's output.
            position: the step they belong to.
            few: they fit into one file.

        Returns:
            How many rows of the table changed.

        Raises:
            StreamError: the table has other columns.
        """

    def columns(self, spark: SparkSession, query: str) -> Columns:
        """The table's columns.

        Raises:
            StreamError: they aren't those of the query.
        """
        if self._columns is None:
            self._columns = Columns(spark.table(self.model.target).schema)
            self._check(spark.sql(query).columns, self._columns.names)
        return self._columns

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
            f"Model {self.model.name}: its table {self.model.target} has other columns than its query "
            f"({'; '.join(differences)}). To build it anew from its sources: {self.model.rebuild}."
        )


class AppendSink(Sink):
    """A table whose rows never change."""

    def put(self, spark: SparkSession, query: str, position: Position, few: bool) -> int:
        """See `Sink.put`."""
        made = self.columns(spark, query).select(spark, query)
        kept = Kept()
        try:
            if self._changes is not None:
                rows = spark.sql(made)
                kept.keep(rows)
                show(rows, "appended_rows")
                made = "select * from appended_rows"
                self._changes.append(
                    spark, f"select *, 'insert' as {CHANGE_TYPE} from appended_rows", position
                )
            with around("table.append", self.model.name):
                writer(spark.sql(one_file(made) if few else made), self.model.target, position).append()
        finally:
            kept.release()
        self.table.refresh()
        return self.table.count("added-records")
