"""Removes old copies of the tables of batch models by expiring their snapshots.

Every run of a `table` model leaves a copy of all earlier rows. Snapshots are retained as long as the table's properties
say, else as long as Iceberg's defaults.
"""

from __future__ import annotations

import time

from ...environment.storage import Storage
from .maintenance import OWN_AGE, OWN_NUMBER
from .snapshot_retention import required_snapshots
from .table import IcebergTable, starting_snapshot

MAX_SNAPSHOT_AGE = 5 * 24 * 60 * 60 * 1000
"""Milliseconds to retain a snapshot: Iceberg's default of `history.expire.max-snapshot-age-ms`."""


def expire_old(storage: Storage, table: IcebergTable) -> bool:
    """Expires the snapshots of a table that are older than its properties allow, and deletes the files that only they have.

    Retained are the newest ``history.expire.min-snapshots-to-keep`` snapshots (default: one), those of branches and tags,
    those that a stream of the storage root has not read, and the newest append with all after it, where a new stream can
    start.

    Args:
        storage: where the checkpoints of streams are.

    Returns:
        Whether there were snapshots to expire.
    """
    age = int(table.property(OWN_AGE) or MAX_SNAPSHOT_AGE)
    oldest = table.oldest_time()
    before = int(time.time() * 1000) - age
    if oldest is None or oldest >= before or table.property("gc.enabled") == "false":
        return False
    left = required_snapshots(storage, table.name)
    if left.whole is not None:
        return False
    lineage = table.lineage()
    needed = [each.made for each in lineage if each.id in left.after]
    begins = starting_snapshot(lineage)
    if begins is not None:
        needed.append(begins[1].made)
    before = min(before, *needed) if needed else before
    if oldest >= before:
        return False
    table.expire(before, int(table.property(OWN_NUMBER) or 1))
    return True
