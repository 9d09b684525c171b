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
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from .checkpoint import last_snapshot, read_checkpoint, read_offsets
from .errors import cause
from .failpoints import FailPointError, around
from .iceberg import APPEND, REPLACE, Snapshot
from .position import COMPACTED, PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..environment.storage import Storage
    from .iceberg import IcebergTable
    from .model import Retention, StreamModel

logger = AdapterLogger("Spark")

EVERY = 50
"""Snapshots, or files, that come from one look to the next at whether there are too many."""

PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
"""Of Iceberg: a metadata file per commit would stay for ever."""


def kept_snapshots(lineage: Sequence[Snapshot], retention: Retention, now: int, held: Collection[int]) -> int:
    """How many snapshots stay.

    Args:
        lineage: the newest snapshot, the one it came from, and so on.
        retention: what the model's author wants.
        now: milliseconds since 1970.
        held: snapshots up to which streams have read.
    """
    young = sum(now - each.made <= retention.max_snapshot_age // 1000 for each in lineage)
    return max(
        1,
        min(young, retention.max_snapshots),
        _first(lineage, lambda each: each.is_step),
        _whole(lineage),
        _last(lineage, lambda each: each.id in held),
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


def held_snapshots(storage: Storage) -> set[int]:
    """The snapshots, of whatever tables, that the streams of a storage root have come to."""
    found = set()
    for name in storage.list(storage.checkpoints):
        path = f"{storage.checkpoints}/{name}"
        checkpoint = read_checkpoint(storage, path)
        if checkpoint is None:
            continue
        if checkpoint.done is not None:
            # A micro-batch that was cut short is read again, from where the one before it ended.
            offsets = read_offsets(storage, path, checkpoint.done)
        else:
            sources = f"{path}/sources"
            beginnings = (storage.read_text(f"{sources}/{each}/offsets/0") for each in storage.list(sources))
            offsets = [each for each in beginnings if each is not None]
        found |= {snapshot for offset in offsets if (snapshot := last_snapshot(offset)) is not None}
    return found


class Maintenance:
    """Keeps a table of a model small.

    Args:
        kind: which of the model's tables it is, for fail points.
        model: the model.
        table: the table.
        retention: what is kept of it.
        carried: gives the position for a commit that changes no row; None where others compact the table.
    """

    def __init__(
        self,
        kind: str,
        model: StreamModel,
        table: IcebergTable,
        retention: Retention,
        carried: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._kind, self._model, self._table = kind, model, table
        self._retention, self._carried = retention, carried
        # When it was looked at last.
        self._files = self._snapshots = 0

    def after_commit(self, spark: SparkSession) -> int:
        """Do what is due; how many commits that took.

        What fails is told and tried again later: the rows are in the table.
        """
        try:
            return self._compact(spark) + self._expire()
        except FailPointError:
            raise
        except Exception as problem:
            self._table.refresh()
            self._files, self._snapshots = self._table.count("total-data-files"), self._table.snapshots
            logger.warning(
                f"Model {self._model.name}: its table {self._table.name} can't be kept small ({cause(problem)}) No row "
                f"is lost; the next try comes after {EVERY} more commits."
            )
            return 0

    def _compact(self, spark: SparkSession) -> int:
        if self._carried is None or self._table.count("total-data-files") < self._files + EVERY:
            return 0
        before = self._table.snapshot_id
        with around(f"{self._kind}.compact", self._model.name):
            self._table.compact(spark, self._carried(), self._retention.target_file_size, EVERY // 2)
        self._table.refresh()
        self._files = self._table.count("total-data-files")
        return int(self._table.snapshot_id != before)

    def _expire(self) -> int:
        if self._table.snapshots < self._snapshots + EVERY:
            return 0
        lineage = self._table.lineage()
        held = held_snapshots(self._model.storage)
        kept = kept_snapshots(lineage, self._retention, int(time.time() * 1000), held)
        # A commit of its own has to be worth it.
        if len(lineage) - kept >= EVERY:
            with around(f"{self._kind}.expire", self._model.name):
                self._table.expire(min(each.made for each in lineage[:kept]))
            self._table.refresh()
        expired = self._table.snapshots < len(lineage)
        self._snapshots = self._table.snapshots
        return int(expired)


def compacted(summary: Mapping[str, str]) -> dict[str, str]:
    """The position of a snapshot's summary, for one on top of it that changes no row."""
    return {key: value for key, value in summary.items() if key.startswith(PREFIX)} | {COMPACTED: "true"}
