"""Are the tables that a stream reads still those it has read? One that was built anew starts from zero.

A checkpoint names the last snapshot that was read of each table. Rows that came since are those of the
snapshots after it. Where the table has come about in another way, it has none: `dbt run --full-refresh`
of a model upstream, or a table model that every run replaces. Iceberg notices that only when the table
has rows again, and in the words of its own classes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .checkpoint import read_checkpoint, read_offsets
from .errors import StreamError
from .iceberg import load
from .model import StreamModel, feed_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_sources(spark: SparkSession, model: StreamModel) -> None:
    """Return if each table goes on where the model stopped reading it.

    Args:
        spark: any session.
        model: the model.

    Raises:
        StreamError: one was built anew since, and what to run.
    """
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None:
        return
    offsets = read_offsets(model.storage, model.checkpoint, checkpoint.planned)
    if len(offsets) != len(model.sources):
        return  # the checkpoint is of other sources, which the stream says when it starts
    for source, offset in zip(model.sources, offsets, strict=True):
        snapshot = None if source.is_files else last_snapshot(offset)
        if snapshot is None:
            continue
        table = load(spark, source.location)
        if table is not None and not table.follows(snapshot):
            raise StreamError(replaced(model, source.location))


def last_snapshot(offset: str) -> int | None:
    """The snapshot up to which a table was read; None where none was, or it isn't Iceberg's.

    >>> last_snapshot('{"version":1,"snapshot_id":17,"position":2,"scan_all_files":false}')
    17
    >>> last_snapshot('{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}')
    >>> last_snapshot('-')
    """
    try:
        snapshot = json.loads(offset)["snapshot_id"]
    except (ValueError, TypeError, KeyError):
        return None
    return snapshot if isinstance(snapshot, int) and snapshot >= 0 else None


def replaced(model: StreamModel, table: str) -> str:
    """What to do about a table that was built anew."""
    upstream = table.rpartition(".")[2].removesuffix(feed_of(""))
    return (
        f"Model {model.name}: the table {table} that it streams from was built anew (or rolled back, or the last snapshot "
        f"read of it has expired), so new rows can't be told from those that are in already. Build this model anew too: "
        f"{model.rebuild}; with all models that read the table in turn: `dbt run --full-refresh --select "
        f"{upstream}+`. (A model that is materialized as a table is built anew by every `dbt run`; an "
        "incremental or a streaming one is not.)"
    )
