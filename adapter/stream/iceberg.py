"""Iceberg's own view of a table, asked in the driver: no Spark job, a few milliseconds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from .position import PREFIX
from .session import jvm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

_BATCH = f"{PREFIX}batch-id"
_ADDED = re.compile(r"\badded-records=(\d+)")

APPEND, REPLACE, EXPIRED = "append", "replace", "expired"


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


class IcebergTable:
    """A handle on a table that exists."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._table: Any = jvm(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, name
        )

    def refresh(self) -> None:
        """See what was committed since."""
        self._table.refresh()

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot; None if nothing was ever written."""
        snapshot = self._table.currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def follows(self, snapshot: int) -> bool:
        """Whether the table, as it is now, came about from one of its snapshots by adding to it."""
        return any(int(each.snapshotId()) == snapshot for each in self._snapshots())

    def past(self) -> Iterator[str]:
        """What made each snapshot that led to the newest, from there back: `APPEND`, `REPLACE` or another operation of
        Iceberg's; `EXPIRED` at the end if the oldest has lost the one before it."""
        oldest = None
        for snapshot in self._snapshots():
            yield str(snapshot.operation())
            oldest = snapshot
        if oldest is not None and oldest.parentId() is not None:
            yield EXPIRED

    def _snapshots(self) -> Iterator[Any]:
        """The newest snapshot, the one it came from, and so on, as far back as they are there."""
        snapshot = self._table.currentSnapshot()
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.snapshot(parent)

    @property
    def snapshots(self) -> int:
        """How many snapshots the table has."""
        return int(self._table.snapshots().size())

    @property
    def is_blank(self) -> bool:
        """Whether all that was ever written to the table is one snapshot without files."""
        snapshot = self._table.currentSnapshot()
        return snapshot is not None and snapshot.parentId() is None and not self.count("added-data-files")

    def count(self, what: str) -> int:
        """A count in the newest snapshot's summary; 0 if nothing was ever written."""
        snapshot = self._table.currentSnapshot()
        # One key, not all: each that crosses over to Python takes half a millisecond.
        return 0 if snapshot is None else int(snapshot.summary().get(what) or 0)

    def property(self, name: str) -> str | None:
        """A property of the table."""
        return self._table.properties().get(name)

    def last_summary(self) -> Mapping[str, str]:
        """The summary of a stream's last commit to the table; empty if there is none.

        Snapshots of others, such as a compaction, may lie on top of it.
        """
        for snapshot in self._snapshots():
            summary = snapshot.summary()
            if summary.containsKey(_BATCH):
                return dict(summary)
        return {}

    def added_rows(self, part: str) -> int:
        """Rows that the newest snapshot added to a partition of a table partitioned by ``part``."""
        snapshot = self._table.currentSnapshot()
        return 0 if snapshot is None else added_rows(snapshot.summary(), part)

    def lineage(self) -> list[Snapshot]:
        """The snapshots that led to the newest, from there back."""
        return [
            Snapshot(
                int(each.snapshotId()),
                int(each.timestampMillis()),
                str(each.operation()),
                each.summary().containsKey(_BATCH),
            )
            for each in self._snapshots()
        ]

    def appended(self, first: int | None, last: int) -> int:
        """How many rows came to the table from a snapshot (None: from the beginning) to another, both counted in."""
        found, snapshot = 0, self._table.snapshot(last)
        while snapshot is not None:
            if first is None:
                return int(snapshot.summary().get("total-records") or 0)
            if snapshot.operation() == APPEND:
                found += int(snapshot.summary().get("added-records") or 0)
            parent = snapshot.parentId()
            at_first = int(snapshot.snapshotId()) == first
            snapshot = None if parent is None or at_first else self._table.snapshot(parent)
        return found

    def whole(self) -> int | None:
        """The snapshot from which a stream can begin with all rows of the table: the newest that appends, if nothing
        but compactions came after it, and no rows of its files are deleted. None if there is none."""
        for snapshot in self._snapshots():
            if snapshot.operation() == APPEND:
                deletes = snapshot.deleteManifests(self._table.io())
                return int(snapshot.snapshotId()) if deletes.isEmpty() else None
            if snapshot.operation() != REPLACE:
                break
        return None

    def compact(
        self, spark: SparkSession, properties: Mapping[str, str], target: int, at_least: int = 5
    ) -> None:
        """Put small files together, in one commit that carries `properties`. Rows stay as they are.

        Args:
            spark: a session.
            properties: of the commit.
            target: bytes of a file. Larger files are left alone, so that a large table isn't written again.
            at_least: files that are put together, of a partition.
        """
        actions = jvm(spark).org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
        action = actions.rewriteDataFiles(self._table).binPack()
        options = {
            "target-file-size-bytes": target,
            "min-file-size-bytes": target // 2,
            "max-file-size-bytes": target * 3 // 2,
            "min-input-files": at_least,
        }
        for option, number in options.items():
            action = action.option(option, str(number))
        for key, value in properties.items():
            action = action.snapshotProperty(key, value)
        action.execute()

    def expire(self, before: int) -> None:
        """Forget the snapshots made before a time (milliseconds since 1970), and delete the files only they have.

        The newest stays, and so do those of tags and branches.
        """
        self._table.expireSnapshots().expireOlderThan(before).retainLast(1).commit()

    def set_defaults(self, properties: Mapping[str, str]) -> None:
        """Give the table properties that it hasn't."""
        has = self._table.properties()
        missing = {name: value for name, value in properties.items() if not has.containsKey(name)}
        if not missing:
            return
        update = self._table.updateProperties()
        for name, value in missing.items():
            update.set(name, value)
        update.commit()


def added_rows(summary: Mapping[str, str], part: str) -> int:
    """The same from a summary, which is Python's or Java's."""
    found = _ADDED.search(summary.get(f"partitions.part={quote_plus(part)}") or "")
    return int(found[1]) if found else 0


def load(spark: SparkSession, name: str) -> IcebergTable | None:
    """The table of that name; None if there is none."""
    return IcebergTable(spark, name) if spark.catalog.tableExists(name) else None
