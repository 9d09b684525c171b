"""What the streams of a storage root have not read yet of a table: their checkpoints say so, and those of savepoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..common.errors import StreamError
from ..common.identifiers import parts
from ..storage.checkpoint import next_snapshots
from ..storage.savepoints import listed
from ..storage.source_order import noted_sources

if TYPE_CHECKING:
    from ...environment.storage import Storage


@dataclass(frozen=True)
class Unread:
    """What a table has to keep for the streams that read it."""

    after: Mapping[int, str] = field(default_factory=dict)
    """The snapshots, of whatever tables, that streams have come to, and which stream: they and what came later. Of a
    savepoint also which one, as in ``orders/before-deploy``."""
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
    for name, path in _checkpoints(storage):
        try:
            places = [
                place
                for place, each in enumerate(noted_sources(storage, path))
                if parts(each) == parts(table)
            ]
            next_ones = next_snapshots(storage, path)
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


def _checkpoints(storage: Storage) -> Iterator[tuple[str, str]]:
    """The checkpoints of streams and those that savepoints have copies of, and what each is called."""
    for name in storage.list(storage.checkpoints):
        yield name, f"{storage.checkpoints}/{name}"
    for model in storage.list(storage.savepoints):
        for name in _savepoints(storage, f"{storage.savepoints}/{model}"):
            yield f"{model}/{name}", f"{storage.savepoints}/{model}/{name}/checkpoint"


def _savepoints(storage: Storage, path: str) -> list[str]:
    """Those that somebody asked for, in the folder of a model. Others are taken back soon, or never."""
    try:
        return [each.name for each in listed(storage, path) if not each.is_automatic]
    except (NotADirectoryError, StreamError):
        return []
