"""``<model>__changes``: every change of a model's table as rows that are only ever added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..query.program import BATCH_ID, CHANGE_TYPE
from .failpoints import around
from .iceberg import IcebergTable, load
from .maintenance import PROPERTIES, Maintenance, compacted
from .model import StreamModel
from .position import PREFIX, Position, read_position
from .writing import literal, one_file, quoted, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLACED_PROPERTY = f"{PREFIX}rows-are-replaced"
"""The property of a model's table whose rows change."""
KEY_PROPERTY = f"{PREFIX}key"
"""The property of a feed's table with the columns that identify a row, as JSON. Only where rows change."""


class Changes:
    """The change feed of a model.

    A step's changes are appended in one commit before they are merged into the table, so that what the
    table lost and gained is still known then. A reader sees a retraction and its update together.
    """

    def __init__(self, spark: SparkSession, model: StreamModel, key: Sequence[str] | None) -> None:
        self._model, self._key = model, key
        self._table = load(spark, model.changes)
        self._maintenance: Maintenance | None = None

    def append(self, spark: SparkSession, query: str, position: Position) -> None:
        """Add a step's changes, unless a run that was cut short did.

        Args:
            spark: the session of the micro-batch.
            query: the rows of the table and ``_change_type``.
            position: the step.
        """
        if self._table is None:
            self._create(spark)
        assert self._table is not None
        done = read_position(self._table.last_summary())
        if done is not None and done.step >= position.step:
            return
        columns = ", ".join(map(quoted, spark.table(self._model.changes).columns[:-1]))
        # One file: the two rows of an update lie together.
        rows = one_file(f"select {columns}, {position.batch}L as {BATCH_ID} from (\n{query}\n)")
        with around("changelog.append", self._model.name):
            writer(spark.sql(rows), self._model.changes, position).append()
        self._table.refresh()

    def begin(self, spark: SparkSession, position: Position) -> None:
        """Make the feed of a table that was there before it: all of its rows are news.

        Args:
            spark: a session.
            position: the last step in the table.
        """
        if self._table is None:
            self.append(spark, f"select *, 'insert' as {CHANGE_TYPE} from {self._model.target}", position)

    def maintain(self, spark: SparkSession) -> int:
        """Keep the feed small; how many commits that took."""
        table = self._table
        if table is None:
            return 0
        if self._maintenance is None:
            table.set_defaults(PROPERTIES)
            self._maintenance = Maintenance(
                "changelog",
                self._model,
                table,
                self._model.retention,
                lambda: compacted(table.last_summary()),
            )
        return self._maintenance.after_commit(spark)

    def _create(self, spark: SparkSession) -> None:
        fields = spark.table(self._model.target).schema.fields
        columns = [f"{quoted(field.name)} {field.dataType.simpleString()}" for field in fields]
        columns += [f"{CHANGE_TYPE} string", f"{BATCH_ID} bigint"]
        properties = ""
        if self._key is not None:
            properties = f" tblproperties ({literal(KEY_PROPERTY)} = {literal(json.dumps(list(self._key)))})"
        with around("changelog.create", self._model.name):
            spark.sql(f"create table {self._model.changes} ({', '.join(columns)}) using iceberg{properties}")
        self._table = IcebergTable(spark, self._model.changes)
