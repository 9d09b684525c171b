"""Access to an Iceberg table's metadata through its Java API, in the driver: a few milliseconds, no Spark job."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ...util.types import column_types, type_text
from ..common.model import plain_path
from ..common.session import active, java_class, jvm
from ..progress.position import PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ..evolution.migration import Migration

_SIZES = ("partition", "record_count", "total_data_file_size_in_bytes", "file_count")
"""Columns of Iceberg's metadata table of partitions."""
_MOST_FILES = 500
"""Maximum number of files that one compaction rewrites."""

_ADDED = re.compile(r"\badded-records=(\d+)")

_TYPES, _STRUCT = "org.apache.iceberg.spark.SparkSchemaUtil", "org.apache.spark.sql.types.StructType"

APPEND, REPLACE, EXPIRED = "append", "replace", "expired"

FILES, DELETE_FILES, RECORDS, DELETED = (
    f"total-{what}" for what in ("data-files", "delete-files", "records", "position-deletes")
)
"""Counts in a snapshot's summary: data files, delete files, rows in data files, and deleted rows."""

COMMIT = f"{PREFIX}commit"
"""Property of a stream's commit with a unique id, by which the run that made it recognizes it."""
FOLLOWED = f"{PREFIX}followed"
"""Property of a stream's commit that may follow changes of other writers which the changelog lacks: the snapshot of the
table up to which the changelog is complete."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a table."""

    id: int
    made: int
    """Milliseconds since 1970."""
    operation: str
    """Iceberg's operation that made it: `APPEND`, `REPLACE` or another one."""
    is_step: bool
    """Whether it carries a stream's position."""
    adds_files: bool


class SharedFolder(Exception):
    """The folder of a table has files of another table."""

    def __init__(self, table: str, folder: str, uuid: str) -> None:
        super().__init__(
            f"{table}: its folder {folder} has metadata of another table (UUID {uuid}), which another catalog may have or "
            "which was dropped without its files"
        )


class IcebergTable:
    """A handle on a table that exists."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self.spark = spark
        self.java: Any = java_class(spark, "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
            spark._jsparkSession, name
        )
        self._to_json = java_class(spark, "org.apache.iceberg.SnapshotParser").toJson
        self._counted: tuple[int | None, Any] = (None, None)
        """A snapshot and its summary, cached for `count`."""
        self.known = self.snapshot_id
        """The newest snapshot that this run has seen or made. Reads use it and the next commit is based on it, even if
        there are newer snapshots by now."""

    def refresh(self) -> None:
        """Loads the newest metadata, without changing `known`."""
        self.java.refresh()

    def advance_to_newest(self) -> None:
        """Loads the newest metadata and sets `known` to the newest snapshot."""
        self.refresh()
        self.known = self.snapshot_id

    def advance_to_commit(self, commit: str) -> bool:
        """Sets `known` to the snapshot of a commit, found by its id `COMMIT`. Returns whether there is one."""
        self.refresh()
        for snapshot in self.snapshots():
            if snapshot.summary().get(COMMIT) == commit:
                self.known = int(snapshot.snapshotId())
                return True
        return False

    @property
    def uuid(self) -> str:
        """Iceberg's UUID of the table, which stays when the table is renamed or replaced."""
        return str(self.java.uuid())

    def schema_json(self, snapshot: int | None = None) -> str:
        """Returns the current schema, or that of a snapshot, in Iceberg's JSON format."""
        schema = self.java.schema()
        if snapshot is not None and (number := self.java.snapshot(snapshot).schemaId()) is not None:
            schema = self.java.schemas().get(number)
        return str(java_class(self.spark, "org.apache.iceberg.SchemaParser").toJson(schema))

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot as of the last refresh, or None if nothing was ever written."""
        snapshot = self.java.currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def _known_snapshot(self) -> Any:
        """Returns Iceberg's object of the known snapshot, or None."""
        return None if self.known is None else self.java.snapshot(self.known)

    def has_ancestor(self, snapshot: int) -> bool:
        """Returns whether a snapshot is the current one or one of its ancestors."""
        return any(int(each.snapshotId()) == snapshot for each in self.snapshots())

    def operations_between(self, start: int, end: int) -> list[str] | None:
        """Returns the operations (`APPEND`, `REPLACE` …) of the snapshots after `start` up to `end`, the newest first.
        Returns None if `start` isn't an ancestor of `end`, or snapshots between them have expired."""
        if start == end:
            return []
        found = []
        for each in self._ancestors_from(self.java.snapshot(end)):
            found.append(str(each.operation()))
            if each.parentId() == start:
                return found
        return None

    def has_snapshot(self, snapshot: int) -> bool:
        return self.java.snapshot(snapshot) is not None

    def was_rolled_back_from(self, snapshot: int) -> bool:
        """Returns whether a snapshot and the current one have a common ancestor, as after a rollback to before that
        snapshot."""
        now = {int(each.snapshotId()) for each in self.snapshots()}
        return any(
            int(each.snapshotId()) in now for each in self._ancestors_from(self.java.snapshot(snapshot))
        )

    def past_operations(self) -> Iterator[str]:
        """Yields the operations (`APPEND`, `REPLACE` …) of the current snapshot and its ancestors, the newest first. The
        last one is `EXPIRED` if the parent of the oldest snapshot has expired."""
        yield from (str(snapshot.operation()) for snapshot in self.snapshots())
        oldest = self._oldest_snapshot()
        if oldest is not None and oldest.parentId() is not None:
            yield EXPIRED

    def snapshots(self) -> Iterator[Any]:
        """Yields Iceberg's objects of the current snapshot and its ancestors that exist, the newest first."""
        return self._ancestors_from(self.java.currentSnapshot())

    def _oldest_snapshot(self) -> Any:
        """Returns Iceberg's object of the current snapshot's oldest ancestor that exists, or None."""
        return java_class(self.spark, "org.apache.iceberg.util.SnapshotUtil").oldestAncestor(self.java)

    def ancestors_of_known(self) -> Iterator[Any]:
        """Yields Iceberg's objects of the known snapshot's ancestors, the newest first."""
        past = self._ancestors_from(self._known_snapshot())
        next(past, None)
        return past

    def _ancestors_from(self, snapshot: Any) -> Iterator[Any]:
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parentId()
            snapshot = None if parent is None else self.java.snapshot(parent)

    def _stream_commits(self) -> Iterator[Any]:
        """Yields Iceberg's objects of the snapshots that streams committed, from the known snapshot back."""
        return filter(is_of_stream, self._ancestors_from(self._known_snapshot()))

    @property
    def folder(self) -> str:
        return str(self.java.location()).rstrip("/")

    def _io_supports(self, what: str) -> bool:
        """Returns whether the table's FileIO has an interface of Iceberg's."""
        kind = jvm(self.spark).java.lang.Class.forName(f"org.apache.iceberg.io.Supports{what}")
        return bool(kind.isInstance(self.java.io()))

    @property
    def snapshot_count(self) -> int:
        """The number of the table's snapshots."""
        return int(self.java.snapshots().size())

    @property
    def has_lost_rows(self) -> bool:
        """Whether snapshots that added rows have expired, so that the existing snapshots don't have all rows."""
        oldest = self._oldest_snapshot()
        if oldest is None or oldest.parentId() is None:
            return False
        summary = oldest.summary()
        total, added, deleted = (summary.get(f"{what}-records") for what in ("total", "added", "deleted"))
        return total is None or int(total) - int(added or 0) + int(deleted or 0) > 0

    @property
    def is_blank(self) -> bool:
        """Whether the only snapshot ever committed has no files."""
        snapshot = self.java.currentSnapshot()
        return (
            snapshot is not None
            and snapshot.parentId() is None
            and not self.summary_count("added-data-files")
        )

    def summary_count(self, what: str) -> int:
        """Returns a count in the known snapshot's summary, or 0 if nothing was ever written."""
        known, summary = self._counted
        if known is None or known != self.known:
            snapshot = self._known_snapshot()
            if snapshot is None:
                return 0
            summary = snapshot.summary()
            self._counted = self.known, summary
        # Only one key, because each value that py4j transfers takes half a millisecond.
        return int(summary.get(what) or 0)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return tuple(columns_in_spark(self.spark, self.java).names)

    def partition_columns(self) -> list[str]:
        """Returns the columns that the table is partitioned by; a field of a struct as ``column.field``."""
        schema = self.java.schema()
        return [schema.findColumnName(field.sourceId()) for field in self.java.spec().fields()]

    def property(self, name: str) -> str | None:
        return self.java.properties().get(name)

    def property_names(self) -> list[str]:
        """Returns the names of the table's properties."""
        return [str(name) for name in java_elements(self.java.properties().keySet().iterator())]

    def newest_summary(self) -> Mapping[str, str]:
        """Returns the summary of the known snapshot; empty if nothing was ever written."""
        snapshot = self._known_snapshot()
        return {} if snapshot is None else self._summary(snapshot)

    def last_summary(self) -> Mapping[str, str]:
        """Returns the summary of the stream's last commit; empty if there is none. Later snapshots of other writers, such
        as a compaction, are skipped."""
        return next(self.summaries(), {})

    def summaries(self) -> Iterator[Mapping[str, str]]:
        """Yields the summaries of the stream's commits, the newest first."""
        return map(self._summary, self._stream_commits())

    def _summary(self, snapshot: Any) -> Mapping[str, str]:
        # As one JSON text: reading a Java map entry by entry takes as long as a small commit.
        found: dict[str, str] = json.loads(self._to_json(snapshot)).get("summary", {})
        return {name: text for name, text in found.items() if name != "operation"}

    def summaries_since(self, snapshot: int | None) -> list[Mapping[str, str]] | None:
        """Returns the summaries of the snapshots after `snapshot` up to the known one, the newest first. If `snapshot` is
        None it returns all of them. Returns None if `snapshot` is no ancestor of the known one, or has expired."""
        found: list[Mapping[str, str]] = []
        for each in self._ancestors_from(self._known_snapshot()):
            if int(each.snapshotId()) == snapshot:
                return found
            found.append(self._summary(each))
            if each.parentId() is None and snapshot is None:
                return found
        return found if snapshot is None and self.known is None else None

    def partition_sizes(self) -> dict[str, tuple[int, int, int]]:
        """Returns the numbers of rows, bytes and files by partition, of a table partitioned by one column. Runs no job."""
        if self.known is None:
            return {}
        kinds = java_class(self.spark, "org.apache.iceberg.MetadataTableType")
        tables = java_class(self.spark, "org.apache.iceberg.MetadataTableUtils")
        partitions = tables.createMetadataTableInstance(self.java, kinds.PARTITIONS)
        columns = partitions.schema().columns()
        place = {str(columns.get(number).name()): number for number in range(columns.size())}
        anything = jvm(self.spark).java.lang.Class.forName("java.lang.Object")
        found = {}
        tasks = partitions.newScan().useSnapshot(self.known).planFiles()
        for task in java_elements(tasks.iterator()):
            for row in java_elements(task.asDataTask().rows().iterator()):
                values = [row.get(place[name], anything) for name in _SIZES]
                found[str(values[0].get(0, anything))] = (int(values[1]), int(values[2]), int(values[3]))
        tasks.close()
        return found

    def last_stream_commit(self) -> tuple[int, int | None]:
        """Returns the snapshot of the stream's last commit, which must exist, and its parent."""
        snapshot = next(self._stream_commits())
        before = snapshot.parentId()
        return int(snapshot.snapshotId()), None if before is None else int(before)

    def newest_change_by_others(self) -> int | None:
        """Returns the newest snapshot in which another writer changed rows that the changelog lacks, or None. It comes after
        the stream's last commit, or between that commit and the snapshot in the commit's `FOLLOWED`."""
        until = None
        for snapshot in self._ancestors_from(self._known_snapshot()):
            if int(snapshot.snapshotId()) == until:
                break
            if not is_of_stream(snapshot):
                if str(snapshot.operation()) != REPLACE:
                    return int(snapshot.snapshotId())
            elif until is None:
                followed = snapshot.summary().get(FOLLOWED)
                if followed is None:
                    break
                until = int(followed)
        return None

    def followed_snapshot(self) -> int | None:
        """Returns the snapshot up to which the changelog is complete, from the stream's last commit, or None."""
        for snapshot in self._stream_commits():
            return int(snapshot.summary().get(FOLLOWED) or snapshot.snapshotId())
        return None

    def added_rows(self, part: str) -> int:
        """Returns the number of rows that the known snapshot added to a partition of the column ``part``."""
        snapshot = self._known_snapshot()
        return 0 if snapshot is None else added_rows(snapshot.summary(), part)

    def lineage(self) -> list[Snapshot]:
        """Returns the current snapshot and its ancestors, the newest first."""
        return list(map(_to_snapshot, self.snapshots()))

    def lineage_of(self, snapshot: int) -> list[Snapshot]:
        """Returns a snapshot and its ancestors, the newest first."""
        return list(map(_to_snapshot, self._ancestors_from(self.java.snapshot(snapshot))))

    def snapshot_select_list(self, snapshot: int, schema: int | None = None) -> str:
        """Returns a select list that converts the columns of a snapshot to another schema of the table.

        Args:
            snapshot: the snapshot, which is read with its own schema.
            schema: the id of the wanted schema. Default: the current one.
        """
        then = self.java.schemas().get(self.java.snapshot(snapshot).schemaId())
        types = java_class(self.spark, _TYPES)
        wanted = self.java.schema() if schema is None else self.java.schemas().get(schema)
        listed = []
        for field in java_elements(wanted.columns().iterator()):
            name, was = quoted(field.name()), then.findColumnName(field.fieldId())
            column = f"cast(null as {types.convert(field.type()).sql()})" if was is None else quoted(was)
            listed.append(f"{column} as {name}")
        return ", ".join(listed)

    def columns_added_since(self, known: Collection[int]) -> dict[str, str]:
        """Returns the types, by name, of columns and nested fields that were added without a default value. If several
        have one name and different types, the type is empty. `known`: the ids of the older columns and fields."""
        from pyspark.sql.types import _parse_datatype_json_string

        types = java_class(self.spark, _TYPES)
        index = java_class(self.spark, "org.apache.iceberg.types.TypeUtil")
        found: dict[str, str] = {}
        for field in index.indexById(self.java.schema().asStruct()).values():
            if int(field.fieldId()) in known or field.initialDefault() is not None:
                continue
            kind = type_text(_parse_datatype_json_string(types.convert(field.type()).json()))
            if found.setdefault(str(field.name()), kind) != kind:
                found[str(field.name())] = ""
        return found

    def snapshot_sql(self, snapshot: int, more: str = "") -> str:
        """Returns SQL of a relation with the rows of a snapshot and the table's current columns. `more`: the select list of
        metadata columns to add."""
        then = f"{self.name} version as of {snapshot}"
        is_same = int(self.java.snapshot(snapshot).schemaId()) == int(self.java.schema().schemaId())
        if is_same and not more:
            return then
        listed = "*" if is_same else self.snapshot_select_list(snapshot)
        return f"(select {listed}{more and f', {more}'} from {then})"

    def change_columns(self, change: Migration, before: str | None = None) -> None:
        """Changes columns in one metadata commit. New columns are NULL in all rows. `before`: the column before which new
        columns are inserted. Default: at the end."""
        # Iceberg doesn't retry a schema update that is based on old metadata.
        self.refresh()
        change_columns(self.spark, self.java.updateSchema(), change, before)
        self.refresh()

    def appended_rows(self, first: int | None, last: int) -> int:
        """Returns the number of rows that the snapshots from `first` (by default, the oldest) to `last` appended, both
        included."""
        newest = self.java.snapshot(last)
        if first is None:
            return 0 if newest is None else int(newest.summary().get("total-records") or 0)
        found = 0
        for snapshot in self._ancestors_from(newest):
            if snapshot.operation() == APPEND:
                found += int(snapshot.summary().get("added-records") or 0)
            if int(snapshot.snapshotId()) == first:
                break
        return found

    def newest_append(self) -> int | None:
        """Returns the newest snapshot that appended data files, of the current one and its ancestors; None if there is
        none."""
        lineage = map(_to_snapshot, self.snapshots())
        return next((each.id for each in lineage if each.operation == APPEND and each.adds_files), None)

    def compact(
        self,
        spark: SparkSession,
        properties: Mapping[str, str],
        target: int,
        at_least: int = 5,
        is_worn: bool = False,
    ) -> None:
        """Compacts small files, and rewrites files with many deleted rows, in one or two commits. Rows stay the same.

        Args:
            target: the target size of a file in bytes. Larger files are left alone.
            at_least: the minimum number of files of a partition to compact.
            is_worn: whether to rewrite all files with deleted rows, not only those with many.
        """
        actions = java_class(spark, "org.apache.iceberg.spark.actions.SparkActions").get(spark._jsparkSession)
        if self.summary_count(DELETE_FILES) and not is_worn:
            # First rewrites the delete files, so that each belongs to one data file and its deleted rows can be counted.
            together = actions.rewritePositionDeletes(self.java).option("rewrite-all", "true")
            for key, value in properties.items():
                together = together.snapshotProperty(key, value)
            with active(spark):
                together.execute()
        action = actions.rewriteDataFiles(self.java).binPack()
        options = {
            "remove-dangling-deletes": "true",
            **({"delete-file-threshold": 1} if is_worn else {}),
            "target-file-size-bytes": target,
            "min-file-size-bytes": target // 2,
            # Larger files would be split.
            "max-file-size-bytes": 2**62,
            "min-input-files": at_least,
            # The stream waits meanwhile, so files of a large initial load are rewritten in several compactions.
            "max-files-to-rewrite": _MOST_FILES,
        }
        for option, number in options.items():
            action = action.option(option, str(number))
        for key, value in properties.items():
            action = action.snapshotProperty(key, value)
        with active(spark):
            action.execute()

    def orphans(self, spark: SparkSession, before: int, remove: bool) -> list[str]:
        """Returns the orphan files in the table's folder, and deletes them if `remove`. An orphan file is in no snapshot:
        a killed process may have left it.

        Files elsewhere, or with names that Iceberg doesn't give, are left out: somebody else put them there.

        Args:
            before: milliseconds since 1970. Files written later are left out, as a commit in progress may need them.

        Raises:
            SharedFolder: another table has metadata in the folder, too.
        """
        self.refresh()
        self._check_folder(spark)
        java = jvm(spark)
        actions = java.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
        action = actions.deleteOrphanFiles(self.java).olderThan(before)
        if (
            self._io_supports("PrefixOperations")
            and self.java.io().getClass().getSimpleName() != "HadoopFileIO"
        ):
            # Hadoop may have no file system for the table's location.
            action = action.usePrefixListing(True)
        # Deletes nothing: the files are only collected.
        action = action.deleteWith(_collecting_consumer(java, java.java.util.ArrayList()))
        files = action.execute().orphanFileLocations().iterator()
        found = sorted(
            file for file in map(str, java_elements(files)) if _has_iceberg_name(file, self.folder)
        )
        if remove:
            self._delete_files(found)
        return found

    def _check_folder(self, spark: SparkSession) -> None:
        """Raises if the table's folder has metadata of another table. Two catalogs of one warehouse may give tables of the
        same name the same folder, and neither knows the other's files."""
        java = self.java.operations().current()
        known = {
            str(java.metadataFileLocation()),
            *(str(each.file()) for each in java_elements(java.previousFiles().iterator())),
        }
        parser = java_class(spark, "org.apache.iceberg.TableMetadataParser")
        for path in self.files_below(f"{self.folder}/metadata"):
            if not path.endswith(".metadata.json") or path in known:
                continue
            try:
                uuid = str(parser.read(self.java.io(), path).uuid())
            except Exception:
                # Either a killed process left it, or a newer version of Iceberg wrote it.
                if not self._is_complete_json(path):
                    continue
                uuid = "unknown"
            if uuid != str(self.java.uuid()):
                raise SharedFolder(self.name, self.folder, uuid)

    def _is_complete_json(self, path: str) -> bool:
        """Returns whether a file exists and has JSON, maybe compressed by gzip."""
        file = self.java.io().newInputFile(path)
        if not file.exists():
            return False
        stream = file.newStream()
        try:
            content = bytes(stream.readAllBytes())
        finally:
            stream.close()
        try:
            json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
        except (ValueError, EOFError, OSError):
            return False
        return True

    def files_below(self, folder: str) -> Iterator[str]:
        """Yields the files below a folder: none if the folder doesn't exist, or the table's FileIO can't list files."""
        if not self._io_supports("PrefixOperations"):
            return
        try:
            for file in java_elements(self.java.io().listPrefix(f"{folder}/").iterator()):
                yield str(file.location())
        except Exception as problem:
            # A missing folder is reported by `listPrefix` or by the first access of the iterator.
            if "FileNotFoundException" not in str(problem):
                raise

    def oldest_time(self) -> int | None:
        """Returns the creation time of the oldest snapshot, in milliseconds since 1970, or None if there is none."""
        snapshots = self.java.snapshots().iterator()
        return int(snapshots.next().timestampMillis()) if snapshots.hasNext() else None

    def times_of_detached_snapshots(self, lineage: Iterable[Snapshot]) -> list[int]:
        """Returns the creation times, in milliseconds since 1970, of the snapshots outside a lineage and all branches and
        tags."""
        held = {each.id for each in lineage}
        for ref in self.java.refs().values():
            held |= {
                int(each.snapshotId()) for each in self._ancestors_from(self.java.snapshot(ref.snapshotId()))
            }
        every = java_elements(self.java.snapshots().iterator())
        return [int(each.timestampMillis()) for each in every if int(each.snapshotId()) not in held]

    def time_of(self, snapshot: int) -> int:
        """Returns the creation time of a snapshot, in milliseconds since 1970."""
        return int(self.java.snapshot(snapshot).timestampMillis())

    def expire_snapshots(self, before: int, at_least: int = 1) -> None:
        """Expires the snapshots made before a time (milliseconds since 1970), and deletes the files that only they have.

        The newest `at_least` snapshots and those of tags and branches are retained. Files outside of the table's folder
        belong to somebody else and are not deleted.
        """
        java = jvm(self.spark)
        files = java.java.util.ArrayList()
        update = self.java.expireSnapshots().expireOlderThan(before).retainLast(at_least)
        update.deleteWith(_collecting_consumer(java, files)).commit()
        self._delete_files(
            [
                file
                for file in map(str, java_elements(files.iterator()))
                if path_below(self.folder, file) is not None
            ]
        )

    def _delete_files(self, files: Iterable[str]) -> None:
        io, listed = self.java.io(), jvm(self.spark).java.util.ArrayList()
        if self._io_supports("BulkOperations"):
            for file in files:
                listed.add(file)
            io.deleteFiles(listed)
            return
        for file in files:
            io.deleteFile(file)

    def has_all_files_in_folder(self) -> bool:
        """Returns whether all files of the table are in its folder. Files elsewhere belong to somebody else."""
        folder = literal(f"{plain_path(self.folder)}/")
        path = "regexp_replace(file_path, '^file:/+', '/')"
        others = f"select 1 from {self.name}.all_files where not startswith({path}, {folder}) limit 1"
        return self.spark.sql(others).isEmpty()

    def set_missing_properties(self, properties: Mapping[str, str]) -> None:
        """Sets the properties that the table doesn't have yet."""
        has = self.java.properties()
        missing = {name: value for name, value in properties.items() if not has.containsKey(name)}
        if missing:
            self.set_properties(missing)

    def set_properties(self, properties: Mapping[str, str | None]) -> None:
        """Sets properties of the table; None removes a property."""
        set_properties(self.java, properties)


def set_properties(table: Any, properties: Mapping[str, str | None]) -> None:
    """Sets properties of an Iceberg table or transaction; None removes a property."""
    update = table.updateProperties()
    for name, value in properties.items():
        if value is None:
            update.remove(name)
        else:
            update.set(name, value)
    update.commit()


def change_columns(spark: SparkSession, update: Any, change: Migration, before: str | None = None) -> None:
    """Commits changes of columns with Iceberg's schema update. A column that is dropped and added loses its values.
    `before`: the column before which new columns are inserted. Default: at the end."""
    for name in change.drop:
        update.deleteColumn(name)
    for was, now in change.rename.items():
        update.renameColumn(was, now)
    added = _iceberg_schema(spark, change.add).columns() if change.add else ()
    for column in added:
        # The parent is None, so that a dot in the name doesn't make it a nested field.
        update.addColumn(None, column.name(), column.type())
        if before is not None:
            update.moveBefore(column.name(), before)
    for path, fields in change.widen.items():
        for name, kind, after in fields:
            update.addColumn(path, name, _iceberg_type(spark, kind))
            if after is None:
                update.moveFirst(f"{path}.{name}")
            else:
                update.moveAfter(f"{path}.{name}", f"{path}.{after}")
    for path, names in change.narrow.items():
        for name in names:
            update.deleteColumn(f"{path}.{name}")
    for path, kind in change.promote.items():
        update.updateColumn(path, _iceberg_type(spark, kind))
    update.commit()


def _iceberg_schema(spark: SparkSession, kinds: Mapping[str, str]) -> Any:
    """Returns Iceberg's schema of columns with these Spark types."""
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds.items())
    return java_class(spark, _TYPES).convert(java_class(spark, _STRUCT).fromDDL(columns))


def _iceberg_type(spark: SparkSession, kind: str) -> Any:
    """Returns Iceberg's type of a Spark type."""
    return _iceberg_schema(spark, {"made": kind}).columns().get(0).type()


def stored_types(spark: SparkSession, kinds: Mapping[str, str]) -> dict[str, str]:
    """Returns the types of columns once they are stored in a table, as Iceberg has fewer types than Spark."""
    return column_types(_spark_schema(spark, _iceberg_schema(spark, kinds)))


def _spark_schema(spark: SparkSession, schema: Any) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(java_class(spark, _TYPES).convert(schema).json()))


def columns_in_spark(spark: SparkSession, table: Any) -> StructType:
    """Returns the columns of an Iceberg table as a Spark schema."""
    return _spark_schema(spark, table.schema())


def is_of_stream(snapshot: Any) -> bool:
    """Returns whether an Iceberg snapshot was committed by a stream."""
    return bool(snapshot.summary().containsKey(f"{PREFIX}batch-id"))


def java_elements(iterator: Any) -> Iterator[Any]:
    """Yields the elements of a Java iterator. A loop over a Java collection itself would end without an error at an
    element that py4j can't fetch.

    Raises:
        RuntimeError: an element can't be fetched.
    """
    while iterator.hasNext():
        yield iterator.next()


def _to_snapshot(snapshot: Any) -> Snapshot:
    return Snapshot(
        int(snapshot.snapshotId()),
        int(snapshot.timestampMillis()),
        str(snapshot.operation()),
        is_of_stream(snapshot),
        int(snapshot.summary().get("added-data-files") or 0) > 0,
    )


def starting_snapshot(lineage: Iterable[Snapshot]) -> tuple[int, Snapshot] | None:
    """Finds the snapshot at which a stream can start after a full read of the table: the newest append with files.

    Returns:
        The 1-based index of the snapshot, and the snapshot. None if there is none, or if a later snapshot is neither an
        append nor a compaction.

    >>> def snapshot(operation: str, adds_files: bool = True) -> Snapshot:
    ...     return Snapshot(1, 0, operation, True, adds_files)
    >>> starting_snapshot([snapshot(REPLACE), snapshot(APPEND, False), snapshot(APPEND)])[0]
    3
    >>> starting_snapshot([snapshot("overwrite"), snapshot(APPEND)]) is None
    True
    """
    for place, each in enumerate(lineage, 1):
        # A stream can't start at the snapshot of a micro-batch without rows.
        if each.operation == APPEND and each.adds_files:
            return place, each
        if each.operation not in (APPEND, REPLACE):
            break
    return None


UUID = "-".join(f"[0-9a-f]{{{digits}}}" for digits in (8, 4, 4, 4, 12))
"""Pattern of a UUID."""
_ICEBERGS = re.compile(rf"metadata/[^/]*{UUID}[^/]*|data/(?:.*/)?\d+-\d+-{UUID}-[^/]*")


def path_below(folder: str, file: str) -> str | None:
    """Returns the path of a file relative to a folder, or None if it isn't there."""
    begins, path = f"{plain_path(folder)}/", plain_path(file)
    return path.removeprefix(begins) if path.startswith(begins) else None


def _has_iceberg_name(file: str, folder: str) -> bool:
    """Returns whether a file of a table's folder has a name that Iceberg gives.

    >>> data = "data/day=1/00000-4-0f8fad5b-d9cb-469f-a165-70867728950e-0-00001.parquet"
    >>> [_has_iceberg_name(f"/in/t/{name}", "/in/t") for name in (data, data[5:], f"sub/{data}", "data/mine.csv")]
    [True, False, False, False]
    """
    return _ICEBERGS.fullmatch(path_below(folder, file) or "") is not None


def _collecting_consumer(java: Any, found: Any) -> Any:
    """Returns a Java Consumer that adds its arguments to a list."""
    invoke, consumer = java.java.lang.invoke, java.java.lang.Class.forName("java.util.function.Consumer")
    signature = invoke.MethodType.fromMethodDescriptorString("(Ljava/lang/Object;)Z", None)
    add = invoke.MethodHandles.publicLookup().bind(found, "add", signature)
    return invoke.MethodHandleProxies.asInterfaceInstance(consumer, add)


def added_rows(summary: Mapping[str, str], part: str) -> int:
    """Returns the number of rows that a snapshot added to a partition, from its summary (a Python or Java map).

    >>> added_rows({"partitions.part=groups": "added-data-files=1,added-records=7"}, "groups")
    7
    """
    found = _ADDED.search(summary.get(f"partitions.part={quote_plus(part)}") or "")
    return int(found[1]) if found else 0


def load_table(spark: SparkSession, name: str) -> IcebergTable | None:
    """Returns the table of that name, or None if it doesn't exist."""
    return IcebergTable(spark, name) if spark.catalog.tableExists(name) else None


def find_table(spark: SparkSession, name: str) -> IcebergTable | None:
    """Returns the Iceberg table of that name, or None if it doesn't exist, or is a view or a table of another format."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    try:
        return load_table(spark, name)
    except (AnalysisException, IllegalArgumentException):
        return None
