"""Commits of a step, which one run alone can make: the tables themselves are the lock.

Two runs of a model that don't see each other's lock (on machines that share an object store, say) may carry out the
same step. Each run knows the snapshots it has seen or made. Its commit goes through only while no other run's commit
came after them: Iceberg asks again on each attempt, right before the catalog swaps the table's metadata, so there is
no moment at which both can commit. The run that comes second ends with nothing written.

Spark's own writers commit without a condition. So Spark writes the files as it does in a compaction, which leaves the
commit to whoever started it, and the commit is made here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.errors import StreamError
from ..common.failpoints import around, reached
from ..common.model import StreamModel
from ..common.session import java_class, jvm, static_method
from ..evolution.migration import Migration
from ..progress import query_metrics
from . import position_deletes
from .ownership import foreign, name_of, owned
from .table import (
    COMMIT,
    REPLACE,
    IcebergTable,
    change_columns,
    columns_in_spark,
    each_of,
    is_of_stream,
    narrow_columns,
    promote_columns,
    set_properties,
    widen_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_WRITTEN = "written_files"
_CATALOG_OF_FILES = "org.apache.iceberg.spark.SparkRewriteTableCatalog"
"""Iceberg's catalog of tables that files are written for, and not yet committed to."""
_GUAVA = "org.apache.iceberg.relocated.com.google.common"
_INVALID = "org.apache.iceberg.exceptions.ValidationException"
_LINEAGE = ("_row_id", "_last_updated_sequence_number")


def create(spark: SparkSession, point: str, model: StreamModel, role: str, description: str) -> IcebergTable:
    """Make a table, which isn't there as far as this run knows.

    Args:
        spark: a session.
        point: what it is called as a fail point.
        model: whose table it is.
        role: as what it is made (see `ownership`).
        description: what follows the name in CREATE TABLE.

    Raises:
        StreamError: another run of the model has made it, or the name is somebody else's table or view.
    """
    from pyspark.errors import AnalysisException

    name = name_of(model, role)
    with around(point, model.name):
        try:
            spark.sql(f"create table {name} {description}")
        except AnalysisException as problem:
            if problem.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS":
                raise
            if not spark.catalog.tableExists(name):
                raise StreamError(
                    f"Model {model.name}: it has to make the table {name}, and a view of that name is there. Rename one of "
                    "the two."
                ) from problem
            if owned(spark, model, role) is None:
                raise foreign(spark, model, role) from problem
            raise StreamError(_of_another_run(model, name)) from problem
    return IcebergTable(spark, name)


def append(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    rows: DataFrame | None,
    properties: Mapping[str, str],
    by_anyone: bool = False,
) -> None:
    """Add rows to a table. Others than a stream may have written it meanwhile.

    Args:
        point: what it is called as a fail point.
        model: whose table it is.
        table: the table.
        rows: with its columns; None: none, the commit says only how far the model has come.
        properties: of the snapshot.
        by_anyone: whether nobody else may have changed rows of the table either.

    Raises:
        StreamError: another run of the model has written the table; nothing was added.
    """
    with around(point, model.name):
        files = [] if rows is None else _written(rows, table.java)
        reached(f"{point}:written", model.name)
        update = table.java.newAppend()
        for file in files:
            update.appendFile(file)
        _commit(model, table, update, files, properties, by_anyone)


def overwrite(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    rows: DataFrame,
    properties: Mapping[str, str],
    parts: Sequence[str] | None = None,
) -> None:
    """Put rows in the place of others. Nobody may have changed rows of the table meanwhile.

    Args:
        point: what it is called as a fail point.
        model: whose table it is.
        table: the table.
        rows: with its columns.
        properties: of the snapshot.
        parts: the values of the column ``part``, by which the table is partitioned, whose rows go; None: all rows go.

    Raises:
        StreamError: somebody has written the table; nothing was changed.
    """
    overwrite_if(point, model, table, rows, lambda: properties, parts)


def overwrite_if(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    rows: DataFrame,
    properties: Callable[[], Mapping[str, str] | None],
    parts: Sequence[str] | None = None,
) -> None:
    """The same, if it turns out to be wanted once the rows are written.

    Args:
        point: what it is called as a fail point.
        model: whose table it is.
        table: the table.
        rows: with its columns.
        properties: says those of the snapshot, after the rows were written; None: the table is to stay as it is.
        parts: as in `overwrite`.

    Raises:
        StreamError: somebody has written the table; nothing was changed.
    """
    with around(point, model.name):
        files = _written(rows, table.java)
        reached(f"{point}:written", model.name)
        notes = properties()
        if notes is None:
            with suppress(Exception):  # `clean` finds what is left
                _delete(table, files)
            return
        update = table.java.newOverwrite().overwriteByRowFilter(_rows_of(rows.sparkSession, parts))
        for file in files:
            update.addFile(file)
        _commit(model, table, update, files, notes, by_anyone=True)


class Moved(Exception):
    """Files of which rows are to go aren't the table's any more, as it was compacted; or it is of another format, or another
    snapshot's. Nothing was changed."""


def change(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    rows: DataFrame | None,
    gone: DataFrame,
    files: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Add rows to a table and take others away, in one commit. Nobody may have changed rows of the table meanwhile.

    Args:
        point: what it is called as a fail point.
        model: whose table it is.
        table: the table, of which `position_deletes.are_possible`.
        rows: that come, with its columns; None: none do.
        gone: where those are that go: `position_deletes.PATH` and `POSITION`, in that order and ordered by them.
        files: the paths in it.
        properties: of the snapshot.

    Raises:
        Moved: others have compacted it.
        StreamError: somebody has written the table; nothing was changed.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import IllegalArgumentException

    spark = gone.sparkSession
    with around(point, model.name):
        added = [] if rows is None else _written(rows, table.java)
        deletes = _written(gone, position_deletes.table_of_deletes(spark, table.java))
        reached(f"{point}:written", model.name)
        update = table.java.newRowDelta()
        for file in added:
            update.addRows(file)
        for file in deletes:
            update.addDeletes(position_deletes.as_deletes(spark, table.java, file))
        assert table.known is not None
        paths = jvm(spark).java.util.ArrayList()
        for path in files:
            paths.add(path)
        update.validateFromSnapshot(table.known).validateDataFilesExist(paths).validateDeletedFiles()
        try:
            _commit(model, table, update, [*added, *deletes], properties, by_anyone=True)
        except (Py4JJavaError, IllegalArgumentException) as problem:
            # The second is said of a snapshot that the table's newest doesn't come from.
            if isinstance(problem, Py4JJavaError) and not _is_invalid(problem):
                raise
            _delete(table, [*added, *deletes])
            raise Moved from problem


class Files(NamedTuple):
    """Files of a table, and their rows."""

    rows: DataFrame
    java: Sequence[Any]
    """As Iceberg describes them."""


@contextmanager
def files_up_to(spark: SparkSession, table: IcebergTable, column: str, value: int) -> Iterator[Files]:
    """Yields the files of a table, as it is known, that may have a row with at most that value of a column.

    They are read inside; the table has no deletes.
    """
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    wanted = expressions.lessThanOrEqual(column, value)
    scan = table.java.newScan().useSnapshot(table.known).filter(wanted).planFiles()
    tasks = jvm(spark).java.util.ArrayList()
    for task in each_of(scan.iterator()):
        tasks.add(task)
    scan.close()
    cache = static_method(spark, "org.apache.iceberg.spark.SparkTableCache", "get")()
    staged = static_method(spark, "org.apache.iceberg.spark.ScanTaskSetManager", "get")()
    name = str(uuid.uuid4())
    spark.conf.set(f"spark.sql.catalog.{_WRITTEN}", _CATALOG_OF_FILES)
    cache.add(name, table.java)
    staged.stageTasks(table.java, name, tasks)
    try:
        yield Files(spark.table(f"{_WRITTEN}.`{name}`"), [task.file() for task in each_of(tasks.iterator())])
    finally:
        staged.removeTasks(table.java, name)
        cache.remove(name)


def replace(
    point: str,
    model: StreamModel,
    table: IcebergTable,
    files: Files,
    rows: DataFrame,
    properties: Mapping[str, str],
    settings: Mapping[str, str],
) -> None:
    """Put rows that say the same in the place of those of some files. Streams that read the table pass over it.

    Args:
        point: what it is called as a fail point.
        model: whose table it is.
        table: the table.
        files: that go.
        rows: that come, with its columns.
        properties: of the snapshot.
        settings: properties of the table.

    Raises:
        StreamError: another run of the model has written the table; nothing was changed.
    """
    with around(point, model.name):
        written = _written(rows, table.java)
        reached(f"{point}:written", model.name)
        transaction = table.java.newTransaction()
        set_properties(transaction, settings)
        update = transaction.newRewrite().validateFromSnapshot(table.known)
        for file in files.java:
            update.deleteFile(file)
        for file in written:
            update.addFile(file)
        _commit(model, table, update, written, properties, by_anyone=False, transaction=transaction)


def migrate(
    spark: SparkSession,
    point: str,
    model: StreamModel,
    table: IcebergTable,
    change: Migration,
    settings: Mapping[str, str],
    properties: Mapping[str, str],
    added: Callable[[StructType], DataFrame] | None = None,
    by_anyone: bool = True,
) -> None:
    """Change a table's columns, its properties and which parts it has, and add rows, all in one commit.

    Args:
        spark: a session.
        point: what it is called as a fail point.
        model: whose table it is.
        table: the table.
        change: of columns and parts.
        settings: properties of the table.
        properties: of the snapshot.
        added: rows that come to it, in the columns that it has then; None: none do.
        by_anyone: whether nobody else may have changed rows of it.

    Raises:
        StreamError: another run of the model has written the table; nothing was changed.
    """
    with around(point, model.name):
        table.refresh()  # a savepoint may have changed the metadata meanwhile
        transaction = table.java.newTransaction()
        schema = transaction.updateSchema()
        change_columns(spark, schema, change.add, change.drop, change.rename)
        widen_columns(spark, schema, change.widen)
        narrow_columns(schema, change.narrow)
        promote_columns(spark, schema, change.promote)
        schema.commit()
        set_properties(transaction, settings)
        then = transaction.table()
        files = [] if added is None else _written(added(columns_in_spark(spark, then)), then)
        if change.emptied:
            rows = transaction.newOverwrite().overwriteByRowFilter(_rows_of(spark, change.emptied))
            add = rows.addFile
        else:
            # Also without rows: a snapshot has the columns of its time, and state is read by its snapshot.
            rows = transaction.newAppend()
            add = rows.appendFile
        for file in files:
            add(file)
        reached(f"{point}:written", model.name)
        _commit(model, table, rows, files, properties, by_anyone, transaction)


def check(model: StreamModel, table: IcebergTable, by_anyone: bool = False) -> bool:
    """Build on what others than a stream have committed to a table since this run wrote it.

    Args:
        model: whose table it is.
        table: the table.
        by_anyone: whether nobody else may have changed rows of it.

    Returns:
        Whether anybody has committed to it.

    Raises:
        StreamError: another run of the model has written it, or somebody has who may not.
    """
    table.refresh()
    if not Unmoved(table.known, by_anyone).holds(table.snapshots()):
        raise StreamError(_of_another_run(model, table.name))
    known, table.known = table.known, table.snapshot_id
    return table.known != known


def check_own(model: StreamModel, table: IcebergTable, name: str) -> None:
    """Build on the commit that Spark has just made for this run.

    Args:
        model: whose table it is.
        table: the table.
        name: of the commit, its `COMMIT`.

    Raises:
        StreamError: another run of the model has written the table in the moment before.
    """
    before = Unmoved(table.known)
    if not (table.build_on(name) and before.holds(table.past_of_known())):
        raise StreamError(
            f"Model {model.name}: another run of it wrote {table.name} at the same moment, so rows of the two may be mixed "
            f"in it. Let one run at a time write the model. To build it anew: {model.rebuild}."
        )


class Unmoved:
    """Iceberg's condition of a commit: nobody has committed to the table since.

    Args:
        known: the snapshot the commit builds on; None: the table had none.
        by_anyone: whether others than streams count, if they changed rows.
        name: of the commit, its `COMMIT`.
    """

    def __init__(self, known: int | None, by_anyone: bool = False, name: str | None = None) -> None:
        self._known, self._by_anyone, self._name = known, by_anyone, name
        self.refused = False

    def holds(self, snapshots: Iterator[Any]) -> bool:
        """Whether none of the snapshots, the newest first, is another's commit after the known one."""
        moved = False
        for snapshot in snapshots:
            if int(snapshot.snapshotId()) == self._known:
                return not moved
            if self._name is not None and snapshot.summary().get(COMMIT) == self._name:
                # Tried again, for the catalog hadn't told that it was made. Not refused: Iceberg would delete its files.
                raise RuntimeError("this commit is made already")
            if is_of_stream(snapshot) or (self._by_anyone and str(snapshot.operation()) != REPLACE):
                moved = True
            if snapshot.parentId() == self._known is not None:
                return not moved  # though the snapshot itself may have expired
        return self._known is None and not moved

    def validate(self, ancestors: Any) -> bool:
        """Iceberg's question, about the snapshots of the table as it is right before the commit."""
        self.refused = not self.holds(each_of(ancestors.iterator()))
        return not self.refused

    def errorMessage(self) -> str:
        """What Iceberg adds to its own message."""
        return "another run has committed"

    class Java:
        """The interface that this is to Java."""

        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)


def _commit(
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
    condition = Unmoved(table.known, by_anyone, name)
    update.validateWith(condition)
    if model.storage.is_local:
        # Iceberg looks every 10 ms whether its threads have read or written a manifest, some five times in a commit. On a
        # disk the few there are take one thread less than that.
        update.scanManifestsWith(_own_thread(table.spark))
    try:
        update.commit()
        if transaction is not None:
            transaction.commitTransaction()
    except Exception as problem:
        if condition.refused or (transaction is not None and _has_moved(table, by_anyone, name)):
            _delete(table, files)
            raise StreamError(_of_another_run(model, table.name)) from problem
        # A catalog that fails may have made the commit all the same.
        if not _is_made(table, name):
            raise
    else:
        # Others may have built on it already: known is this one, not the newest.
        if not table.build_on(name):
            raise StreamError(_of_another_run(model, table.name))


def _is_invalid(problem: Any) -> bool:
    """Whether Iceberg found, right before a commit, that what it builds on isn't there."""
    return str(problem.java_exception.getClass().getName()) == _INVALID


def _own_thread(spark: SparkSession) -> Any:
    """Java's executor that does at once, in the thread that asks, what it is given."""
    return static_method(spark, f"{_GUAVA}.util.concurrent.MoreExecutors", "newDirectExecutorService")()


def _delete(table: IcebergTable, files: Sequence[Any]) -> None:
    """Delete files that no snapshot has."""
    for file in files:
        table.java.io().deleteFile(file.location())


def _has_moved(table: IcebergTable, by_anyone: bool, name: str) -> bool:
    """Whether another run has committed, and not this one by that name: Iceberg makes no second try of a change of columns,
    so the condition isn't asked then."""
    try:
        table.refresh()
        return not Unmoved(table.known, by_anyone, name).holds(table.snapshots())
    except Exception:
        return False  # what failed before says more, or the commit was made


def _is_made(table: IcebergTable, name: str) -> bool:
    try:
        return table.build_on(name)
    except Exception:
        return False  # what failed before says more


def _written(rows: DataFrame, table: Any) -> list[Any]:
    """Iceberg's descriptions of the files that rows were written to, which no snapshot of its table has yet."""
    from pyspark.sql import functions as F

    spark = rows.sparkSession
    tables = static_method(spark, "org.apache.iceberg.spark.SparkTableCache", "get")()
    coordinator = static_method(spark, "org.apache.iceberg.spark.FileRewriteCoordinator", "get")()
    name = str(uuid.uuid4())
    if java_class(spark, "org.apache.iceberg.TableUtil").supportsRowLineage(table):
        # From version 3 of the format on a compaction writes the ids that rows have. New rows get theirs by the commit.
        rows = rows.withColumns({column: F.lit(None).cast("bigint") for column in _LINEAGE})
    # In the session of the rows: what Iceberg sets by itself it sets in the thread's, which may be another.
    rows.sparkSession.conf.set(f"spark.sql.catalog.{_WRITTEN}", _CATALOG_OF_FILES)
    tables.add(name, table)
    try:
        query_metrics.append(rows, f"{_WRITTEN}.`{name}`")
        return list(each_of(coordinator.fetchNewFiles(table, name).iterator()))
    finally:
        tables.remove(name)
        coordinator.clearRewrite(table, name)


def _rows_of(spark: SparkSession, parts: Sequence[str] | None) -> Any:
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    if parts is None:
        return expressions.alwaysTrue()
    found = expressions.alwaysFalse()
    for part in parts:
        found = getattr(expressions, "or")(found, expressions.equal("part", part))
    return found


def _of_another_run(model: StreamModel, table: str) -> str:
    return (
        f"Model {model.name}: {table} was written by another run meanwhile (or somebody changed its rows), so this one "
        "ended without writing what it had. Let one run at a time write the model; what this one had left, the next "
        "takes in."
    )
