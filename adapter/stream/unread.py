"""What the streams of a storage root have not read yet of a table: their checkpoints say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .checkpoint import last_snapshot, read_checkpoint, read_offsets
from .identifiers import parts
from .source_order import noted_sources

if TYPE_CHECKING:
    from ..environment.storage import Storage


@dataclass(frozen=True)
class Unread:
    """What a table has to keep for the streams that read it."""

    after: Mapping[int, str] = field(default_factory=dict)
    """The snapshots, of whatever tables, that streams have come to, and which stream: they and what came later."""
    whole: str | None = None
    """A stream that has begun and read nothing of it yet, so that it begins with the first snapshot; None: there is none."""


def unread(storage: Storage, table: str) -> Unread:
    """What the streams of a storage root have not read yet of a table.

    Args:
        storage: where their checkpoints are.
        table: its name, as in their sources.
    """
    after: dict[int, str] = {}
    whole = None
    for name in storage.list(storage.checkpoints):
        path = f"{storage.checkpoints}/{name}"
        try:
            places = [
                place
                for place, each in enumerate(noted_sources(storage, path))
                if parts(each) == parts(table)
            ]
            next_ones = _next_ones(storage, path)
        except NotADirectoryError:
            continue  # a file of somebody's, as file managers leave them
        except (ValueError, KeyError, TypeError):
            # It can't be read, so it may be of a stream that has read nothing yet.
            whole = name
            continue
        after |= {snapshot: name for snapshot in next_ones.values() if snapshot is not None}
        if any(next_ones.get(place) is None for place in places):
            whole = name
    return Unread(after, whole)


def _next_ones(storage: Storage, path: str) -> dict[int, int | None]:
    """By a source's place the snapshot at which the next micro-batch of a stream begins; None: it has read none yet.

    A micro-batch that was cut short is read again, from where the one before it ended.
    """
    checkpoint = read_checkpoint(storage, path)
    if checkpoint is not None and checkpoint.done is not None:
        return dict(enumerate(map(last_snapshot, read_offsets(storage, path, checkpoint.done))))
    sources = f"{path}/sources"
    notes = {int(each): f"{sources}/{each}/offsets/0" for each in storage.list(sources) if each.isdigit()}
    return {place: last_snapshot(storage.read_text(note) or "") for place, note in notes.items()}
