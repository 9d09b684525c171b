"""Iceberg's own view of a table, asked in the driver: no Spark job, a few milliseconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .position import PREFIX, Position, read_position
from .session import jvm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

# Whoever reads a table keeps the snapshot that was current when the reading began.
_READERS_TIME = 5 * 60.0
_KEPT = 3


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

    @property
    def summary(self) -> Mapping[str, str]:
        """The newest snapshot's summary; empty if nothing was ever written."""
        snapshot = self._table.currentSnapshot()
        return {} if snapshot is None else dict(snapshot.summary())

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return dict(self._table.properties())

    def position(self) -> Position | None:
        """The last step of a stream in the table.

        Snapshots of others, such as a compaction, may lie on top of it.
        """
        snapshot = self._table.currentSnapshot()
        while snapshot is not None:
            summary = snapshot.summary()
            if summary.containsKey(f"{PREFIX}batch-id"):
                return read_position(dict(summary))
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.snapshot(parent)
        return None

    def expire_snapshots(self) -> None:
        """Forget snapshots that no reader can still be at, and delete the files only they have.

        Tags and branches keep theirs.
        """
        older_than = int((time.time() - _READERS_TIME) * 1000)
        self._table.expireSnapshots().expireOlderThan(older_than).retainLast(_KEPT).commit()


def load(spark: SparkSession, name: str) -> IcebergTable | None:
    """The table of that name; None if there is none."""
    return IcebergTable(spark, name) if spark.catalog.tableExists(name) else None
