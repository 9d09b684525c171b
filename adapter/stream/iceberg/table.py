"""Iceberg's own view of a table, asked in the driver: no Spark job, a few milliseconds."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ...util.types import type_text
from ..common.model import plain_path
from ..common.session import active, java_class, jvm
from ..progress.position import PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ..evolution.output_schema import Widening, Wider

_SIZES = ("partition", "record_count", "total_data_file_size_in_bytes", "file_count")
"""Columns of Iceberg's table of a table's partitions."""
_MOST_FILES = 500
"""That one compaction puts together."""

_ADDED = re.compile(r"\badded-records=(\d+)")

_TYPES, _STRUCT = "org.apache.iceberg.spark.SparkSchemaUtil", "org.apache.spark.sql.types.StructType"

APPEND, REPLACE, EXPIRED = "append", "replace", "expired"

FILES, DELETE_FILES, RECORDS, DELETED = (
    f"total-{what}" for what in ("data-files", "delete-files", "records", "position-deletes")
)
"""What a snapshot counts: files of rows, files of deletes, the rows in the former, and those of them that are gone."""

COMMIT = f"{PREFIX}commit"
"""The property of a stream's commit by which the run that made it finds it again."""
FOLLOWED = f"{PREFIX}followed"
"""The property of a stream's commit that may be on top of others' changes which the changelog lacks: the snapshot up to
which the changelog follows the table."""


@dataclass(frozen=True)
class Snapshot:
    """A state of a table."""

    id: int
    made: int
    """Milliseconds since 1970."""
    operation: str
    """What made it: `APPEND`, `REPLACE` or another operation of Iceberg's."""
    is_step: bool
    """Whether it carries a stream's position."""
    adds_files: bool
    """Whether rows came with it."""


class SharedFolder(Exception):
    """The folder of a table has files of another one."""

    def __init__(self, table: str, folder: str, uuid: str) -> None:
        super().__init__(
            f"{table}: its folder {folder} has metadata of another table (UUID {uuid}), which another catalog "
            "may have or which "
            "was dropped without its files"
        )


class IcebergTable:
    """A handle on a table that exists."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._spark = spark
        self._table: Any = java_class(spark, "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
            spark._jsparkSession, name
        )
        self._to_json = java_class(spark, "org.apache.iceberg.SnapshotParser").toJson
        self._counted: tuple[int | None, Any] = (None, None)
        """A snapshot and its summary, which says how much the table has."""
        self.known = self.snapshot_id
        """The snapshot that this run has seen, or made. It is read, and the next commit of a step has to come after it,
        though there may be newer ones by now."""

    @property
    def spark(self) -> SparkSession:
        """The session it was looked up in."""
        return self._spark

    @property
    def java(self) -> Any:
        """Iceberg's own table."""
        return self._table

    def refresh(self) -> None:
        """See what was committed since."""
        self._table.refresh()

    def follow(self) -> None:
        """Build on what was committed since."""
        self.refresh()
        self.known = self.snapshot_id

    def build_on(self, commit: str) -> bool:
        """Build on a commit, by its `COMMIT`; whether it was made."""
        self.refresh()
        for snapshot in self.snapshots():
            if snapshot.summary().get(COMMIT) == commit:
                self.known = int(snapshot.snapshotId())
                return True
        return False

    @property
    def uuid(self) -> str:
        """Iceberg's id of the table, which it keeps when it is renamed or replaced."""
        return str(self._table.uuid())

    def schema_json(self, snapshot: int | None = None) -> str:
        """Returns the columns as they are now, or were when one of its snapshots was made, as Iceberg writes them."""
        schema = self._table.schema()
        if snapshot is not None and (number := self._table.snapshot(snapshot).schemaId()) is not None:
            schema = self._table.schemas().get(number)
        return str(java_class(self._spark, "org.apache.iceberg.SchemaParser").toJson(schema))

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot at the last look; None if nothing was ever written."""
        snapshot = self._table.currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def _at(self) -> Any:
        """The snapshot that is known, as Iceberg's."""
        return None if self.known is None else self._table.snapshot(self.known)

    def follows(self, snapshot: int) -> bool:
        """Whether the table, as it is now, came about from one of its snapshots by adding to it."""
        return any(int(each.snapshotId()) == snapshot for each in self.snapshots())

    def between(self, start: int, end: int) -> list[str] | None:
        """Returns what made the snapshots after one of them, up to another one: `APPEND`, `REPLACE` or another operation of
        Iceberg's. None: the later one didn't come about from the earlier one by adding to it, or snapshots between them have
        expired."""
        if start == end:
            return []
        found = []
        for each in self._back_from(self._table.snapshot(end)):
            found.append(str(each.operation()))
            if each.parentId() == start:
                return found
        return None

    def has(self, snapshot: int) -> bool:
        """Whether one of its snapshots is there."""
        return self._table.snapshot(snapshot) is not None

    def left(self, snapshot: int) -> bool:
        """Whether the table went on from before one of its snapshots, which it was put back to, and another way."""
        now = {int(each.snapshotId()) for each in self.snapshots()}
        return any(int(each.snapshotId()) in now for each in self._back_from(self._table.snapshot(snapshot)))

    def past(self) -> Iterator[str]:
        """What made each snapshot that led to the newest, from there back: `APPEND`, `REPLACE` or another operation of
        Iceberg's; `EXPIRED` at the end if the oldest has lost the one before it."""
        oldest = None
        for snapshot in self.snapshots():
            yield str(snapshot.operation())
            oldest = snapshot
        if oldest is not None and oldest.parentId() is not None:
            yield EXPIRED

    def snapshots(self) -> Iterator[Any]:
        """The newest snapshot, the one it came from, and so on, as far back as they are there."""
        return self._back_from(self._table.currentSnapshot())

    def past_of_known(self) -> Iterator[Any]:
        """The snapshot that the known one came from, and so on."""
        past = self._back_from(self._at())
        next(past, None)
        return past

    def _back_from(self, snapshot: Any) -> Iterator[Any]:
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.snapshot(parent)

    def _steps(self) -> Iterator[Any]:
        """The snapshots that a stream's commits made, from the known one back."""
        return filter(is_of_stream, self._back_from(self._at()))

    @property
    def folder(self) -> str:
        """Where its files are."""
        return str(self._table.location()).rstrip("/")

    @property
    def _lists(self) -> bool:
        """Whether its FileIO can say which files there are."""
        kind = jvm(self._spark).java.lang.Class.forName("org.apache.iceberg.io.SupportsPrefixOperations")
        return bool(kind.isInstance(self._table.io()))

    @property
    def _is_hadoops(self) -> bool:
        """Whether its FileIO is one over Hadoop's file systems."""
        return str(self._table.io().getClass().getSimpleName()) == "HadoopFileIO"

    @property
    def snapshot_count(self) -> int:
        """How many snapshots the table has."""
        return int(self._table.snapshots().size())

    @property
    def has_lost_rows(self) -> bool:
        """Whether snapshots have expired with which rows came, so that not all came with those that are there."""
        oldest = None
        for snapshot in self.snapshots():
            oldest = snapshot
        if oldest is None or oldest.parentId() is None:
            return False
        total, added, deleted = (
            oldest.summary().get(f"{what}-records") for what in ("total", "added", "deleted")
        )
        return total is None or int(total) - int(added or 0) + int(deleted or 0) > 0

    @property
    def is_blank(self) -> bool:
        """Whether all that was ever written to the table is one snapshot without files."""
        snapshot = self._table.currentSnapshot()
        return snapshot is not None and snapshot.parentId() is None and not self.count("added-data-files")

    def count(self, what: str) -> int:
        """A count in the snapshot's summary; 0 if nothing was ever written."""
        known, summary = self._counted
        if known is None or known != self.known:
            snapshot = self._at()
            if snapshot is None:
                return 0
            summary = snapshot.summary()
            self._counted = self.known, summary
        # One key, not all: each that crosses over to Python takes half a millisecond.
        return int(summary.get(what) or 0)

    @property
    def column_names(self) -> tuple[str, ...]:
        """What its columns are called."""
        return tuple(columns_in_spark(self.spark, self._table).names)

    def property(self, name: str) -> str | None:
        """A property of the table."""
        return self._table.properties().get(name)

    def property_names(self) -> list[str]:
        """What its properties are called."""
        return [str(name) for name in each_of(self._table.properties().keySet().iterator())]

    def newest_summary(self) -> Mapping[str, str]:
        """The summary of the snapshot; empty if nothing was ever written."""
        snapshot = self._at()
        return {} if snapshot is None else self._summary(snapshot)

    def last_summary(self) -> Mapping[str, str]:
        """The summary of a stream's last commit to the table; empty if there is none.

        Snapshots of others, such as a compaction, may lie on top of it.
        """
        return next(self.summaries(), {})

    def summaries(self) -> Iterator[Mapping[str, str]]:
        """The summaries of a stream's commits to the table, the last one first."""
        return map(self._summary, self._steps())

    def _summary(self, snapshot: Any) -> Mapping[str, str]:
        # All at once: the entries of a map of Java's one by one take as long as a small commit.
        found: dict[str, str] = json.loads(self._to_json(snapshot)).get("summary", {})
        return {name: text for name, text in found.items() if name != "operation"}

    def summaries_since(self, snapshot: int | None) -> list[Mapping[str, str]] | None:
        """The summaries of the snapshots that came after one, or after none, up to the known one; None: that isn't among
        its past any more."""
        found: list[Mapping[str, str]] = []
        for each in self._back_from(self._at()):
            if int(each.snapshotId()) == snapshot:
                return found
            found.append(self._summary(each))
            if each.parentId() is None and snapshot is None:
                return found
        return found if snapshot is None and self.known is None else None

    def sizes(self) -> dict[str, tuple[int, int, int]]:
        """Rows, bytes and files by partition, of a table partitioned by one column. From its metadata, without a job."""
        if self.known is None:
            return {}
        kinds = java_class(self._spark, "org.apache.iceberg.MetadataTableType")
        tables = java_class(self._spark, "org.apache.iceberg.MetadataTableUtils")
        partitions = tables.createMetadataTableInstance(self._table, kinds.PARTITIONS)
        columns = partitions.schema().columns()
        place = {str(columns.get(number).name()): number for number in range(columns.size())}
        anything = jvm(self._spark).java.lang.Class.forName("java.lang.Object")
        found = {}
        tasks = partitions.newScan().useSnapshot(self.known).planFiles()
        for task in each_of(tasks.iterator()):
            for row in each_of(task.asDataTask().rows().iterator()):
                told = [row.get(place[name], anything) for name in _SIZES]
                found[str(told[0].get(0, anything))] = (int(told[1]), int(told[2]), int(told[3]))
        tasks.close()
        return found

    def last_step(self) -> tuple[int, int | None]:
        """The snapshot of a stream's last commit to the table, of which there is one, and the snapshot before it."""
        snapshot = next(self._steps())
        before = snapshot.parentId()
        return int(snapshot.snapshotId()), None if before is None else int(before)

    def changed_by_others(self) -> int | None:
        """The newest snapshot in which rows were changed by others than a stream, after its last commit (or right below
        it, as that says by `FOLLOWED`); None: none."""
        until = None
        for snapshot in self._back_from(self._at()):
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

    def followed(self) -> int | None:
        """The snapshot up to which a changelog follows the table at least, going by a stream's last commit; None: none."""
        for snapshot in self._steps():
            return int(snapshot.summary().get(FOLLOWED) or snapshot.snapshotId())
        return None

    def added_rows(self, part: str) -> int:
        """Rows that the snapshot added to a partition of a table partitioned by ``part``."""
        snapshot = self._at()
        return 0 if snapshot is None else added_rows(snapshot.summary(), part)

    def lineage(self) -> list[Snapshot]:
        """The snapshots that led to the newest, from there back."""
        return list(map(_snapshot, self.snapshots()))

    def lineage_of(self, snapshot: int) -> list[Snapshot]:
        """One of its snapshots, the one it came from, and so on."""
        return list(map(_snapshot, self._back_from(self._table.snapshot(snapshot))))

    def columns_of(self, snapshot: int, schema: int | None = None) -> str:
        """The table's columns as they are now, or were, as a select list over one of its snapshots, which has the columns of
        its time.

        Args:
            snapshot: one of its snapshots.
            schema: Iceberg's number of the columns; None: as they are now.
        """
        then = self._table.schemas().get(self._table.snapshot(snapshot).schemaId())
        types = java_class(self._spark, _TYPES)
        wanted = self._table.schema() if schema is None else self._table.schemas().get(schema)
        fields = wanted.columns().iterator()
        listed = []
        while fields.hasNext():
            field = fields.next()
            name, was = quoted(field.name()), then.findColumnName(field.fieldId())
            column = f"cast(null as {types.convert(field.type()).sql()})" if was is None else quoted(was)
            listed.append(f"{column} as {name}")
        return ", ".join(listed)

    def columns_but(self, known: Collection[int]) -> dict[str, str]:
        """Returns the columns, and fields in them, whose ids aren't known, with their types, if older rows have NULL there.

        The type of a name that several have, of other types, is empty.
        """
        types = java_class(self._spark, _TYPES)
        index = java_class(self._spark, "org.apache.iceberg.types.TypeUtil")
        found: dict[str, str] = {}
        for field in index.indexById(self._table.schema().asStruct()).values():
            if int(field.fieldId()) in known or field.initialDefault() is not None:
                continue
            kind = type_text(_in_spark(types.convert(field.type()).json()))
            if found.setdefault(str(field.name()), kind) != kind:
                found[str(field.name())] = ""
        return found

    def at(self, snapshot: int, more: str = "") -> str:
        """The table as it was at one of its snapshots, as a relation with the columns it has now.

        Args:
            snapshot: the snapshot.
            more: a select list of what else it has, of Iceberg's columns that say where a row is.
        """
        then = f"{self.name} version as of {snapshot}"
        is_same = int(self._table.snapshot(snapshot).schemaId()) == int(self._table.schema().schemaId())
        if is_same and not more:
            return then
        listed = "*" if is_same else self.columns_of(snapshot)
        return f"(select {listed}{more and f', {more}'} from {then})"

    def change_columns(
        self, spark: SparkSession, add: Mapping[str, str], drop: Iterable[str] = (), before: str | None = None
    ) -> None:
        """Add columns, which are NULL in all rows, and drop others, in one commit of metadata.

        Args:
            spark: a session.
            add: their types by name.
            drop: their names.
            before: the column that new ones stand before; None: they come last.
        """
        # Iceberg makes no second try of its own where the metadata is older than the table's.
        self.refresh()
        update = self._table.updateSchema()
        change_columns(spark, update, add, drop, {}, before)
        update.commit()
        self.refresh()

    def widen_columns(self, spark: SparkSession, wider: Widening) -> None:
        """Make columns wider, in one commit of metadata."""
        self.refresh()
        update = self._table.updateSchema()
        widen_columns(spark, update, {".".join(path): fields for path, fields in wider.fields.items()})
        promote_columns(spark, update, {".".join(path): kind for path, kind in wider.promote.items()})
        update.commit()
        self.refresh()

    def appended(self, first: int | None, last: int) -> int:
        """How many rows came to the table from a snapshot (None: from the beginning) to another, both counted in."""
        newest = self._table.snapshot(last)
        if first is None:
            return 0 if newest is None else int(newest.summary().get("total-records") or 0)
        found = 0
        for snapshot in self._back_from(newest):
            if snapshot.operation() == APPEND:
                found += int(snapshot.summary().get("added-records") or 0)
            if int(snapshot.snapshotId()) == first:
                break
        return found

    def newest_append(self) -> int | None:
        """Returns the newest snapshot that led to the current one and added files by appending; None if there is none."""
        lineage = map(_snapshot, self.snapshots())
        return next((each.id for each in lineage if each.operation == APPEND and each.adds_files), None)

    def compact(
        self,
        spark: SparkSession,
        properties: Mapping[str, str],
        target: int,
        at_least: int = 5,
        is_worn: bool = False,
    ) -> None:
        """Put small files together, and write those anew of which many rows are gone, in one commit that carries
        `properties`, or two. Rows stay as they are.

        Args:
            spark: a session.
            properties: of the commit.
            target: bytes of a file. Larger ones are left alone, whoever made them.
            at_least: files that are put together, of a partition.
            is_worn: all files of which rows are gone are written anew, not only those of which many are.
        """
        actions = java_class(spark, "org.apache.iceberg.spark.actions.SparkActions").get(spark._jsparkSession)
        if self.count(DELETE_FILES) and not is_worn:
            # Each is of all files of rows after it. Afterwards each file of rows has one, and it is known how many of its
            # rows are gone.
            together = actions.rewritePositionDeletes(self._table).option("rewrite-all", "true")
            for key, value in properties.items():
                together = together.snapshotProperty(key, value)
            with active(spark):
                together.execute()
        action = actions.rewriteDataFiles(self._table).binPack()
        options = {
            "remove-dangling-deletes": "true",
            **({"delete-file-threshold": 1} if is_worn else {}),
            "target-file-size-bytes": target,
            "min-file-size-bytes": target // 2,
            # Files above it would be split.
            "max-file-size-bytes": 2**62,
            "min-input-files": at_least,
            # Of what a history load left, some now and some the next time: the stream waits meanwhile.
            "max-files-to-rewrite": _MOST_FILES,
        }
        for option, number in options.items():
            action = action.option(option, str(number))
        for key, value in properties.items():
            action = action.snapshotProperty(key, value)
        with active(spark):
            action.execute()

    def orphans(self, spark: SparkSession, before: int, remove: bool) -> list[str]:
        """Files in the table's folder that none of its snapshots knows, as a killed process leaves them.

        Args:
            spark: a session.
            before: milliseconds since 1970; later files are left out, for a commit that is going on may need them.
            remove: whether they are removed.

        Raises:
            SharedFolder: another table has files there, too.
        """
        self.refresh()
        self._check_folder(spark)
        java = jvm(spark)
        actions = java.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
        action = actions.deleteOrphanFiles(self._table).olderThan(before)
        if self._lists and not self._is_hadoops:
            # Hadoop may know nothing of where they are.
            action = action.usePrefixListing(True)
        if not remove:
            action = action.deleteWith(_nothing(java))
        files = action.execute().orphanFileLocations().iterator()
        found = []
        while files.hasNext():
            found.append(str(files.next()))
        return sorted(found)

    def _check_folder(self, spark: SparkSession) -> None:
        """Raises where the table's folder has metadata of another table: two catalogs of one warehouse may have given two
        tables of one name the same folder, and no catalog knows of the other's files."""
        java = self._table.operations().current()
        known = {
            str(java.metadataFileLocation()),
            *(str(each.file()) for each in each_of(java.previousFiles().iterator())),
        }
        parser = java_class(spark, "org.apache.iceberg.TableMetadataParser")
        for path in self.listed(f"{self.folder}/metadata"):
            if not path.endswith(".metadata.json") or path in known:
                continue
            try:
                uuid = str(parser.read(self._table.io(), path).uuid())
            except Exception:  # half a file
                continue
            if uuid != str(self._table.uuid()):
                raise SharedFolder(self.name, self.folder, uuid)

    def listed(self, folder: str) -> Iterator[str]:
        """The files below a folder, as the catalog's FileIO has them; none where it can't list, or there is no folder."""
        if not self._lists:
            return
        try:
            for file in each_of(self._table.io().listPrefix(f"{folder}/").iterator()):
                yield str(file.location())
        except Exception as problem:
            # Some say at once that there is none, others when they are asked for the first file.
            if "FileNotFoundException" not in str(problem):
                raise

    def oldest_made(self) -> int | None:
        """When the oldest snapshot was made, in milliseconds since 1970; None if there is none."""
        snapshots = self._table.snapshots().iterator()
        return int(snapshots.next().timestampMillis()) if snapshots.hasNext() else None

    def made_of_others(self, lineage: Iterable[Snapshot]) -> list[int]:
        """Returns when the snapshots were made that didn't lead to the newest one, but those of branches and tags."""
        held = {each.id for each in lineage}
        for ref in self._table.refs().values():
            held |= {
                int(each.snapshotId()) for each in self._back_from(self._table.snapshot(ref.snapshotId()))
            }
        every = each_of(self._table.snapshots().iterator())
        return [int(each.timestampMillis()) for each in every if int(each.snapshotId()) not in held]

    def made(self, snapshot: int) -> int:
        """When one of its snapshots was made, in milliseconds since 1970."""
        return int(self._table.snapshot(snapshot).timestampMillis())

    def expire(self, before: int, at_least: int = 1) -> None:
        """Forget the snapshots made before a time (milliseconds since 1970), and delete the files only they have.

        The newest `at_least` stay, and so do those of tags and branches. Files outside of the table's folder stay, too: they
        were added to it, and are somebody else's.
        """
        java = jvm(self._spark)
        files = java.java.util.ArrayList()
        update = self._table.expireSnapshots().expireOlderThan(before).retainLast(at_least)
        update.deleteWith(_adding_to(java, files)).commit()
        own = java.java.util.ArrayList()
        for file in each_of(files.iterator()):
            if self._is_in_folder(str(file)):
                own.add(file)
        io = self._table.io()
        if java.java.lang.Class.forName("org.apache.iceberg.io.SupportsBulkOperations").isInstance(io):
            io.deleteFiles(own)
            return
        for file in each_of(own.iterator()):
            io.deleteFile(file)

    def _is_in_folder(self, file: str) -> bool:
        return plain_path(file).startswith(f"{plain_path(self.folder)}/")

    def has_only_its_own(self) -> bool:
        """Returns whether all files of the table are in its folder. Others were added to it, and are somebody else's."""
        folder = literal(f"{plain_path(self.folder)}/")
        path = "regexp_replace(file_path, '^file:/+', '/')"
        others = f"select 1 from {self.name}.all_files where not startswith({path}, {folder}) limit 1"
        return self._spark.sql(others).isEmpty()

    def set_defaults(self, properties: Mapping[str, str]) -> None:
        """Give the table properties that it hasn't."""
        has = self._table.properties()
        missing = {name: value for name, value in properties.items() if not has.containsKey(name)}
        if missing:
            self.set_properties(missing)

    def set_properties(self, properties: Mapping[str, str | None]) -> None:
        """Give the table properties; None takes one away."""
        set_properties(self._table, properties)


def set_properties(table: Any, properties: Mapping[str, str | None]) -> None:
    """The same for one of Iceberg's tables, or for a transaction of one."""
    update = table.updateProperties()
    for name, value in properties.items():
        if value is None:
            update.remove(name)
        else:
            update.set(name, value)
    update.commit()


def change_columns(
    spark: SparkSession,
    update: Any,
    add: Mapping[str, str],
    drop: Iterable[str],
    rename: Mapping[str, str],
    before: str | None = None,
) -> None:
    """Note changes of columns in Iceberg's update of a table's schema. What is dropped and added begins anew."""
    for name in drop:
        update.deleteColumn(name)
    for was, now in rename.items():
        update.renameColumn(was, now)
    if not add:
        return
    fields = java_class(spark, _STRUCT).fromDDL(
        ", ".join(f"{quoted(name)} {kind}" for name, kind in add.items())
    )
    columns = java_class(spark, _TYPES).convert(fields).columns().iterator()
    while columns.hasNext():
        column = columns.next()
        # Of no other column, whatever is in its name.
        update.addColumn(None, column.name(), column.type())
        if before is not None:
            update.moveBefore(column.name(), before)


def widen_columns(spark: SparkSession, update: Any, widen: Mapping[str, Sequence[Wider]]) -> None:
    """Note in Iceberg's update of a table's schema that columns which are structs get more fields, each after another."""
    for column, fields in widen.items():
        for name, kind, after in fields:
            update.addColumn(column, name, _type(spark, kind))
            if after is None:
                update.moveFirst(f"{column}.{name}")
            else:
                update.moveAfter(f"{column}.{name}", f"{column}.{after}")


def narrow_columns(update: Any, narrow: Mapping[str, Sequence[str]]) -> None:
    """Note in Iceberg's update of a table's schema that columns which are structs lose fields."""
    for column, fields in narrow.items():
        for name in fields:
            update.deleteColumn(f"{column}.{name}")


def promote_columns(spark: SparkSession, update: Any, promote: Mapping[str, str]) -> None:
    """Note in Iceberg's update of a table's schema that columns become of wider types, which Iceberg has to allow."""
    for name, kind in promote.items():
        update.updateColumn(name, _type(spark, kind))


def _type(spark: SparkSession, kind: str) -> Any:
    """Iceberg's type for one of Spark's."""
    made = java_class(spark, _STRUCT).fromDDL(f"made {kind}")
    return java_class(spark, _TYPES).convert(made).columns().get(0).type()


def stored_types(spark: SparkSession, kinds: Mapping[str, str]) -> dict[str, str]:
    """The types that columns have once they are in a table: Iceberg has fewer than Spark."""
    from pyspark.sql.types import StructType

    asked = java_class(spark, _STRUCT).fromDDL(
        ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds.items())
    )
    types = java_class(spark, _TYPES)
    stored = StructType.fromJson(json.loads(types.convert(types.convert(asked)).json()))
    return {field.name: type_text(field.dataType) for field in stored.fields}


def _in_spark(kind: str) -> Any:
    """A type of Spark's from its JSON."""
    from pyspark.sql.types import StructType

    named = {"name": "it", "type": json.loads(kind), "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [named]}).fields[0].dataType


def columns_in_spark(spark: SparkSession, table: Any) -> StructType:
    """The columns of one of Iceberg's tables, as Spark's."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(java_class(spark, _TYPES).convert(table.schema()).json()))


def is_of_stream(snapshot: Any) -> bool:
    """Whether one of Iceberg's snapshots is a commit of a stream's step."""
    return bool(snapshot.summary().containsKey(f"{PREFIX}batch-id"))


def each_of(iterator: Any) -> Iterator[Any]:
    """What one of Java's iterators has."""
    while iterator.hasNext():
        yield iterator.next()


def _snapshot(snapshot: Any) -> Snapshot:
    return Snapshot(
        int(snapshot.snapshotId()),
        int(snapshot.timestampMillis()),
        str(snapshot.operation()),
        is_of_stream(snapshot),
        int(snapshot.summary().get("added-data-files") or 0) > 0,
    )


def beginning(lineage: Iterable[Snapshot]) -> tuple[int, Snapshot] | None:
    """The snapshot that a stream can begin with which has read the table as it is: the newest that added files, if nothing
    but compactions came after it. None if there is none.

    Args:
        lineage: the newest snapshot, the one it came from, and so on.

    Returns:
        How many snapshots there are up to it, and it.
    """
    for place, each in enumerate(lineage, 1):
        # A micro-batch without rows leaves a snapshot too, and nobody can begin there.
        if each.operation == APPEND and each.adds_files:
            return place, each
        if each.operation not in (APPEND, REPLACE):
            break
    return None


def _nothing(java: Any) -> Any:
    """A Consumer of Java's that does nothing."""
    invoke = java.java.lang.invoke
    signature = invoke.MethodType.fromMethodDescriptorString("(Ljava/lang/Object;)V", None)
    return _consumer(java, invoke.MethodHandles.empty(signature))


def _adding_to(java: Any, found: Any) -> Any:
    """A Consumer of Java's that adds what it is given to a list."""
    invoke = java.java.lang.invoke
    signature = invoke.MethodType.fromMethodDescriptorString("(Ljava/lang/Object;)Z", None)
    add = invoke.MethodHandles.publicLookup().bind(found, "add", signature)
    return _consumer(java, add)


def _consumer(java: Any, handle: Any) -> Any:
    consumer = java.java.lang.Class.forName("java.util.function.Consumer")
    return java.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(consumer, handle)


def added_rows(summary: Mapping[str, str], part: str) -> int:
    """The same from a summary, which is Python's or Java's."""
    found = _ADDED.search(summary.get(f"partitions.part={quote_plus(part)}") or "")
    return int(found[1]) if found else 0


def load(spark: SparkSession, name: str) -> IcebergTable | None:
    """The table of that name; None if there is none."""
    return IcebergTable(spark, name) if spark.catalog.tableExists(name) else None


def find(spark: SparkSession, name: str) -> IcebergTable | None:
    """The Iceberg table of that name; None if there is none, or a view or a table of another format."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    try:
        return load(spark, name)
    except (AnalysisException, IllegalArgumentException):
        return None
