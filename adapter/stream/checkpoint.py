"""What Structured Streaming's checkpoint says: whose it is and how far it has come."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    missing: tuple[str, ...] = ()
    """What has to be there, going by the rest, and isn't: somebody deleted a part of the checkpoint."""


def read_checkpoint(storage: Storage, path: str) -> Checkpoint | None:
    """The checkpoint in a folder; None where no stream has begun."""
    metadata = storage.read_text(f"{path}/metadata")
    planned, done = _newest(storage, f"{path}/offsets"), _newest(storage, f"{path}/commits")
    if not metadata and planned is None and done is None:
        return None
    missing = [] if metadata else ["metadata"]
    if done is not None and (planned is None or planned < done):
        missing.append(f"offsets/{done}")
    elif planned is not None:
        missing += _missing_logs(storage, path, planned)
    query_id = json.loads(metadata)["id"] if metadata else ""
    return Checkpoint(query_id, planned, done, tuple(missing))


def clear_beginning(storage: Storage, path: str) -> None:
    """Delete what a killed process has left of the plan of a first micro-batch. Spark refuses to begin beside it."""
    checkpoint = read_checkpoint(storage, path)
    if checkpoint is None or (checkpoint.planned is None and checkpoint.done is None):
        storage.delete(f"{path}/offsets")


def read_offsets(storage: Storage, path: str, batch: int) -> list[str]:
    """How far each source was to be read by a micro-batch, in the order of the sources."""
    # The first line is a version, the second what Spark notes of the micro-batch itself.
    return (storage.read_text(f"{path}/offsets/{batch}") or "").splitlines()[2:]


def _missing_logs(storage: Storage, path: str, batch: int) -> Iterator[str]:
    """The logs of folders' files, where they lack what a micro-batch was to read: Spark takes such a folder for read."""
    for number, offset in enumerate(read_offsets(storage, path, batch)):
        last = _place_in_log(offset)
        log = f"sources/{number}"
        names = storage.list(f"{path}/{log}") if last is not None and last >= 0 else []
        places = [int(name) for name in (each.removesuffix(".compact") for each in names) if name.isdigit()]
        if last is not None and last > max(places, default=-1):
            yield f"{log}/{last}"


def _place_in_log(offset: str) -> int | None:
    """The place in the log of a folder's files up to which a micro-batch reads; None: it isn't of a folder.

    >>> _place_in_log('{"logOffset":7}')
    7
    >>> _place_in_log('{"version":1,"snapshot_id":17}')
    """
    return _number(offset, "logOffset")


def last_snapshot(offset: str) -> int | None:
    """The snapshot up to which a table was read; None where none was, or it isn't Iceberg's.

    >>> last_snapshot('{"version":1,"snapshot_id":17,"position":2,"scan_all_files":false}')
    17
    >>> last_snapshot('{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}')
    >>> last_snapshot('-')
    """
    snapshot = _number(offset, "snapshot_id")
    return snapshot if snapshot is not None and snapshot >= 0 else None


def _number(offset: str, name: str) -> int | None:
    """A number in a source's offset; None: it has none of that name."""
    try:
        found = json.loads(offset)[name]
    except (ValueError, TypeError, KeyError):
        return None
    return found if isinstance(found, int) else None


def _newest(storage: Storage, log: str) -> int | None:
    return max((int(name) for name in storage.list(log) if name.isdigit()), default=None)
