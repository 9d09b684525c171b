"""Writes each micro-batch's output to the model's table, exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...query.program import BATCH_ID, CHANGE_TYPE
from ..common.errors import StreamError
from ..common.failpoints import around
from ..common.model import IGNORE, StreamModel
from ..common.session import register_view, sql
from ..common.table_rows import Columns, one_file_sql
from ..evolution.migration import Migration, widening_migration
from ..evolution.output_schema import Widening, check_same_columns, check_storable
from ..iceberg import commit
from ..iceberg.maintenance import Maintenance, maintenance_of_read_table
from ..iceberg.table import DELETED, EXPIRED, FOLLOWED, RECORDS, IcebergTable, load_table
from ..progress.position import Position, read_position
from ..sources.rows import BatchCache, scan_cached
from ..sources.source_schemas import SchemaChanged
from . import incremental_runs
from .change_types import INSERT
from .changelog import REPLACED_PROPERTY, Changes, changes_of
from .constraints import with_checks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DECIDED = "decided_changes"
"""View of changes that are in the changelog and not yet in the table."""


class Sink(ABC):
    """A model's table, and its changelog if the model keeps one."""

    _replaces_rows = False
    """Whether rows of the table change, so that a stream that reads it needs the changelog."""

    def __init__(self, spark: SparkSession, model: StreamModel, key: Sequence[str] | None = None) -> None:
        self.model = model
        self._table = load_table(spark, model.target)
        self._columns: Columns | None = None
        self._followed: int | None = None
        """The table's snapshot up to which the changelog is complete, while the changelog lacks changes of other writers;
        else None."""
        self._maintenance: Maintenance | None = None
        self.changes = changes_of(spark, model, key)
        """The changelog; None if the model keeps none."""

    @property
    def exists(self) -> bool:
        return self._table is not None

    @property
    def table(self) -> IcebergTable:
        """The table, which must exist."""
        assert self._table is not None
        return self._table

    @property
    def rows(self) -> int:
        """Number of rows in the table, from its newest snapshot."""
        if self._table is None:
            return 0
        # After another writer's compaction, deletes of removed rows may remain.
        return max(0, self._table.summary_count(RECORDS) - self._table.summary_count(DELETED))

    @property
    def is_written(self) -> bool:
        """Whether the table has a snapshot."""
        return self._table is not None and self._table.known is not None

    @property
    def has_full_history(self) -> bool:
        """Whether no ancestor of the table's current snapshot has expired."""
        return self.is_written and EXPIRED not in self.table.past_operations()

    @property
    def has_incremental_runs(self) -> bool:
        """Whether incremental runs have written to the current table since the stream ran."""
        return self._table is not None and incremental_runs.have_written(self._table)

    def position(self) -> Position | None:
        """Returns the position of the last micro-batch in the table, whose counts include the rows of that micro-batch;
        None if there is none."""
        if self._table is None:
            return None
        summary = self._table.last_summary()
        found = read_position(summary)
        if found is None:
            return None
        return replace(found, rows_out=found.rows_out + self.uncounted_rows(summary))

    def uncounted_rows(self, summary: Mapping[str, str]) -> int:
        """Returns the number of rows that a commit added, from its summary; 0 if its position already counts them."""
        return int(summary.get("added-records", 0))

    def changes_ahead(self) -> int:
        """Returns the number of micro-batches that are in the changelog and not in the table."""
        position = self.position()
        if self.changes is None or (position is None and self.is_written):
            return 0
        return self.changes.count_commits_after(position.step if position is not None else (-1, 0))

    def prepare_for_run(self, spark: SparkSession) -> None:
        """Reconciles table and changelog before the first micro-batch of a run. The table gets the changes that a crash left
        only in the changelog, and the changelog gets other writers' changes of the table. Marks an updating table as such,
        and removes the mark from a table that is no longer updating."""
        incremental_runs.forget(self.table)
        if self.changes is not None:
            self._reconcile_with_changelog(spark, self.changes)
        mark = "true" if self._replaces_rows else None
        if self.table.property(REPLACED_PROPERTY) != mark:
            with around("table.property", self.model.name):
                self.table.set_properties({REPLACED_PROPERTY: mark})

    def _reconcile_with_changelog(self, spark: SparkSession, changes: Changes) -> None:
        # A run may have ended after changing the table's columns.
        changes.match_columns(spark)
        others = self.table.newest_change_by_others()
        decided, position = changes.position(), self.position()
        if decided is not None and self._lacks_decided_batch(decided, position):
            # The commit records the snapshot before other writers' changes, so that they are found after a crash.
            self._followed = None if others is None else self.table.followed_snapshot()
            with BatchCache() as cache:
                rows = changes.last(spark)
                cache.persist(rows)
                register_view(scan_cached(rows), DECIDED)
                self._write_decided_changes(spark, decided)
            position = self.position()
        changes.append_differences(spark, self.table, position, others)
        self._followed = None

    def record_changes_by_others(self, spark: SparkSession) -> None:
        """Appends to the changelog other writers' changes of the table since the last micro-batch."""
        if commit.rebase(self.model, self.table) and self.changes is not None:
            self.changes.append_differences(
                spark, self.table, self.position(), self.table.newest_change_by_others()
            )

    def maintain(self, spark: SparkSession) -> int:
        """Maintains table and changelog. Returns the number of commits."""
        if self._maintenance is None:
            self._maintenance = maintenance_of_read_table(
                "table", self.model, self.table, lambda: self.record_changes_by_others(spark)
            )
        commits = self._maintenance.maintain_after_commit(spark)
        return commits + (self.changes.maintain(spark, self.rows) if self.changes is not None else 0)

    def _lacks_decided_batch(self, decided: Position, position: Position | None) -> bool:
        if position is None:
            # A table whose snapshots expired has no position; an earlier check found that no micro-batch is missing.
            return not self.is_written
        return decided.is_after(position)

    @abstractmethod
    def _write_decided_changes(self, spark: SparkSession, position: Position) -> None:
        """Writes the changes in the view `DECIDED` to the table, in one commit that carries `position`."""

    @abstractmethod
    def put(self, spark: SparkSession, query: str, position: Position, few: bool, cache: BatchCache) -> int:
        """Writes a micro-batch's output to the table, in one commit that carries `position`. Returns the number of rows
        changed in the table. Raises if the output has other columns than the table. `few`: whether the rows fit into one
        file."""

    def _append(self, rows: DataFrame, position: Position) -> None:
        # With a changelog, other writers' changes are appended to it before the next micro-batch.
        kept = self.changes is not None
        commit.append(
            "table.append", self.model, self.table, rows, self._snapshot_properties(position), by_anyone=kept
        )

    def _snapshot_properties(self, position: Position) -> dict[str, str]:
        """Returns the snapshot properties of a commit to the table."""
        followed = {} if self._followed is None else {FOLLOWED: str(self._followed)}
        return {**position.properties(), **followed}

    def columns(self, spark: SparkSession, query: str) -> Columns:
        """Returns the table's columns. Raises if the query has other columns; raises `SchemaChanged` if it has more
        columns than when it was planned."""
        if self._columns is None:
            found, columns = spark.sql(query).columns, self.table_columns(spark)
            planned = None if self.model.columns is None else {name.lower() for name in self.model.columns}
            if planned and (more := [name for name in found if name.lower() not in planned]):
                raise SchemaChanged(self.model.name, "a static table that it joins", more)
            check_same_columns(self.model, found, columns.names)
            self._columns = columns
        return self._columns

    def checked_sql(self, spark: SparkSession, query: str) -> str:
        """Returns SQL for the rows of a query with the table's columns, checked against the contract's constraints."""
        columns = self.columns(spark, query)
        return with_checks(self.model, columns.select(spark, query), columns.names)

    def table_columns(self, spark: SparkSession) -> Columns:
        """Returns the table's columns, without a comparison to the query's."""
        schema = spark.table(self.model.target).schema
        return Columns(schema, drop_unknown=self.model.on_schema_change == IGNORE, rebuild=self.model.rebuild)

    def check_dropped_columns(self, names: Sequence[str]) -> None:
        """Raises if the table is partitioned by one of the columns to drop: Iceberg doesn't drop such a column."""
        dropped = {name.lower() for name in names}
        for name in self.table.partition_columns() if dropped else ():
            if dropped & {name.lower(), name.lower().partition(".")[0]}:
                raise StreamError(
                    f"Model {self.model.name}: the table is partitioned by {name}, which the query no longer gives, and "
                    "Iceberg can't drop it. Keep the column in the query, set on_schema_change to 'append_new_columns', or "
                    f"rebuild the table with another 'partition_by': {self.model.rebuild}."
                )

    def change_columns(self, spark: SparkSession, add: Mapping[str, str], drop: Sequence[str]) -> None:
        """Adds and drops columns of the table and its changelog. Existing rows are NULL in new columns."""
        if not add and not drop:
            return
        check_storable(self.model, add)
        with around("table.columns", self.model.name):
            self.table.change_columns(Migration(add=add, drop=drop))
        self._columns = None
        if self.changes is not None:
            self.changes.match_columns(spark)

    def widen_columns(self, spark: SparkSession, wider: Widening) -> None:
        """Widens columns of the table and its changelog, in a new snapshot, because a snapshot has the columns of its
        time."""
        if not wider:
            return
        position = self.position()
        if position is None:
            with around("table.columns", self.model.name):
                self.table.change_columns(widening_migration(wider))
        else:
            change = commit.TableChange(widening_migration(wider))
            commit.migrate(
                "table.widen",
                self.model,
                self.table,
                change,
                self._snapshot_properties(position),
                by_anyone=False,
            )
        self._columns = None
        if self.changes is not None:
            self.changes.match_columns(spark)


class AppendSink(Sink):
    """A table whose rows never change."""

    def put(self, spark: SparkSession, query: str, position: Position, few: bool, cache: BatchCache) -> int:
        self.record_changes_by_others(spark)
        made = self.checked_sql(spark, query)
        if self.changes is not None:
            rows = spark.sql(made)
            cache.persist(rows)
            register_view(scan_cached(rows), "appended_rows")
            made = "select * from appended_rows"
            self.changes.append(spark, f"select *, '{INSERT}' as {CHANGE_TYPE} from appended_rows", position)
        self._append(sql(spark, one_file_sql(made) if few else made), position)
        return self.table.summary_count("added-records")

    def _write_decided_changes(self, spark: SparkSession, position: Position) -> None:
        self._append(spark.sql(f"select * except ({CHANGE_TYPE}, {BATCH_ID}) from {DECIDED}"), position)
