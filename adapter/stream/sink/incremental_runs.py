"""Detects incremental runs of a model whose table a stream wrote: the stream would add the same rows again.

Before an incremental run writes, it records the table's snapshot in a table property, so that an interrupted run is
detected, too. A starting stream checks the snapshots after the recorded one.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from ..iceberg.table import EXPIRED, REPLACE, is_of_stream
from ..progress.position import PREFIX

if TYPE_CHECKING:
    from ..iceberg.table import IcebergTable

NOTE = f"{PREFIX}incremental-after"
"""Table property with the newest snapshot at the first incremental run since the stream ran."""
_WRITES = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")


def have_written(table: IcebergTable) -> bool:
    """Returns whether incremental runs have written to the current table since the stream ran, or may have, because the
    recorded snapshot has expired."""
    noted = table.property(NOTE)
    if noted is None:
        return False
    if not table.has_ancestor(int(noted)):
        # A rebuilt table begins with a snapshot that has no parent.
        return not table.has_snapshot(int(noted)) and EXPIRED in table.past_operations()
    since = takewhile(lambda each: str(each.snapshotId()) != noted, table.snapshots())
    return any(
        str(each.operation()) != REPLACE
        and not is_of_stream(each)
        and any(each.summary().containsKey(what) for what in _WRITES)
        for each in since
    )


def forget(table: IcebergTable) -> None:
    """Removes the record of incremental runs: the stream continues with the table as it is."""
    if table.property(NOTE) is not None:
        table.set_properties({NOTE: None})
