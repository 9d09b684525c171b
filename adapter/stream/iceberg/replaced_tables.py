"""Old copies of the tables of batch models: dropped with their files, or expired once they are old.

Every run of a `table` model, and every full refresh, leaves a whole copy of the rows before. Iceberg's own defaults say how
long a snapshot is of use, and the properties of a table may say otherwise.
"""

from __future__ import annotations

import time

from ...environment.storage import Storage
from .maintenance import OWN_AGE, OWN_NUMBER
from .snapshot_retention import unread
from .table import IcebergTable, beginning, each_of

MAX_SNAPSHOT_AGE = 5 * 24 * 60 * 60 * 1000
"""Milliseconds for which a snapshot is kept: Iceberg's default of `history.expire.max-snapshot-age-ms`."""


def may_delete_files(table: IcebergTable) -> bool:
    """Returns whether the files of a table may go with it: all are in its own folder, and neither a branch nor a tag keeps a
    snapshot, nor does the property ``gc.enabled`` say that they are somebody else's."""
    is_free = table.property("gc.enabled") != "false" and _refs(table) in ([], ["main"])
    return is_free and table.has_only_its_own()


def expire_old(storage: Storage, table: IcebergTable) -> bool:
    """Forgets the snapshots of a table that are older than its properties say, with the files that only they have (as of
    `IcebergTable.expire`).

    These stay: the newest so many of ``history.expire.min-snapshots-to-keep`` (one, where nothing is said), those of
    branches and tags, what a stream of the storage root has not read, and the newest that appends and what came after it,
    for a stream can begin with it.

    Args:
        storage: where the checkpoints of streams are.
        table: the table.

    Returns:
        Whether there were any.
    """
    age = int(table.property(OWN_AGE) or MAX_SNAPSHOT_AGE)
    oldest = table.oldest_made()
    before = int(time.time() * 1000) - age
    if oldest is None or oldest >= before or table.property("gc.enabled") == "false":
        return False
    left = unread(storage, table.name)
    if left.whole is not None:
        return False
    lineage = table.lineage()
    needed = [each.made for each in lineage if each.id in left.after]
    begins = beginning(lineage)
    if begins is not None:
        needed.append(begins[1].made)
    before = min(before, *needed) if needed else before
    if oldest >= before:
        return False
    table.expire(before, int(table.property(OWN_NUMBER) or 1))
    return True


def _refs(table: IcebergTable) -> list[str]:
    return [str(name) for name in each_of(table.java.refs().keySet().iterator())]
