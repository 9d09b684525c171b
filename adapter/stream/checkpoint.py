"""What Structured Streaming's checkpoint says: whose it is and how far it has come."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..environment.storage import Storage


@dataclass(frozen=True)
class Checkpoint:
    """The record of a streaming query."""

    query_id: str
    planned: int | None
    """The newest micro-batch whose input is fixed; None before the first."""
    done: int | None
    """The newest micro-batch that Spark saw through to its end."""


def read_checkpoint(storage: Storage, path: str) -> Checkpoint | None:
    """The checkpoint in a folder; None where no stream has begun."""
    metadata = storage.read_text(f"{path}/metadata")
    if not metadata:
        return None
    return Checkpoint(
        query_id=json.loads(metadata)["id"],
        planned=_newest(storage, f"{path}/offsets"),
        done=_newest(storage, f"{path}/commits"),
    )


def read_offsets(storage: Storage, path: str, batch: int) -> list[str]:
    """How far each source was to be read by a micro-batch, in the order of the sources."""
    # The first line is a version, the second what Spark notes of the micro-batch itself.
    return (storage.read_text(f"{path}/offsets/{batch}") or "").splitlines()[2:]


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


def _newest(storage: Storage, log: str) -> int | None:
    return max((int(name) for name in storage.list(log) if name.isdigit()), default=None)
