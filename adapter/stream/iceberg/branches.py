"""Retains snapshots with branches, and rolls tables back to them. Both are metadata commits that rewrite no data file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...environment.storage import Storage, is_local
from ..common.model import plain_path
from ..common.session import java_class
from ..progress.position import PREFIX, Position
from ..storage.savepoints import TableSnapshot
from .table import IcebergTable, java_elements, starting_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAIN = "main"
_OWN = (PREFIX, "write.metadata.metrics.column.")
"""Prefixes of table properties that belong to the rows and columns: a stream's own, and settings of column statistics."""


def table_snapshot(table: IcebergTable) -> TableSnapshot:
    """Returns the snapshot, the schema and the properties of a table at its last refresh, to restore them later."""
    metadata = table.java.operations().current()
    schema = int(metadata.currentSchemaId())
    return TableSnapshot(table.uuid, table.snapshot_id, schema, _stream_properties(metadata))


def branches_with_prefix(table: IcebergTable, prefix: str) -> dict[str, int]:
    """Returns the snapshots of a table's branches and tags with a prefix, except its main branch, by name."""
    refs = table.java.refs()
    names = (str(name) for name in java_elements(refs.keySet().iterator()))
    return {
        name: int(refs.get(name).snapshotId()) for name in names if name.startswith(prefix) and name != _MAIN
    }


def retain_snapshot(table: IcebergTable, name: str, snapshot: int, age: int | None = None) -> None:
    """Retains a snapshot, and the earlier ones that are needed to use it, with a branch that nobody writes to.

    A tag would only retain a single snapshot, which may be a compaction without a stream's position.

    Args:
        name: the name of the branch, which doesn't exist yet.
        age: milliseconds after the snapshot's creation after which Iceberg may expire it. Default: never.
    """
    table.refresh()
    past = table.lineage_of(snapshot)
    step = next((place for place, each in enumerate(past, 1) if each.is_step), len(past))
    # The snapshot before a micro-batch's is needed to read its changes. A stream may start at the newest append.
    begins = starting_snapshot(past)
    wanted = max(step + 1, 0 if begins is None else begins[0])
    update = table.java.manageSnapshots().createBranch(name, snapshot)
    update = update.setMinSnapshotsToKeep(name, wanted).setMaxSnapshotAgeMs(name, 1)
    if age is not None:
        update = update.setMaxRefAgeMs(name, age)
    update.commit()
    table.refresh()


def remove_branch(table: IcebergTable, name: str) -> None:
    """Removes a branch or a tag if it exists."""
    table.refresh()
    if name in branches_with_prefix(table, name):
        update = table.java.manageSnapshots()
        is_tag = table.java.refs().get(name).isTag()
        (update.removeTag(name) if is_tag else update.removeBranch(name)).commit()


def has_schema(table: IcebergTable, schema: int) -> bool:
    """Returns whether the table's metadata still has a schema, by its id."""
    return bool(table.java.schemas().containsKey(schema))


def restore_table(spark: SparkSession, table: IcebergTable, to: TableSnapshot) -> None:
    """Restores a table's rows, columns and properties in one commit. Raises `Py4JJavaError` if somebody has written the
    table meanwhile; nothing was changed."""
    table.refresh()
    with _committed_metadata(spark, table, to.snapshot) as (now, builder):
        builder.setCurrentSchema(to.schema)
        has = _stream_properties(now)
        if more := has.keys() - to.properties.keys():
            builder.removeProperties(more)
        if other := {name: value for name, value in to.properties.items() if has.get(name) != value}:
            builder.setProperties(other)


def roll_back(spark: SparkSession, table: IcebergTable, position: Position) -> None:
    """Rolls a table back to before a micro-batch, if that was its last commit. A micro-batch doesn't change columns.
    Raises `Py4JJavaError` if somebody has written the table meanwhile; nothing was changed."""
    table.refresh()
    step_properties = {
        f"{PREFIX}{name}": str(value)
        for name, value in (("batch-id", position.batch), ("flush", position.flush))
    }
    is_last, before = False, None
    for snapshot in table.snapshots():
        summary = snapshot.summary()
        if any(summary.get(name) != value for name, value in step_properties.items()):
            before = snapshot
            break
        is_last, parent = True, snapshot.parentId()
    if not is_last or (before is None and parent is not None):
        return
    with _committed_metadata(spark, table, None if before is None else int(before.snapshotId())):
        pass


@contextmanager
def _committed_metadata(
    spark: SparkSession, table: IcebergTable, snapshot: int | None
) -> Iterator[tuple[Any, Any]]:
    """Commits the metadata changes of the block, together with a snapshot as the current one (None for no snapshot). Yields
    the current metadata and the builder of the new metadata."""
    operations = table.java.operations()
    now = operations.current()
    builder = java_class(spark, "org.apache.iceberg.TableMetadata").buildFrom(now)
    yield now, builder
    if snapshot is not None:
        builder.setBranchSnapshot(snapshot, _MAIN)
    elif table.snapshot_id is not None:
        builder.removeRef(_MAIN)
    made = builder.build()
    if not made.changes().isEmpty():
        operations.commit(now, made)
    table.advance_to_newest()


def missing_files(spark: SparkSession, storage: Storage, table: IcebergTable, snapshot: int) -> list[str]:
    """Returns the data files of a snapshot that no longer exist. Raises if its manifests don't exist either."""
    rows = spark.sql(f"select distinct file_path from {table.name}.files version as of {snapshot}").collect()
    paths = [str(path) for (path,) in map(tuple, rows)]
    # Listing the folder is faster than checking each file. Only files outside of the folder are checked one by one.
    data = f"{plain_path(table.folder)}/data"
    listed: set[str] = set()
    if any(plain_path(path).startswith(f"{data}/") for path in paths):
        listed = set(
            map(plain_path, storage.modification_times(data) if is_local(data) else table.files_below(data))
        )
    io = table.java.io()
    return [path for path in paths if plain_path(path) not in listed and not io.newInputFile(path).exists()]


def _stream_properties(metadata: Any) -> dict[str, str]:
    """Returns the table properties that belong to the rows and columns (`_OWN`)."""
    properties = metadata.properties()
    names = (str(name) for name in java_elements(properties.keySet().iterator()))
    return {name: str(properties.get(name)) for name in names if name.startswith(_OWN)}
