"""Snapshots that are kept, and a table put back to one: commits of Iceberg's metadata, which touch no file of rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...environment.storage import Storage, is_local
from ..common.session import java_class
from ..progress.position import PREFIX, Position
from ..storage.savepoints import Picture
from .table import IcebergTable, beginning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAIN = "main"
_OWN = (PREFIX, "write.metadata.metrics.column.")
"""Properties that go with the columns and rows of a table: what a stream notes, and statistics of columns."""


def picture(table: IcebergTable) -> Picture:
    """A table as it is at the last look."""
    metadata = table.java.operations().current()
    return Picture(
        str(table.java.uuid()),
        table.snapshot_id,
        int(metadata.currentSchemaId()),
        _own_properties(metadata),
    )


def held(table: IcebergTable, prefix: str) -> dict[str, int]:
    """The snapshots of a table's branches and tags but for its main one, by their names."""
    refs = table.java.refs()
    names = [str(name) for name in _each(refs.keySet())]
    return {
        name: int(refs.get(name).snapshotId()) for name in names if name.startswith(prefix) and name != _MAIN
    }


def hold(table: IcebergTable, name: str, snapshot: int, age: int | None = None) -> None:
    """Have Iceberg keep a snapshot, and those before it that say which step it is of, by a branch that nobody writes to.
    (A tag keeps one snapshot alone, which may be a compaction.)

    Args:
        table: whose it is.
        name: the branch's. There is none of that name.
        snapshot: the snapshot.
        age: milliseconds since the snapshot was made, after which Iceberg lets it go; None: it never does.
    """
    table.refresh()
    past = table.lineage_of(snapshot)
    step = next((place for place, each in enumerate(past, 1) if each.is_step), len(past))
    # What a step brought is told by the snapshot before it; and a stream may begin where files were added last.
    begins = beginning(past)
    wanted = max(step + 1, 0 if begins is None else begins[0])
    update = table.java.manageSnapshots().createBranch(name, snapshot)
    update = update.setMinSnapshotsToKeep(name, wanted).setMaxSnapshotAgeMs(name, 1)
    if age is not None:
        update = update.setMaxRefAgeMs(name, age)
    update.commit()
    table.refresh()


def let_go(table: IcebergTable, name: str) -> None:
    """Have a branch or a tag be there no more, if it is."""
    table.refresh()
    if name in held(table, name):
        update = table.java.manageSnapshots()
        is_tag = table.java.refs().get(name).isTag()
        (update.removeTag(name) if is_tag else update.removeBranch(name)).commit()


def has_schema(table: IcebergTable, schema: int) -> bool:
    """Whether the table still knows the columns that it had."""
    return bool(table.java.schemas().containsKey(schema))


def put_back(spark: SparkSession, table: IcebergTable, to: Picture) -> None:
    """Make a table what it was: rows, columns and properties, in one commit.

    Raises:
        Py4JJavaError: somebody has written the table meanwhile; nothing was changed.
    """
    table.refresh()
    operations = table.java.operations()
    now = operations.current()
    builder = java_class(spark, "org.apache.iceberg.TableMetadata").buildFrom(now)
    builder.setCurrentSchema(to.schema)
    if to.snapshot is not None:
        builder.setBranchSnapshot(to.snapshot, _MAIN)
    elif table.snapshot_id is not None:
        builder.removeRef(_MAIN)
    has = _own_properties(now)
    if more := has.keys() - to.properties.keys():
        builder.removeProperties(more)
    if other := {name: value for name, value in to.properties.items() if has.get(name) != value}:
        builder.setProperties(other)
    made = builder.build()
    if not made.changes().isEmpty():
        operations.commit(now, made)
    table.follow()


def take_back(spark: SparkSession, table: IcebergTable, position: Position) -> None:
    """Make a table what it was before a step that was its last, if that is in it. No step has changed its columns.

    Args:
        spark: a session.
        table: the table.
        position: the step.

    Raises:
        Py4JJavaError: somebody has written the table meanwhile; nothing was changed.
    """
    table.refresh()
    of_step = {
        f"{PREFIX}{name}": str(value)
        for name, value in (("batch-id", position.batch), ("flush", position.flush))
    }
    is_in, before = False, None
    for snapshot in table.snapshots():
        summary = snapshot.summary()
        if any(summary.get(name) != value for name, value in of_step.items()):
            before = snapshot
            break
        is_in, parent = True, snapshot.parentId()
    if not is_in or (before is None and parent is not None):
        return
    operations = table.java.operations()
    now = operations.current()
    builder = java_class(spark, "org.apache.iceberg.TableMetadata").buildFrom(now)
    if before is None:
        builder.removeRef(_MAIN)
    else:
        builder.setBranchSnapshot(before.snapshotId(), _MAIN)
    operations.commit(now, builder.build())
    table.follow()


def gone_files(spark: SparkSession, storage: Storage, table: IcebergTable, snapshot: int) -> list[str]:
    """The files of a snapshot that somebody has removed.

    Raises:
        Py4JJavaError: what lists them is gone as well.
    """
    rows = spark.sql(f"select distinct file_path from {table.name}.files version as of {snapshot}").collect()
    paths = [str(path) for (path,) in map(tuple, rows)]
    # A folder is listed at once, which a file after the other isn't. Others may lie anywhere.
    data = f"{_plain(str(table.java.location()))}/data"
    listed: set[str] = set()
    if any(_plain(path).startswith(f"{data}/") for path in paths):
        listed = set(map(_plain, storage.files(data) if is_local(data) else table.listed(data)))
    io = table.java.io()
    return [path for path in paths if _plain(path) not in listed and not io.newInputFile(path).exists()]


def _own_properties(metadata: Any) -> dict[str, str]:
    properties = metadata.properties()
    names = [str(name) for name in _each(properties.keySet())]
    return {name: str(properties.get(name)) for name in names if name.startswith(_OWN)}


def _each(collection: Any) -> list[Any]:
    found, iterator = [], collection.iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def _plain(path: str) -> str:
    """A path of this machine as it is written without a scheme; any other as it is.

    >>> _plain("file:///tmp/a"), _plain("file:/tmp/a"), _plain("s3a://bucket/a")
    ('/tmp/a', '/tmp/a', 's3a://bucket/a')
    """
    return re.sub(r"^file:/+", "/", path)
