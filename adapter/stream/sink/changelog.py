"""Writes ``<model>__changes``, the changelog: every change of a model's table, as append-only rows.

The changelog is the write-ahead log of the table. A micro-batch appends its changes in one commit before it writes
the table, so that inserted and deleted rows are still known. That commit decides: after a crash between the two, the
table gets the changes of the changelog. The query doesn't run again, since its result might differ (lookups, static
tables, ``uuid()``).

A table with a changelog keeps it, whoever writes the table. Where other writers have changed the table (a backfill, a
DELETE by hand), or the changelog is newer than the table, the next writer appends the differences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...query.program import BATCH_ID, CHANGE_TYPE
from ...util.quoting import quote as quoted
from ...util.types import column_types, type_text
from ..common.failpoints import around
from ..common.model import StreamModel
from ..common.session import sql
from ..common.table_rows import one_file_sql
from ..evolution.migration import Migration, widening_migration
from ..evolution.output_schema import Widening, widening
from ..iceberg import commit
from ..iceberg.maintenance import Maintenance, maintenance_of_read_table
from ..iceberg.ownership import foreign_error, owned_table
from ..iceberg.table import IcebergTable
from ..progress.position import FOLLOWS, PREFIX, Position, read_position
from ..storage.savepoints import CHANGELOG
from .change_types import ADDS, CHANGES_ID, DELETE, INSERT
from .changelog_retention import OldChanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPLACED_PROPERTY = f"{PREFIX}rows-are-replaced"
"""Table property that marks a model's table as updating."""
KEY_PROPERTY = f"{PREFIX}key"
"""Property of an updating table's changelog with its key columns, as JSON."""


class Changes:
    """The changelog of a model.

    Args:
        key: the key columns of the model's table; None if it has no key or is append-only.
        table: the changelog's table; None if it doesn't exist yet.
    """

    def __init__(self, model: StreamModel, key: Sequence[str] | None, table: IcebergTable | None) -> None:
        self._model, self._key, self._table = model, key, table
        self._maintenance: Maintenance | None = None
        self._old: OldChanges | None = None

    @property
    def exists(self) -> bool:
        return self._table is not None

    def position(self) -> Position | None:
        """Returns the position of the changelog's last commit; None if there is none."""
        return None if self._table is None else read_position(self._table.last_summary())

    def count_commits_after(self, step: tuple[int, int]) -> int:
        """Returns the number of micro-batches that were committed after an epoch."""
        count = 0
        for summary in self._table.summaries() if self._table is not None else ():
            position = read_position(summary)
            if position is not None and position.step <= step:
                break
            count += position is not None
        return count

    def append(
        self, spark: SparkSession, query: str, position: Position, notes: Mapping[str, str] | None = None
    ) -> None:
        """Appends a micro-batch's changes in one commit."""
        table = self._table or self._create_table(spark)
        last = table.last_summary()
        done = read_position(last)
        number = max(position.number, int(last.get(CHANGES_ID, done.number if done else -1)) + 1)
        columns = ", ".join(map(quoted, spark.table(self._model.changes).columns[:-1]))
        # One file, so that the two rows of an update are stored together. The number is no literal: Spark would
        # compile new code for each micro-batch.
        step = f"(select struct(*) from values ({number}L) as step(number)).number"
        rows = one_file_sql(f"select {columns}, {step} as {BATCH_ID} from (\n{query}\n)")
        properties = {**position.properties(), CHANGES_ID: str(number), **(notes or {})}
        commit.append("changelog.append", self._model, table, sql(spark, rows), properties)

    def last(self, spark: SparkSession) -> DataFrame:
        """Returns the changes of the last micro-batch in the changelog."""
        assert self._table is not None
        snapshot, before = self._table.last_stream_commit()
        if before is None:
            return spark.sql(f"select * from {self._table.snapshot_sql(snapshot)}")
        read = spark.read.option("start-snapshot-id", str(before)).option("end-snapshot-id", str(snapshot))
        return read.table(self._model.changes)

    def append_differences(
        self, spark: SparkSession, table: IcebergTable, position: Position | None, others: int | None
    ) -> None:
        """Appends the differences between table and changelog, if another writer has changed one of them.

        Args:
            table: the model's table.
            position: position of the table's last micro-batch.
            others: the newest snapshot in which another writer changed rows; None if there is none.
        """
        done = self.position()
        if position is None and others is None:
            # The position of the table's rows is unknown because its snapshots expired.
            others = table.known
            if others is None:
                if self._table is None and self._key is not None:
                    # Readers of the model need to know that its rows are updated before it has any.
                    self._create_table(spark)
                return
        is_even = done is not None and position is not None and done.is_same_step(position)
        if others is None and is_even:
            return
        noted = self._table.last_summary().get(FOLLOWS) if self._table is not None else None
        if others is not None and noted == str(others):
            return
        listed = ", ".join(quoted(field.name) for field in spark.table(self._model.target).schema.fields)
        assert table.known is not None
        counted = [(table.snapshot_sql(table.known), "1")]
        if self._table is not None:
            counted.append((self._model.changes, f"if({ADDS}, -1, 1)"))
        query = change_rows_sql(f"(\n{summed_changes_sql(listed, counted, '<> 0')}\n)", listed)
        step = position or Position(self._model.name, query_id=done.query_id if done else "", batch=-1)
        self.append(spark, query, step, {FOLLOWS: str(others)} if others is not None else None)

    def match_columns(self, spark: SparkSession) -> None:
        """Adds, drops and widens columns, so that they match the model's table."""
        if self._table is None:
            return
        table = {field.name.lower(): field for field in spark.table(self._model.target).schema.fields}
        own = [name.lower() for name in spark.table(self._model.changes).columns]
        add = {field.name: type_text(field.dataType) for name, field in table.items() if name not in own}
        drop = [name for name in own if name not in (*table, CHANGE_TYPE, BATCH_ID)]
        if add or drop:
            with around("changelog.columns", self._model.name):
                self._table.change_columns(Migration(add=add, drop=drop), before=CHANGE_TYPE)
        wider = Widening()
        for field in spark.table(self._model.changes).schema.fields:
            if (wants := table.get(field.name.lower())) is not None:
                kinds = (type_text(each.dataType) for each in (field, wants))
                wider |= widening((field.name,), *kinds) or Widening()
        if wider:
            with around("changelog.columns", self._model.name):
                self._table.change_columns(widening_migration(wider))

    def maintain(self, spark: SparkSession, rows: int) -> int:
        """Maintains the changelog of a table with `rows` rows. Returns the number of commits."""
        table = self._table
        if table is None:
            return 0
        if self._maintenance is None or self._old is None:
            self._old = OldChanges(self._model, table)
            self._maintenance = maintenance_of_read_table(
                "changelog", self._model, table, lambda: commit.rebase(self._model, table)
            )
        old = self._old
        return self._maintenance.maintain_after_commit(spark, lambda: old.compact(spark, rows))

    def _create_table(self, spark: SparkSession) -> IcebergTable:
        columns = {
            **column_types(spark.table(self._model.target).schema),
            CHANGE_TYPE: "string",
            BATCH_ID: "bigint",
        }
        settings = {} if self._key is None else {KEY_PROPERTY: json.dumps(list(self._key))}
        self._table = commit.create(spark, "changelog.create", self._model, CHANGELOG, columns, settings)
        return self._table


def summed_changes_sql(columns: str, counted: Sequence[tuple[str, str]], having: str) -> str:
    """Returns a query for the distinct rows of relations, with the number of each as `__stream_times`. `counted`: pairs of a
    relation and SQL for the number that each of its rows adds."""
    united = "\n  union all\n".join(
        f"  select {columns}, {sign} as __stream_sign from {relation}" for relation, sign in counted
    )
    return (
        f"select {columns}, sum(__stream_sign) as __stream_times from (\n{united}\n"
        f") group by {columns} having sum(__stream_sign) {having}"
    )


def change_rows_sql(differences: str, columns: str) -> str:
    """Returns a query with one row per change. `differences`: a relation whose column `__stream_times` has the number
    of inserted rows, negative for deleted ones."""
    return (
        f"select {columns}, if(__stream_times > 0, '{INSERT}', '{DELETE}') as {CHANGE_TYPE}\n"
        f"from {differences} lateral view explode(sequence(1L, abs(__stream_times))) as __stream_time"
    )


def changes_of(spark: SparkSession, model: StreamModel, key: Sequence[str] | None) -> Changes | None:
    """Returns a model's changelog if it exists or the model requires one; else None. Raises `StreamError` if a
    changelog is required, and another table has its name."""
    table = owned_table(spark, model, CHANGELOG)
    if table is None and model.changelog and spark.catalog.tableExists(model.changes):
        raise foreign_error(spark, model, CHANGELOG)
    return Changes(model, key, table) if table is not None or model.changelog else None
