"""Tables kept small: snapshots that nobody reads any more are expired, small files are compacted.

Every micro-batch leaves a snapshot and a file in each table that it writes. Iceberg writes the metadata of all snapshots
anew with each commit, so what a micro-batch costs would follow the number of those before it.

What has to stay, whatever its age:

- the newest snapshot that carries a stream's position, and all after it;
- the newest snapshot that appends rows, and what came after it: a stream that begins reads the table as it is there
  (up to `_MANY` times as many as are wanted);
- what a stream of the same storage root has not read yet: its checkpoint names the snapshot it has come to; and what it
  would read again from a savepoint;
- what the table's own properties keep: ``history.expire.max-snapshot-age-ms`` and ``history.expire.min-snapshots-to-keep``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from ..common.errors import StreamError, cause
from ..common.failpoints import FailPointError, around
from ..common.model import is_beside
from ..progress.position import COMPACTED
from .snapshot_retention import Unread, unread
from .table import DELETE_FILES, DELETED, FILES, RECORDS, Snapshot, beginning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..common.model import Retention, StreamModel
    from .table import IcebergTable

logger = AdapterLogger("Spark")

EVERY = 50
"""Snapshots, or files, that come from one look to the next at whether there are too many."""

_MANY = 5
"""Times as many snapshots as are wanted: somebody has to know."""

OWN_AGE, OWN_NUMBER = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
"""Properties by which the author of a table keeps more."""

PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
"""Of Iceberg: a metadata file per commit would stay for ever."""


def kept_snapshots(
    lineage: Sequence[Snapshot],
    retention: Retention,
    now: int,
    left: Unread,
    age: int | None = None,
    at_least: int = 1,
) -> int:
    """How many snapshots stay.

    Args:
        lineage: the newest snapshot, the one it came from, and so on.
        retention: what the model's author wants.
        now: milliseconds since 1970.
        left: what streams have not read yet.
        age: milliseconds for which the table's own properties keep a snapshot, however many there are; None: they don't.
        at_least: how many they keep.
    """
    if left.whole:
        return len(lineage)

    begins = beginning(lineage)

    def young(limit: int) -> int:
        return sum(now - each.made <= limit for each in lineage)

    return min(
        len(lineage),
        max(
            at_least,
            min(young(retention.max_snapshot_age // 1000), retention.max_snapshots),
            0 if age is None else young(age),
            _first(lineage, lambda each: each.is_step),
            min(0 if begins is None else begins[0], _MANY * retention.max_snapshots),
            _last(lineage, lambda each: each.id in left.after),
        ),
    )


def _first(lineage: Sequence[Snapshot], wanted: Callable[[Snapshot], bool]) -> int:
    """How many snapshots there are up to the first that is wanted; 0 if none is."""
    return next((place for place, each in enumerate(lineage, 1) if wanted(each)), 0)


def _last(lineage: Sequence[Snapshot], wanted: Callable[[Snapshot], bool]) -> int:
    return max((place for place, each in enumerate(lineage, 1) if wanted(each)), default=0)


def of_read_table(
    kind: str, model: StreamModel, table: IcebergTable, build_on: Callable[[], object]
) -> Maintenance:
    """The maintenance of a table of a model that others read, by what the model's author wants (as of `Maintenance`)."""
    table.set_defaults(PROPERTIES)
    return Maintenance(kind, model, table, model.retention, build_on)


class Maintenance:
    """Keeps a table of a model small.

    Args:
        kind: which of the model's tables it is, for fail points.
        model: the model.
        table: the table.
        retention: what is kept of it.
        build_on: has the run build on a compaction, which is made without a condition; None where others compact the table.
        is_read: whether streams read it.
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
        # When it was looked at last. A run may take in little, so it doesn't begin with a look at all that is there.
        self._files, self._snapshots = 0, retention.max_snapshots
        self._worn_until = 0
        self._is_old = is_read and self._oldest_is_old()

    def look_again(self) -> None:
        """See with the next commit whether there is something to expire: files were replaced by others."""
        self._is_old = True

    def after_commit(self, spark: SparkSession, before: Callable[[], int] = lambda: 0) -> int:
        """Do what is due.

        What fails is told and tried again later: the rows are in the table.

        Args:
            spark: a session.
            before: what else is done, and before; returns how many commits it took.

        Returns:
            How many commits that took.

        Raises:
            StreamError: another run of the model has written the table.
        """
        try:
            return before() + self._compact(spark) + self._expire()
        except (FailPointError, StreamError):
            raise
        except Exception as problem:
            self._table.refresh()
            self._looked_at_files()
            self._snapshots = self._table.snapshot_count
            logger.warning(
                f"Model {self._model.name}: its table {self._table.name} can't be kept small ({cause(problem)}) No row "
                f"is lost; the next try comes after {EVERY} more commits."
            )
            return 0

    def _compact(self, spark: SparkSession) -> int:
        if self._build_on is None:
            return 0
        files = self._count()
        is_worn = files >= self._worn_until and self._is_worn()
        # To plan a compaction reads what the table has, so it waits for a share of that.
        if files < self._files + max(EVERY, self._files // 4) and not is_worn:
            return 0
        rows = self._table.count(FILES)
        if (
            self._files == 0
            and not is_worn
            and self._table.count("total-files-size") >= rows * self._retention.target_file_size // 2
        ):
            # As another run left it, or a compaction.
            self._files = files
            return 0
        before = self._table.known
        with around(f"{self._kind}.compact", self._model.name):
            self._table.compact(
                spark, {COMPACTED: "true"}, self._retention.target_file_size, EVERY // 2, is_worn
            )
        self._build_on()
        self._looked_at_files()
        return int(self._table.known != before)

    def _looked_at_files(self) -> None:
        self._files = self._count()
        # What couldn't be mended isn't tried again with each commit.
        self._worn_until = self._files + EVERY if self._is_worn() else 0

    def _count(self) -> int:
        """The table's files, those of deletes too."""
        return self._table.count(FILES) + self._table.count(DELETE_FILES)

    def _is_worn(self) -> bool:
        """Whether more than a third of the rows in its files are gone."""
        gone = self._table.count(DELETED)
        return gone > 0 and 3 * gone > self._table.count(RECORDS)

    def _expire(self) -> int:
        if self._table.snapshot_count < self._snapshots + EVERY and not self._is_old:
            return 0
        if self._table.property("gc.enabled") == "false":
            return 0
        self._is_old = False
        self._table.refresh()
        lineage = self._table.lineage()
        left = unread(self._model.storage, self._table.name) if self._is_read else Unread()
        age, number = self._table.property(OWN_AGE), int(self._table.property(OWN_NUMBER) or 1)
        kept = kept_snapshots(
            lineage, self._retention, int(time.time() * 1000), left, None if age is None else int(age), number
        )
        if kept > _MANY * self._retention.max_snapshots:
            self._tell_who_holds(lineage[kept - 1], kept, left)
        # Made in the place of another, a table has the snapshots of that one, which are of use only while they are young.
        replaced = self._table.made_of_others(lineage) if lineage else []
        young = int(time.time() * 1000) - max(self._retention.max_snapshot_age // 1000, int(age or 0))
        stays = [made for made in replaced if made >= young]
        if kept + len(stays) > self._retention.max_snapshots:
            stays = []
        is_old = any(made < young for made in replaced)
        # A commit of its own has to be worth it.
        if lineage and (len(lineage) - kept >= min(EVERY, kept) or is_old):
            with around(f"{self._kind}.expire", self._model.name):
                self._table.expire(min([each.made for each in lineage[:kept]] + stays))
            self._table.refresh()
        expired = self._table.snapshot_count < len(lineage) + len(replaced)
        self._snapshots = self._table.snapshot_count
        return int(expired)

    def _oldest_is_old(self) -> bool:
        """Whether there is a snapshot of twice the age that they are kept to."""
        oldest = self._table.oldest_made()
        return oldest is not None and time.time() * 1000 - oldest > self._retention.max_snapshot_age // 500

    def _tell_who_holds(self, oldest: Snapshot, kept: int, left: Unread) -> None:
        holder = left.whole or left.after.get(oldest.id)
        if holder is not None and "/" in holder:
            _, name = holder.split("/")
            logger.warning(
                f"Model {self._model.name}: its table {self._table.name} keeps {kept} snapshots, for the savepoint {holder} "
                f"would read them again. `dbt-stream state savepoint … --delete {name}` lets them go."
            )
        elif holder is not None and is_beside(holder):
            logger.warning(
                f"Model {self._model.name}: its table {self._table.name} keeps {kept} snapshots, for {holder}, a version "
                "of a model that lies beside it, has not read them. `dbt-stream deploy await` reads them, `dbt-stream "
                "deploy cleanup` of that model lets them go."
            )
        elif holder is not None:
            logger.warning(
                f"Model {self._model.name}: its table {self._table.name} keeps {kept} snapshots, for the stream that writes "
                f"{holder} has not read them yet. Run that model, or have `dbt-stream reset` forget it; of one that is no "
                "longer in the project, drop the table, and `dbt-stream clean --dropped --yes` forgets the rest."
            )
