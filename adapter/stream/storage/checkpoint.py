"""Reads and copies checkpoints of Structured Streaming: the query's id, its micro-batches, and its sources' offsets."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from ...environment.storage import Storage

METADATA = "metadata"
"""The file with the query's id."""
NOTES = ("sources", "schemas", "static", "topics", "files", "columns", "whole", "starts", "bootstrap")
"""Names of the files that this package adds to a checkpoint."""


@dataclass(frozen=True)
class Checkpoint:
    """The progress of a streaming query."""

    query_id: str
    planned: int | None
    """The newest micro-batch whose offsets are logged, or None."""
    done: int | None
    """The newest micro-batch that is committed, or None."""
    missing: tuple[str, ...] = ()
    """Files that somebody has deleted, going by the other files of the checkpoint."""


def read_checkpoint(storage: Storage, path: str) -> Checkpoint | None:
    """Returns the checkpoint in a folder, or None if no stream has started."""
    metadata = storage.read_text(f"{path}/{METADATA}")
    planned, done = (
        max(_batch_numbers(storage, f"{path}/{log}"), default=None) for log in ("offsets", "commits")
    )
    if not metadata and planned is None and done is None:
        return None
    missing = [] if metadata else [METADATA]
    if done is not None and (planned is None or planned < done):
        missing.append(f"offsets/{done}")
    elif planned is not None:
        missing += _missing_log_entries(storage, path, planned)
    query_id = json.loads(metadata)["id"] if metadata else ""
    return Checkpoint(query_id, planned, done, tuple(missing))


def delete_incomplete_offsets(storage: Storage, path: str) -> None:
    """Deletes incomplete offset files of the first micro-batch. A killed process may leave them, and Spark refuses them."""
    checkpoint = read_checkpoint(storage, path)
    if checkpoint is None or (checkpoint.planned is None and checkpoint.done is None):
        storage.delete(f"{path}/offsets")


def planned_batch(storage: Storage, path: str) -> int | None:
    """Returns the newest micro-batch whose offsets are logged, or None if no stream has begun to read."""
    checkpoint = read_checkpoint(storage, path)
    return None if checkpoint is None else checkpoint.planned


def read_offsets(storage: Storage, path: str, batch: int) -> list[str]:
    """Returns the end offset of each source in a micro-batch, in the order of the sources."""
    # The first line is a version, the second is metadata of the micro-batch.
    return (storage.read_text(f"{path}/offsets/{batch}") or "").splitlines()[2:]


def next_snapshots(storage: Storage, path: str) -> dict[int, int | None]:
    """Returns the snapshot at which the next micro-batch starts, by index of the source; None for a source that has not been
    read. An interrupted micro-batch is read again, from the end of the previous one."""
    checkpoint = read_checkpoint(storage, path)
    if checkpoint is not None and checkpoint.done is not None:
        return dict(enumerate(map(last_snapshot, read_offsets(storage, path, checkpoint.done))))
    sources = f"{path}/sources"
    notes = {int(each): f"{sources}/{each}/offsets/0" for each in storage.list(sources) if each.isdigit()}
    return {place: last_snapshot(storage.read_text(note) or "") for place, note in notes.items()}


def sources_read_whole(storage: Storage, path: str) -> dict[int, int | None]:
    """Returns the sources that the first micro-batch reads completely: index of the source → its newest snapshot if rows
    had been changed or deleted, else None."""
    return read_values_by_source(storage, whole_sources_file(path))


def read_values_by_source(storage: Storage, file: str) -> dict[int, Any]:
    """Returns the content of a file of a checkpoint with a value per source, by index; empty if it doesn't exist."""
    return {int(place): noted for place, noted in storage.read_json(file).items()}


def whole_sources_file(path: str) -> str:
    """Returns the path of the file that `sources_read_whole` reads."""
    return f"{path}/whole.json"


def copy_checkpoint(storage: Storage, path: str, to: str, but: Collection[str] = ()) -> None:
    """Copies the files of a checkpoint that a stream needs to continue: the last micro-batches and the sources' logs.

    These are a few small files. A file source's log has the names of all files that were read.

    Args:
        to: an empty folder.
        but: files that the caller writes itself.
    """
    names = [each for each in (METADATA, *(f"{note}.json" for note in NOTES)) if each not in but]
    for log in ("offsets", "commits"):
        # Two are needed: if the last micro-batch isn't committed, Spark runs it again, from the end of the previous one.
        names += [f"{log}/{number}" for number in _batch_numbers(storage, f"{path}/{log}")[-2:]]
    for source in filter(str.isdigit, storage.list(f"{path}/sources")):
        log = f"sources/{source}"
        names += [f"{log}/{name}" for name in needed_log_files(storage.list(f"{path}/{log}"))]
        names += [f"{log}/offsets/{number}" for number in _batch_numbers(storage, f"{path}/{log}/offsets")]
    for name in names:
        text = storage.read_text(f"{path}/{name}")
        if text is not None:
            storage.write_text(f"{to}/{name}", text)


def needed_log_files(log: Iterable[str], compactions: int = 2) -> list[str]:
    """Returns the files of a log that together have all entries: the last `compactions` compacted files, and all files after
    the first of them. Spark derives the interval of compactions from two compacted files.

    >>> log = ["0", "1", "2.compact", "3", "4", "5.compact", "6", "7", "8.compact", "9", "10", ".9.crc", "offsets"]
    >>> needed_log_files(log), needed_log_files(log, compactions=1)
    (['5.compact', '6', '7', '8.compact', '9', '10'], ['8.compact', '9', '10'])
    """
    places = {name: int(number) for name in log if (number := name.removesuffix(".compact")).isdigit()}
    compacted = sorted(place for name, place in places.items() if name.endswith(".compact"))
    first = compacted[-compactions:][0] if compacted else 0
    return sorted((name for name, place in places.items() if place >= first), key=places.__getitem__)


class FileEntry(NamedTuple):
    """An entry in the log of a file source."""

    offset: int
    """The offset of the log at which the file was read."""
    modified: int
    """The file's modification time, in milliseconds since 1970."""


def file_entries(storage: Storage, path: str, source: int) -> dict[str, FileEntry]:
    """Returns the entries in the log of a file source, by path as the log spells it; empty for other sources."""
    log = f"{path}/sources/{source}"
    found = {}
    for name in needed_log_files(storage.list(log), compactions=1):
        for line in (storage.read_text(f"{log}/{name}") or "").splitlines():
            if line.startswith("{") and "path" in (entry := json.loads(line)):
                found[str(entry["path"])] = FileEntry(int(entry["batchId"]), int(entry["timestamp"]))
    return found


def files_until(storage: Storage, path: str, source: int, offset: str) -> set[str]:
    """Returns the files that were read from a file source up to an offset, by path as the log spells it."""
    last, entries = log_number_in_offset(offset), file_entries(storage, path, source)
    return {file for file, entry in entries.items() if last is not None and entry.offset <= last}


def files_of_batch(storage: Storage, path: str, place: int, batch: int) -> list[str]:
    """Returns the files that a micro-batch was planned to read from a file source; empty for other sources.

    The log has an entry for each micro-batch with files. The entries have their own numbers. The offset of a micro-batch is
    the number of the last entry that it reads.
    """
    until, since = (_log_offset(storage, path, place, number) for number in (batch, batch - 1))
    if until is None:
        return []
    log, found = f"{path}/sources/{place}", []
    for number in range(0 if since is None else since + 1, until + 1):
        text = storage.read_text(f"{log}/{number}") or storage.read_text(f"{log}/{number}.compact") or ""
        found += files_of_entry(text.splitlines(), number)
    return found


def _log_offset(storage: Storage, path: str, place: int, batch: int) -> int | None:
    offsets = read_offsets(storage, path, batch) if batch >= 0 else []
    return log_number_in_offset(offsets[place]) if place < len(offsets) else None


def files_of_entry(log: Iterable[str], number: int) -> list[str]:
    """Returns the files of one entry of a file source's log, which may be in a compacted file with other entries.

    >>> files_of_entry(["v1", '{"path": "file:///a%3F.csv", "batchId": 3}', '{"path": "file:///b.csv", "batchId": 2}'], 3)
    ['file:///a?.csv']
    """
    entries = (json.loads(line) for line in log if line.startswith("{"))
    return [unquote(entry["path"]) for entry in entries if entry.get("batchId") == number and "path" in entry]


def _missing_log_entries(storage: Storage, path: str, batch: int) -> Iterator[str]:
    """Yields the last entries that are missing in file sources' logs. Without an entry Spark would skip its files."""
    for number, offset in enumerate(read_offsets(storage, path, batch)):
        last = log_number_in_offset(offset)
        log = f"sources/{number}"
        names = storage.list(f"{path}/{log}") if last is not None and last >= 0 else []
        places = [int(name) for name in (each.removesuffix(".compact") for each in names) if name.isdigit()]
        if last is not None and last > max(places, default=-1):
            yield f"{log}/{last}"


def log_number_in_offset(offset: str) -> int | None:
    """Returns the number of the last log entry in a file source's offset; None if the source is of another kind.

    >>> log_number_in_offset('{"logOffset":7}')
    7
    >>> log_number_in_offset('{"version":1,"snapshot_id":17}')
    """
    return _number_in_offset(offset, "logOffset")


def last_snapshot(offset: str) -> int | None:
    """Returns the snapshot in the offset of an Iceberg source; None if nothing was read or the source is of another kind.

    >>> last_snapshot('{"version":1,"snapshot_id":17,"position":2,"scan_all_files":false}')
    17
    >>> last_snapshot('{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}')
    >>> last_snapshot('-')
    """
    snapshot = _number_in_offset(offset, "snapshot_id")
    return snapshot if snapshot is not None and snapshot >= 0 else None


def topic_offsets(offset: str | None) -> dict[str, dict[str, int]] | None:
    """Returns topic → partition → offset from the offset of a Kafka source; None if nothing was read or the source is of
    another kind.

    >>> topic_offsets('{"bids":{"0":23,"1":19}}')
    {'bids': {'0': 23, '1': 19}}
    >>> topic_offsets('{"version":1,"snapshot_id":17}'), topic_offsets("-"), topic_offsets(None)
    (None, None, None)
    """
    try:
        found = json.loads(offset or "-")
    except ValueError:
        return None
    is_of_kafka = isinstance(found, dict) and all(isinstance(each, dict) for each in found.values())
    return found if is_of_kafka else None


def _number_in_offset(offset: str, name: str) -> int | None:
    """Returns a number in a source's offset by its name, or None if there is none."""
    try:
        found = json.loads(offset)[name]
    except (ValueError, TypeError, KeyError):
        return None
    return found if isinstance(found, int) else None


def _batch_numbers(storage: Storage, log: str) -> list[int]:
    """Returns the numbers of the micro-batches in a log, in ascending order."""
    return sorted(int(name) for name in storage.list(log) if name.isdigit())
