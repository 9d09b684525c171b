"""Incremental runs of a model whose table a stream wrote: the stream would put its rows on top of theirs.

Before it writes, such a run notes in the table which snapshot it found, so that nothing is missed where it is killed. A
stream that begins looks what has come since.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from ..iceberg.table import EXPIRED, REPLACE, is_of_stream
from ..progress.position import PREFIX

if TYPE_CHECKING:
    from ..iceberg.table import IcebergTable

NOTE = f"{PREFIX}incremental-after"
"""The property of a table with the newest snapshot that the first incremental run found since the stream ran."""
_WRITES = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")


def have_written(table: IcebergTable) -> bool:
    """Whether the table, as it is now, came about from what incremental runs wrote since the stream ran.

    Also where that can't be told any more, since the snapshot they found is expired.
    """
    noted = table.property(NOTE)
    if noted is None:
        return False
    if not table.follows(int(noted)):
        # A table that was made anew begins with a snapshot that has none before it.
        return not table.has(int(noted)) and EXPIRED in table.past()
    since = takewhile(lambda each: str(each.snapshotId()) != noted, table.snapshots())
    return any(
        str(each.operation()) != REPLACE
        and not is_of_stream(each)
        and any(each.summary().containsKey(what) for what in _WRITES)
        for each in since
    )


def forget(table: IcebergTable) -> None:
    """The stream goes on: what the table is from here on is its own."""
    if table.property(NOTE) is not None:
        table.set_properties({NOTE: None})
