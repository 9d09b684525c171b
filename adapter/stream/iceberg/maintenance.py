"""Table maintenance: expires snapshots that nobody needs, and compacts small files.

Every micro-batch adds a snapshot and a file to each table that it writes. Each commit of Iceberg writes the metadata of all
snapshots, so without maintenance the cost of a micro-batch would grow with the number of micro-batches.

These snapshots are retained regardless of their age:

- the newest snapshot that carries a stream's position, and all after it;
- the newest snapshot that appends rows, and all after it, because a new stream starts reading there (up to `_MANY` times
  the maximum number of snapshots);
- snapshots that a stream of the same storage root has not read yet, according to its checkpoint, or would read again from a
  savepoint;
- snapshots retained by the table's properties ``history.expire.max-snapshot-age-ms`` and
  ``history.expire.min-snapshots-to-keep``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from ...environment.storage import Storage
from ..common.errors import StreamError, cause
from ..common.failpoints import FailPointError, around
from ..common.model import is_deployment_version
from ..progress.position import COMPACTED
from .snapshot_retention import RequiredSnapshots, required_snapshots
from .table import DELETE_FILES, DELETED, FILES, RECORDS, IcebergTable, Snapshot, starting_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..common.model import Retention, StreamModel

logger = AdapterLogger("Spark")

EVERY = 50
"""Number of new snapshots, or files, between two checks whether there are too many."""

_MANY = 5
"""Multiple of the maximum number of snapshots above which a warning names the reader that retains them."""

OWN_AGE, OWN_NUMBER = (
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
)
"""Table properties of Iceberg by which a user retains more snapshots."""

MAX_SNAPSHOT_AGE = 5 * 24 * 60 * 60 * 1000
"""Milliseconds to retain a snapshot of a batch model's table: Iceberg's default of `OWN_AGE`."""

PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
"""Table properties that limit the number of old metadata files. Each commit adds one."""


def count_kept_snapshots(
    lineage: Sequence[Snapshot],
    retention: Retention,
    now: int,
    required: RequiredSnapshots,
    age: int | None = None,
    at_least: int = 1,
) -> int:
    """Returns how many of the newest snapshots to retain.

    Args:
        now: milliseconds since 1970.
        age: milliseconds for which the table's properties retain every snapshot, or None.
        at_least: the number of snapshots that the table's properties retain.
    """
    if required.whole:
        return len(lineage)

    begins = starting_snapshot(lineage)

    def young(limit: int) -> int:
        return sum(now - each.made <= limit for each in lineage)

    needed = [
        at_least,
        min(young(retention.max_snapshot_age // 1000), retention.max_snapshots),
        0 if age is None else young(age),
        next((place for place, each in enumerate(lineage, 1) if each.is_step), 0),
        min(0 if begins is None else begins[0], _MANY * retention.max_snapshots),
        max((place for place, each in enumerate(lineage, 1) if each.id in required.after), default=0),
    ]
    return min(len(lineage), max(needed))


def maintenance_of_read_table(
    kind: str, model: StreamModel, table: IcebergTable, build_on: Callable[[], object]
) -> Maintenance:
    """Returns the maintenance of a model's table or changelog, with the retention of the model's config."""
    table.set_missing_properties(PROPERTIES)
    return Maintenance(kind, model, table, model.retention, build_on)


class Maintenance:
    """Expires snapshots and compacts files of one table of a model.

    Args:
        kind: the kind of table, for fail points.
        build_on: rebases the run on a compaction, which Spark commits without a condition. None if the table is compacted
            elsewhere.
        is_read: whether streams may read the table, so that it retains what they need.
    """

    def __init__(
        self,
        kind: str,
        model: StreamModel,
        table: IcebergTable,
        retention: Retention,
        build_on: Callable[[], object] | None = None,
        is_read: bool = True,
    ) -> None:
        self._kind, self._model, self._table = kind, model, table
        self._retention, self._build_on, self._is_read = retention, build_on, is_read
        # The numbers of files and snapshots at the last check. A run may be short, so it doesn't start with a check.
        self._files, self._snapshots = 0, retention.max_snapshots
        self._worn_until = 0
        self._is_old = is_read and self._has_old_snapshot()

    def check_snapshots_next(self) -> None:
        """Makes the next `maintain_after_commit` check for snapshots to expire, because files were replaced."""
        self._is_old = True

    def maintain_after_commit(self, spark: SparkSession, before: Callable[[], int] = lambda: 0) -> int:
        """Compacts and expires if due. Returns the number of commits.

        Failures are logged, and the next check tries again: the rows are already in the table. Raises only if another run of
        the model has written it.

        Args:
            before: further maintenance to do first. Returns the number of its commits.
        """
        try:
            return before() + self._compact_if_due(spark) + self._expire_if_due()
        except (FailPointError, StreamError):
            raise
        except Exception as problem:
            self._table.refresh()
            self._note_file_count()
            self._snapshots = self._table.snapshot_count
            logger.warning(
                f"Model {self._model.name}: files of its table {self._table.name} can't be compacted or old snapshots can't "
                f"expire ({cause(problem)}) No row is lost; the next try comes after {EVERY} more commits."
            )
            return 0

    def _compact_if_due(self, spark: SparkSession) -> int:
        if self._build_on is None:
            return 0
        files = self._file_count()
        is_worn = files >= self._worn_until and self._is_worn()
        # Planning a compaction reads all metadata, so the number of new files has to be a share of all files.
        if files < self._files + max(EVERY, self._files // 4) and not is_worn:
            return 0
        target, size = self._retention.target_file_size, self._table.summary_count("total-files-size")
        if self._files == 0 and not is_worn and size >= self._table.summary_count(FILES) * target // 2:
            # The existing files are large enough on average: only later ones count.
            self._files = files
            return 0
        before = self._table.known
        with around(f"{self._kind}.compact", self._model.name):
            self._table.compact(spark, {COMPACTED: "true"}, target, EVERY // 2, is_worn)
        self._build_on()
        self._note_file_count()
        return int(self._table.known != before)

    def _note_file_count(self) -> None:
        self._files = self._file_count()
        # If a compaction didn't remove the deleted rows, it isn't tried again with each commit.
        self._worn_until = self._files + EVERY if self._is_worn() else 0

    def _file_count(self) -> int:
        """Returns the number of the table's data files and delete files."""
        return self._table.summary_count(FILES) + self._table.summary_count(DELETE_FILES)

    def _is_worn(self) -> bool:
        """Returns whether more than a third of the rows in the table's files are deleted."""
        gone = self._table.summary_count(DELETED)
        return gone > 0 and 3 * gone > self._table.summary_count(RECORDS)

    def _expire_if_due(self) -> int:
        if self._table.snapshot_count < self._snapshots + EVERY and not self._is_old:
            return 0
        if self._table.property("gc.enabled") == "false":
            return 0
        self._is_old = False
        self._table.refresh()
        lineage = self._table.lineage()
        required = RequiredSnapshots()
        if self._is_read:
            required = required_snapshots(self._model.storage, self._table.name)
        own_age = self._table.property(OWN_AGE)
        age, number = None if own_age is None else int(own_age), int(self._table.property(OWN_NUMBER) or 1)
        now = int(time.time() * 1000)
        kept = count_kept_snapshots(
            lineage=lineage, retention=self._retention, now=now, required=required, age=age, at_least=number
        )
        if kept > _MANY * self._retention.max_snapshots:
            self._log_retaining_streams(lineage[kept - 1], kept, required)
        # After CREATE OR REPLACE a table still has the old table's snapshots, which only their age retains.
        replaced = self._table.times_of_detached_snapshots(lineage) if lineage else []
        young = now - max(self._retention.max_snapshot_age // 1000, age or 0)
        stays = [made for made in replaced if made >= young]
        if kept + len(stays) > self._retention.max_snapshots:
            stays = [made for made in stays if age is not None and now - made <= age]
        is_old = any(made < young for made in replaced)
        # Expiring takes a commit, so it waits until there are enough.
        if lineage and (len(lineage) - kept >= min(EVERY, kept) or is_old):
            with around(f"{self._kind}.expire", self._model.name):
                self._table.expire_snapshots(min([each.made for each in lineage[:kept]] + stays))
            self._table.refresh()
        expired = self._table.snapshot_count < len(lineage) + len(replaced)
        self._snapshots = self._table.snapshot_count
        return int(expired)

    def _has_old_snapshot(self) -> bool:
        """Returns whether the oldest snapshot has twice the maximum age."""
        oldest = self._table.oldest_time()
        return oldest is not None and time.time() * 1000 - oldest > self._retention.max_snapshot_age // 500

    def _log_retaining_streams(self, oldest: Snapshot, kept: int, required: RequiredSnapshots) -> None:
        holder = required.whole or required.after.get(oldest.id)
        if holder is None:
            return
        if "/" in holder:
            why = (
                f"a restore of the savepoint {holder} would read these snapshots again. `dbt-stream state savepoint … "
                f"--delete {holder.split('/')[1]}` releases them."
            )
        elif is_deployment_version(holder):
            why = (
                f"{holder}, another version of a model, has not read these snapshots. `dbt-stream deploy "
                "await` reads them, `dbt-stream deploy cleanup` of that model releases them."
            )
        else:
            why = (
                f"the stream that writes {holder} has not read these snapshots yet. Run that model, or drop it with "
                "`dbt-stream reset`. If it is no longer in the project, drop its table, and remove the rest with "
                "`dbt-stream clean --dropped --yes`."
            )
        logger.warning(
            f"Model {self._model.name}: its table {self._table.name} keeps {kept} snapshots, because {why}"
        )


def expire_old_snapshots(storage: Storage, table: IcebergTable) -> bool:
    """Expires old snapshots of a batch model's table by the table's properties, and deletes the files that only these
    snapshots have. Every run of a `table` model leaves a copy of all earlier rows.

    Retained are the newest ``history.expire.min-snapshots-to-keep`` snapshots (default: one), those of branches and tags,
    those that a stream of the storage root has not read, and the newest append with all after it, where a new stream can
    start. Returns whether there were snapshots to expire.
    """
    age = int(table.property(OWN_AGE) or MAX_SNAPSHOT_AGE)
    oldest = table.oldest_time()
    before = int(time.time() * 1000) - age
    if oldest is None or oldest >= before or table.property("gc.enabled") == "false":
        return False
    required = required_snapshots(storage, table.name)
    if required.whole is not None:
        return False
    lineage = table.lineage()
    needed = [each.made for each in lineage if each.id in required.after]
    begins = starting_snapshot(lineage)
    if begins is not None:
        needed.append(begins[1].made)
    before = min(before, *needed) if needed else before
    if oldest >= before:
        return False
    table.expire_snapshots(before, int(table.property(OWN_NUMBER) or 1))
    return True
