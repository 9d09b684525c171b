"""What Structured Streaming's checkpoint says: whose it is and how far it has come."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from ...environment.storage import Storage

METADATA = "metadata"
"""The file that says whose a checkpoint is."""


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
    metadata = storage.read_text(f"{path}/{METADATA}")
    planned, done = _newest(storage, f"{path}/offsets"), _newest(storage, f"{path}/commits")
    if not metadata and planned is None and done is None:
        return None
    missing = [] if metadata else [METADATA]
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


def next_snapshots(storage: Storage, path: str) -> dict[int, int | None]:
    """By a source's place the snapshot at which the next micro-batch of a stream begins; None: it has read none yet.

    A micro-batch that was cut short is read again, from where the one before it ended.
    """
    checkpoint = read_checkpoint(storage, path)
    if checkpoint is not None and checkpoint.done is not None:
        return dict(enumerate(map(last_snapshot, read_offsets(storage, path, checkpoint.done))))
    sources = f"{path}/sources"
    notes = {int(each): f"{sources}/{each}/offsets/0" for each in storage.list(sources) if each.isdigit()}
    return {place: last_snapshot(storage.read_text(note) or "") for place, note in notes.items()}


def read_whole(storage: Storage, path: str) -> dict[int, int | None]:
    """Returns the places of the sources that the first micro-batch of a stream reads as a whole.

    With each is the snapshot up to which rows of it had been changed or deleted; None: none had.
    """
    return read_by_place(storage, whole_file(path))


def read_by_place(storage: Storage, file: str) -> dict[int, Any]:
    """Returns what a file beside a checkpoint notes of the sources, by their places; nothing if it isn't there."""
    return {int(place): noted for place, noted in json.loads(storage.read_text(file) or "{}").items()}


def whole_file(path: str) -> str:
    """The file of a checkpoint with what `read_whole` returns."""
    return f"{path}/whole.json"


def copy_checkpoint(storage: Storage, path: str, to: str, but: Collection[str] = ()) -> None:
    """Copy what a stream needs of its checkpoint to go on: the last micro-batches, and what was read of each source.

    That is a few small files, and of a folder with files the names of those that were read.

    Args:
        storage: where both are.
        path: the checkpoint.
        to: an empty folder.
        but: files that are somebody else's to write.
    """
    names = [
        each
        for each in (
            METADATA,
            "sources.json",
            "schemas.json",
            "topics.json",
            "files.json",
            "columns.json",
            "whole.json",
            "bootstrap.json",
        )
        if each not in but
    ]
    for log in ("offsets", "commits"):
        # Spark begins a micro-batch where the one before it ended, and does the last one again if it has no commit.
        names += [f"{log}/{number}" for number in _numbers(storage, f"{path}/{log}")[-2:]]
    for source in filter(str.isdigit, storage.list(f"{path}/sources")):
        log = f"sources/{source}"
        names += [f"{log}/{name}" for name in needed(storage.list(f"{path}/{log}"))]
        names += [f"{log}/offsets/{number}" for number in _numbers(storage, f"{path}/{log}/offsets")]
    for name in names:
        text = storage.read_text(f"{path}/{name}")
        if text is not None:
            storage.write_text(f"{to}/{name}", text)


def needed(log: Iterable[str], sums: int = 2) -> list[str]:
    """Returns those of the names in a log that say all that it says. Now and then Spark sums it up; from the last two sums
    on it also tells how often.

    >>> log = ["0", "1", "2.compact", "3", "4", "5.compact", "6", "7", "8.compact", "9", "10", ".9.crc", "offsets"]
    >>> needed(log), needed(log, sums=1)
    (['5.compact', '6', '7', '8.compact', '9', '10'], ['8.compact', '9', '10'])
    """
    places = {name: int(number) for name in log if (number := name.removesuffix(".compact")).isdigit()}
    compacted = sorted(place for name, place in places.items() if name.endswith(".compact"))
    first = compacted[-sums:][0] if compacted else 0
    return sorted((name for name, place in places.items() if place >= first), key=places.__getitem__)


def files_read(storage: Storage, path: str, source: int) -> set[str]:
    """The files that were read of a source that is a folder, going by its log; none of another kind of source."""
    return {*file_entries(storage, path, source)}


class FileEntry(NamedTuple):
    """What a folder's log says of a file."""

    offset: int
    """That of the log up to which it was read."""
    modified: int
    """When the file was written last, in milliseconds since 1970."""


def file_entries(storage: Storage, path: str, source: int) -> dict[str, FileEntry]:
    """Returns what the log of a source that is a folder says of its files, by their paths as the log has them."""
    log = f"{path}/sources/{source}"
    found = {}
    for name in needed(storage.list(log), sums=1):
        for line in (storage.read_text(f"{log}/{name}") or "").splitlines():
            if line.startswith("{") and "path" in (entry := json.loads(line)):
                found[str(entry["path"])] = FileEntry(int(entry["batchId"]), int(entry["timestamp"]))
    return found


def files_of_batch(storage: Storage, path: str, place: int, batch: int) -> list[str]:
    """The files that a micro-batch was planned to read of a source that is a folder; none of another kind of source.

    Each folder's log counts for itself: it has an entry for each micro-batch in which there were files, and the offset
    of a micro-batch says up to which entry it reads.
    """
    until, since = (_log_offset(storage, path, place, number) for number in (batch, batch - 1))
    if until is None:
        return []
    log, found = f"{path}/sources/{place}", []
    for number in range(0 if since is None else since + 1, until + 1):
        text = storage.read_text(f"{log}/{number}") or storage.read_text(f"{log}/{number}.compact") or ""
        found += entries_of(text.splitlines(), number)
    return found


def _log_offset(storage: Storage, path: str, place: int, batch: int) -> int | None:
    offsets = read_offsets(storage, path, batch) if batch >= 0 else []
    return place_in_log(offsets[place]) if place < len(offsets) else None


def entries_of(log: Iterable[str], number: int) -> list[str]:
    """The files of one entry of a folder's log, which may be in a file that sums up others.

    >>> entries_of(["v1", '{"path": "file:///a%3F.csv", "batchId": 3}', '{"path": "file:///b.csv", "batchId": 2}'], 3)
    ['file:///a?.csv']
    """
    entries = (json.loads(line) for line in log if line.startswith("{"))
    return [unquote(entry["path"]) for entry in entries if entry.get("batchId") == number and "path" in entry]


def _missing_logs(storage: Storage, path: str, batch: int) -> Iterator[str]:
    """The logs of folders' files, where they lack what a micro-batch was to read: Spark takes such a folder for read."""
    for number, offset in enumerate(read_offsets(storage, path, batch)):
        last = place_in_log(offset)
        log = f"sources/{number}"
        names = storage.list(f"{path}/{log}") if last is not None and last >= 0 else []
        places = [int(name) for name in (each.removesuffix(".compact") for each in names) if name.isdigit()]
        if last is not None and last > max(places, default=-1):
            yield f"{log}/{last}"


def place_in_log(offset: str) -> int | None:
    """The place in the log of a folder's files up to which a micro-batch reads; None: it isn't of a folder.

    >>> place_in_log('{"logOffset":7}')
    7
    >>> place_in_log('{"version":1,"snapshot_id":17}')
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
    return max(_numbers(storage, log), default=None)


def _numbers(storage: Storage, log: str) -> list[int]:
    """The micro-batches that a log has an entry of, the first one first."""
    return sorted(int(name) for name in storage.list(log) if name.isdigit())
