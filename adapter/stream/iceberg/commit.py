"""Conditional commits: optimistic concurrency control between two runs of a model.

Two runs of a model that don't see each other's lock (on machines that share an object store, say) may execute the same
micro-batch. Each run knows the newest snapshot that it has read or committed. Its commit only succeeds if no other run has
committed after that: Iceberg validates this on each attempt, right before the catalog swaps the table's metadata, so both
runs can't commit. The second run fails without writing anything.

Spark's own writers commit without such a condition. So Spark only writes the files, in the way of a compaction, and this
module commits them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ..common.errors import StreamError
from ..common.failpoints import around, reached
from ..common.model import StreamModel
from ..common.session import java_class, jvm, static_method
from ..evolution.migration import Migration
from ..progress import query_metrics
from . import position_deletes
from .ownership import foreign_error, owned_table, ownership_properties, role_table_name
from .table import (
    COMMIT,
    REPLACE,
    IcebergTable,
    change_columns,
    columns_in_spark,
    is_of_stream,
    java_elements,
    set_properties,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_WRITTEN = "written_files"
_CATALOG_OF_FILES = "org.apache.iceberg.spark.SparkRewriteTableCatalog"
"""Iceberg's catalog of tables for which files are written without being committed."""
_EXECUTORS = "org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors"
_INVALID = "org.apache.iceberg.exceptions.ValidationException"
"""Iceberg's exception if files that a commit is based on are gone."""
_LINEAGE = ("_row_id", "_last_updated_sequence_number")


def create(
    spark: SparkSession,
    point: str,
    model: StreamModel,
    role: str,
    columns: Mapping[str, str],
    settings: Mapping[str, str],
    partitioned: str = "",
) -> IcebergTable:
    """Creates a table that didn't exist when this run looked.

    Args:
        columns: the types of the columns, by name.
        settings: properties in addition to those of `ownership`.
        partitioned: the clause of CREATE TABLE for the partitions; empty for none.

    Raises:
        StreamError: another run of the model has created it, or a foreign table or view has that name.
    """
    from pyspark.errors import AnalysisException

    name = role_table_name(model, role)
    typed = ", ".join(f"{quoted(column)} {kind}" for column, kind in columns.items())
    listed = ", ".join(
        f"{literal(key)} = {literal(value)}"
        for key, value in {**settings, **ownership_properties(role, model.target)}.items()
    )
    with around(point, model.name):
        try:
            spark.sql(f"create table {name} ({typed}) using iceberg {partitioned} tblproperties ({listed})")
        except AnalysisException as problem:
            if problem.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS":
                raise
            if not spark.catalog.tableExists(name):
                raise StreamError(
                    f"Model {model.name}: it has to create the table {name}, but there is a view of that name. Rename "
                    "one of the two."
                ) from problem
            if owned_table(spark, model, role) is None:
                raise foreign_error(spark, model, role) from problem
            raise StreamError(_other_run_message(model, name)) from problem
    return IcebergTable(spark, name)


def append(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    rows: DataFrame | None,
    properties: Mapping[str, str],
    by_anyone: bool = False,
) -> None:
    """Appends rows to a table. Writers other than streams may have committed to it meanwhile.

    Args:
        rows: rows with the table's columns. None for a commit that only carries properties.
        by_anyone: whether to also refuse the commit if any other writer has changed rows.
    """
    with around(point, model.name):
        files = _write_files(rows, table.java)
        reached(f"{point}:written", model.name)
        update = table.java.newAppend()
        for file in files:
            update.appendFile(file)
        _commit_update(model, table, update, files, properties, by_anyone=by_anyone)


def overwrite(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    rows: DataFrame,
    properties: Mapping[str, str] | Callable[[], Mapping[str, str] | None],
    parts: Sequence[str] | None = None,
) -> None:
    """Replaces rows of a table. Fails if anybody has changed rows meanwhile.

    Args:
        rows: the new rows, with the table's columns.
        properties: properties of the snapshot, or a function that returns them after the rows are written. If it returns
            None, the table stays unchanged.
        parts: the values of the partition column ``part`` whose rows are replaced. Default: all rows.
    """
    with around(point, model.name):
        files = _write_files(rows, table.java)
        reached(f"{point}:written", model.name)
        notes = properties() if callable(properties) else properties
        if notes is None:
            with suppress(Exception):  # `dbt-stream clean` removes files that are left
                _delete_files(table, files)
            return
        update = table.java.newOverwrite().overwriteByRowFilter(_partition_filter(rows.sparkSession, parts))
        for file in files:
            update.addFile(file)
        _commit_update(model, table, update, files, notes, by_anyone=True)


class DataFilesGone(Exception):
    """Data files with rows to delete are gone from the table, which was compacted or rolled back. Nothing was changed."""


def insert_and_delete(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    rows: DataFrame | None,
    gone: DataFrame,
    files: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Inserts and deletes rows of a table in one commit. Fails if anybody has changed rows meanwhile.

    Args:
        table: the table, for which `position_deletes.are_possible`.
        rows: the rows to insert, with the table's columns, or None.
        gone: the positions of the rows to delete: columns `position_deletes.PATH` and `POSITION`, sorted by both.
        files: the distinct paths in `gone`.

    Raises:
        DataFilesGone: another writer has compacted the table or rolled it back.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import IllegalArgumentException

    spark = gone.sparkSession
    with around(point, model.name):
        added = _write_files(rows, table.java)
        deletes = _write_files(gone, position_deletes.position_delete_table(spark, table.java))
        reached(f"{point}:written", model.name)
        update = table.java.newRowDelta()
        for file in added:
            update.addRows(file)
        for file in deletes:
            update.addDeletes(position_deletes.to_delete_file(spark, table.java, file))
        assert table.known is not None
        paths = jvm(spark).java.util.ArrayList()
        for path in files:
            paths.add(path)
        update.validateFromSnapshot(table.known).validateDataFilesExist(paths).validateDeletedFiles()
        try:
            _commit_update(model, table, update, [*added, *deletes], properties, by_anyone=True)
        except (Py4JJavaError, IllegalArgumentException) as problem:
            # Iceberg raises IllegalArgumentException if the snapshot isn't an ancestor of the current one.
            if isinstance(problem, Py4JJavaError) and problem.java_exception.getClass().getName() != _INVALID:
                raise
            _delete_files(table, [*added, *deletes])
            raise DataFilesGone from problem


class Files(NamedTuple):
    """Files of a table, and their rows."""

    rows: DataFrame
    java: Sequence[Any]
    """Iceberg's objects of the files."""


@contextmanager
def files_with_values_up_to(
    spark: SparkSession, table: IcebergTable, column: str, value: int
) -> Iterator[Files]:
    """Yields the files of the known snapshot that may have rows with at most `value` in a column. Their rows can only be
    read inside the block. The table must not have delete files."""
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    wanted = expressions.lessThanOrEqual(column, value)
    scan = table.java.newScan().useSnapshot(table.known).filter(wanted).planFiles()
    tasks = jvm(spark).java.util.ArrayList()
    for task in java_elements(scan.iterator()):
        tasks.add(task)
    scan.close()
    cache = static_method(spark, "org.apache.iceberg.spark.SparkTableCache", "get")()
    staged = static_method(spark, "org.apache.iceberg.spark.ScanTaskSetManager", "get")()
    name = str(uuid.uuid4())
    spark.conf.set(f"spark.sql.catalog.{_WRITTEN}", _CATALOG_OF_FILES)
    cache.add(name, table.java)
    staged.stageTasks(table.java, name, tasks)
    try:
        yield Files(
            spark.table(f"{_WRITTEN}.`{name}`"), [task.file() for task in java_elements(tasks.iterator())]
        )
    finally:
        staged.removeTasks(table.java, name)
        cache.remove(name)


def replace_files(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    files: Files,
    rows: DataFrame,
    properties: Mapping[str, str],
    settings: Mapping[str, str],
) -> None:
    """Replaces files by files with equivalent rows, as a compaction does. Streams that read the table skip the snapshot.
    `rows`: the equivalent rows, with the table's columns."""
    with around(point, model.name):
        written = _write_files(rows, table.java)
        reached(f"{point}:written", model.name)
        transaction = table.java.newTransaction()
        set_properties(transaction, settings)
        update = transaction.newRewrite().validateFromSnapshot(table.known)
        for file in files.java:
            update.deleteFile(file)
        for file in written:
            update.addFile(file)
        _commit_update(model, table, update, written, properties, by_anyone=False, transaction=transaction)


@dataclass(frozen=True)
class TableChange:
    """Changes of a table that are made in one commit."""

    columns: Migration
    """Changes of columns and partitions."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Properties to set."""
    added: Callable[[StructType], DataFrame] | None = None
    """Returns the rows to add, for the schema after the change; None to add none."""


def migrate(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    change: TableChange,
    properties: Mapping[str, str],
    by_anyone: bool = True,
) -> None:
    """Changes a table's columns and properties, empties partitions, and adds rows, all in one commit."""
    with around(point, model.name):
        table.refresh()  # a savepoint may have changed the metadata meanwhile
        transaction = table.java.newTransaction()
        change_columns(table.spark, transaction.updateSchema(), change.columns)
        set_properties(transaction, change.settings)
        then = transaction.table()
        added = None if change.added is None else change.added(columns_in_spark(table.spark, then))
        files = _write_files(added, then)
        if emptied := change.columns.emptied_tables:
            update = transaction.newOverwrite().overwriteByRowFilter(_partition_filter(table.spark, emptied))
        else:
            # Appends even without rows, because reading a snapshot uses its schema, and state is read by snapshot.
            update = transaction.newAppend()
        for file in files:
            (update.addFile if emptied else update.appendFile)(file)
        reached(f"{point}:written", model.name)
        _commit_update(model, table, update, files, properties, by_anyone=by_anyone, transaction=transaction)


def rebase(model: StreamModel, table: IcebergTable, by_anyone: bool = False) -> bool:
    """Rebases on commits that other writers made since this run's last commit to a table.

    Args:
        by_anyone: whether to refuse other writers that have changed rows.

    Returns:
        Whether other writers have committed.

    Raises:
        StreamError: another run of the model has written the table, or a refused writer has changed rows.
    """
    table.refresh()
    if not CommitCondition(table.known, by_anyone).holds(table.snapshots()):
        raise StreamError(_other_run_message(model, table.name))
    known, table.known = table.known, table.snapshot_id
    return table.known != known


def rebase_on_own_commit(model: StreamModel, table: IcebergTable, name: str) -> None:
    """Rebases on a commit that Spark has just made for this run. Raises if another run has committed just before."""
    before = CommitCondition(table.known)
    if not (table.advance_to_commit(name) and before.holds(table.ancestors_of_known())):
        raise StreamError(
            f"Model {model.name}: another run of it wrote {table.name} at the same moment, so rows of the two may be mixed "
            f"in it. Let one run at a time write the model. To rebuild it: {model.rebuild}."
        )


class CommitCondition:
    """The condition of a commit: nobody else has committed to the table since a snapshot.

    Args:
        known: the snapshot that the commit is based on, or None if the table had none.
        by_anyone: whether commits of writers other than streams count, too, if they changed rows.
        name: the id of the commit, its property `COMMIT`.
    """

    def __init__(self, known: int | None, by_anyone: bool = False, name: str | None = None) -> None:
        self._known, self._by_anyone, self._name = known, by_anyone, name
        self.refused = False

    def holds(self, snapshots: Iterator[Any]) -> bool:
        """Returns whether no other writer has committed after the known snapshot. `snapshots`: the newest first."""
        moved = False
        for snapshot in snapshots:
            if int(snapshot.snapshotId()) == self._known:
                return not moved
            if self._name is not None and snapshot.summary().get(COMMIT) == self._name:
                # Iceberg retries a commit that the catalog didn't confirm. Refusing it would make Iceberg delete its files.
                raise RuntimeError("this commit is made already")
            if is_of_stream(snapshot) or (self._by_anyone and str(snapshot.operation()) != REPLACE):
                moved = True
            if snapshot.parentId() == self._known is not None:
                return not moved  # though the snapshot itself may have expired
        return self._known is None and not moved

    def validate(self, ancestors: Any) -> bool:
        """Checks the condition. Iceberg calls it with the table's snapshots right before the commit."""
        self.refused = not self.holds(java_elements(ancestors.iterator()))
        return not self.refused

    def errorMessage(self) -> str:
        """Returns the text that Iceberg adds to its own message."""
        return "another run has committed"

    class Java:
        """Names the Java interface that py4j implements with this class."""

        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)


def _commit_update(
    model: StreamModel,
    table: IcebergTable,
    update: Any,
    files: Sequence[Any],
    properties: Mapping[str, str],
    by_anyone: bool,
    transaction: Any = None,
) -> None:
    name = str(uuid.uuid4())
    for key, value in {**properties, COMMIT: name}.items():
        update.set(key, value)
    condition = CommitCondition(table.known, by_anyone, name)
    update.validateWith(condition)
    if model.storage.is_local:
        # Iceberg's worker threads poll every 10 ms, some five times per commit. On a local disk the few manifests are
        # processed faster in the calling thread.
        update.scanManifestsWith(static_method(table.spark, _EXECUTORS, "newDirectExecutorService")())
    try:
        update.commit()
        if transaction is not None:
            transaction.commitTransaction()
    except Exception as problem:
        if condition.refused or (transaction is not None and _was_overtaken(table, by_anyone, name)):
            _delete_files(table, files)
            raise StreamError(_other_run_message(model, table.name)) from problem
        # The commit may have succeeded although the catalog failed. If even this is unknown, the first error says more.
        with suppress(Exception):
            if table.advance_to_commit(name):
                return
        raise
    else:
        # Others may have committed since: `known` becomes the snapshot of this commit, not the newest.
        if not table.advance_to_commit(name):
            raise StreamError(_other_run_message(model, table.name))


def _delete_files(table: IcebergTable, files: Sequence[Any]) -> None:
    """Deletes files that are in no snapshot."""
    for file in files:
        table.java.io().deleteFile(file.location())


def _was_overtaken(table: IcebergTable, by_anyone: bool, name: str) -> bool:
    """Returns whether another run has committed, and the commit `name` of this run is not in the table. Iceberg doesn't
    retry a transaction with schema changes, so it doesn't validate the condition again."""
    try:
        table.refresh()
        return not CommitCondition(table.known, by_anyone, name).holds(table.snapshots())
    except Exception:
        return False  # the first error says more, or the commit succeeded


def _write_files(rows: DataFrame | None, table: Any) -> list[Any]:
    """Writes rows, if any, to files of a table without committing them, and returns Iceberg's objects of the files."""
    from pyspark.sql import functions as F

    if rows is None:
        return []
    spark = rows.sparkSession
    tables = static_method(spark, "org.apache.iceberg.spark.SparkTableCache", "get")()
    coordinator = static_method(spark, "org.apache.iceberg.spark.FileRewriteCoordinator", "get")()
    name = str(uuid.uuid4())
    if java_class(spark, "org.apache.iceberg.TableUtil").supportsRowLineage(table):
        # From format version 3 on a compaction writes existing row ids. NULL makes the commit assign new ones.
        rows = rows.withColumns({column: F.lit(None).cast("bigint") for column in _LINEAGE})
    # Set in the session of the rows, because Iceberg itself sets it in the thread's session, which may be another.
    spark.conf.set(f"spark.sql.catalog.{_WRITTEN}", _CATALOG_OF_FILES)
    tables.add(name, table)
    try:
        query_metrics.append_and_record_plan(rows, f"{_WRITTEN}.`{name}`")
        return list(java_elements(coordinator.fetchNewFiles(table, name).iterator()))
    finally:
        tables.remove(name)
        coordinator.clearRewrite(table, name)


def _partition_filter(spark: SparkSession, parts: Sequence[str] | None) -> Any:
    """Returns Iceberg's expression for the rows of partitions of the column ``part``, or of all rows."""
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    if parts is None:
        return expressions.alwaysTrue()
    found = expressions.alwaysFalse()
    for part in parts:
        found = getattr(expressions, "or")(found, expressions.equal("part", part))
    return found


def _other_run_message(model: StreamModel, table: str) -> str:
    return (
        f"Model {model.name}: {table} was written by another run meanwhile (or somebody changed its rows), so this run "
        "ended without writing its rows. Let one run at a time write the model; the next run continues from there."
    )
