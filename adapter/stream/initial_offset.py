"""Where Iceberg's stream began: told where Iceberg finds no beginning, and moved along with the stream.

Iceberg notes in the checkpoint from which snapshot a stream began (its *initial offset*), and `availableNow` walks
from there to the newest one at each start, though the snapshots on the way were read long ago. With every run the walk
gets longer, and once the first snapshot has expired the stream doesn't start any more (apache/iceberg#18000). What
micro-batches take is in the checkpoint's log of offsets; after the first, nothing else reads that note. So before a
run it is set to the last snapshot that was read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .checkpoint import read_checkpoint, read_offsets
from .failpoints import around
from .iceberg import load
from .model import StreamModel, StreamSource
from .upstream import FROM_TIMESTAMP, last_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEVER = str(2**62)


def move_along(model: StreamModel) -> None:
    """Set the initial offset of each table to the last snapshot that was read of it."""
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.done is None:
        return  # the first micro-batch begins at the initial offset
    offsets = read_offsets(model.storage, model.checkpoint, checkpoint.done)
    for number, offset in enumerate(offsets):
        snapshot = last_snapshot(offset)
        folder = f"{model.checkpoint}/sources/{number}/offsets"
        if snapshot is None or not model.storage.exists(f"{folder}/0"):
            continue
        # Before the snapshot's first file. At its end, Iceberg finds nothing newer and fails of having no offset.
        moved = {"version": 1, "snapshot_id": snapshot, "position": -1, "scan_all_files": False}
        with around("checkpoint.move", model.name):
            # Hadoop's checksum of what was there before.
            model.storage.delete(f"{folder}/.0.crc")
            model.storage.write_text(f"{folder}/0", json.dumps(moved))


def reading_options(spark: SparkSession, source: StreamSource) -> Mapping[str, str]:
    """The options to read a table as a stream with.

    A table to which one commit was made, of no rows, has nothing to begin with yet, which Iceberg fails of. It is
    told to wait, and in the next run that this was all.
    """
    table = load(spark, source.location)
    if table is None or not table.is_blank:
        return source.options
    return {**source.options, FROM_TIMESTAMP: _NEVER}
