"""Tables kept small: snapshots that nobody reads any more are expired, small files are compacted.

Every micro-batch leaves a snapshot and a file in each table that it writes. Iceberg writes the metadata of all snapshots
anew with each commit, so what a micro-batch costs would follow the number of those before it.

What has to stay, whatever its age:

- the newest snapshot that carries a stream's position, and all after it;
- the newest snapshot that appends, and compactions after it: a stream that begins reads the table as it is there;
- what a stream of the same storage root has not read yet: its checkpoint names the snapshot it has come to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from .errors import StreamError, cause
from .failpoints import FailPointError, around
from .iceberg import APPEND, REPLACE, Snapshot
from .position import COMPACTED
from .unread import Unread, unread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .iceberg import IcebergTable
    from .model import Retention, StreamModel

logger = AdapterLogger("Spark")

EVERY = 50
"""Snapshots, or files, that come from one look to the next at whether there are too many."""

_MANY = 5
"""Times as many snapshots as are wanted: somebody has to know."""

PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
"""Of Iceberg: a metadata file per commit would stay for ever."""


def kept_snapshots(lineage: Sequence[Snapshot], retention: Retention, now: int, left: Unread) -> int:
    """How many snapshots stay.

    Args:
        lineage: the newest snapshot, the one it came from, and so on.
        retention: what the model's author wants.
        now: milliseconds since 1970.
        left: what streams have not read yet.
    """
    if left.whole:
        return len(lineage)
    young = sum(now - each.made <= retention.max_snapshot_age // 1000 for each in lineage)
    return max(
        1,
        min(young, retention.max_snapshots),
        _first(lineage, lambda each: each.is_step),
        _whole(lineage),
        _last(lineage, lambda each: each.id in left.after),
    )


def _first(lineage: Sequence[Snapshot], wanted: Callable[[Snapshot], bool]) -> int:
    """How many snapshots there are up to the first that is wanted; 0 if none is."""
    return next((place for place, each in enumerate(lineage, 1) if wanted(each)), 0)


def _whole(lineage: Sequence[Snapshot]) -> int:
    """How many there are up to the one that a stream can begin with; 0 if rows were changed since."""
    place = _first(lineage, lambda each: each.operation != REPLACE)
    return place if place and lineage[place - 1].operation == APPEND else 0


def _last(lineage: Sequence[Snapshot], wanted: Callable[[Snapshot], bool]) -> int:
    return max((place for place, each in enumerate(lineage, 1) if wanted(each)), default=0)


class Maintenance:
    """Keeps a table of a model small.

    Args:
        kind: which of the model's tables it is, for fail points.
        model: the model.
        table: the table.
        retention: what is kept of it.
        build_on: has the run build on a compaction, which is made without a condition; None where others compact the table.
    """

    def __init__(
        self,
        kind: str,
        model: StreamModel,
        table: IcebergTable,
        retention: Retention,
        build_on: Callable[[], object] | None = None,
    ) -> None:
        self._kind, self._model, self._table = kind, model, table
        self._retention, self._build_on = retention, build_on
        # When it was looked at last. A run may take in little, so it doesn't begin with a look at all that is there.
        self._files, self._snapshots = 0, retention.max_snapshots

    def after_commit(self, spark: SparkSession) -> int:
        """Do what is due; how many commits that took.

        What fails is told and tried again later: the rows are in the table.

        Raises:
            StreamError: another run of the model has written the table.
        """
        try:
            return self._compact(spark) + self._expire()
        except (FailPointError, StreamError):
            raise
        except Exception as problem:
            self._table.refresh()
            self._files, self._snapshots = self._table.count("total-data-files"), self._table.snapshot_count
            logger.warning(
                f"Model {self._model.name}: its table {self._table.name} can't be kept small ({cause(problem)}) No row "
                f"is lost; the next try comes after {EVERY} more commits."
            )
            return 0

    def _compact(self, spark: SparkSession) -> int:
        if self._build_on is None or self._table.count("total-data-files") < self._files + EVERY:
            return 0
        before = self._table.known
        with around(f"{self._kind}.compact", self._model.name):
            self._table.compact(spark, {COMPACTED: "true"}, self._retention.target_file_size, EVERY // 2)
        self._build_on()
        self._files = self._table.count("total-data-files")
        return int(self._table.known != before)

    def _expire(self) -> int:
        if self._table.snapshot_count < self._snapshots + EVERY:
            return 0
        self._table.refresh()
        lineage = self._table.lineage()
        left = unread(self._model.storage, self._table.name)
        kept = kept_snapshots(lineage, self._retention, int(time.time() * 1000), left)
        if kept > _MANY * self._retention.max_snapshots:
            self._tell_who_holds(lineage[kept - 1], kept, left)
        # A commit of its own has to be worth it.
        if len(lineage) - kept >= EVERY:
            with around(f"{self._kind}.expire", self._model.name):
                self._table.expire(min(each.made for each in lineage[:kept]))
            self._table.refresh()
        expired = self._table.snapshot_count < len(lineage)
        self._snapshots = self._table.snapshot_count
        return int(expired)

    def _tell_who_holds(self, oldest: Snapshot, kept: int, left: Unread) -> None:
        holder = left.whole or left.after.get(oldest.id)
        if holder is not None:
            logger.warning(
                f"Model {self._model.name}: its table {self._table.name} keeps {kept} snapshots, for the stream that writes "
                f"{holder} has not read them yet. Run that model, or have `dbt-stream reset` forget it."
            )
