"""Finds the snapshots of a table that streams of a storage root still need, from checkpoints and savepoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..common.identifiers import parts
from ..storage.checkpoint import next_snapshots
from ..storage.savepoints import retaining_sources
from ..storage.source_order import noted_sources

if TYPE_CHECKING:
    from ...environment.storage import Storage


@dataclass(frozen=True)
class RequiredSnapshots:
    """The snapshots that a table has to retain for the streams that read it."""

    after: Mapping[int, str] = field(default_factory=dict)
    """Snapshot (of any table) at which a stream continues → the stream's name, or ``orders/before-deploy`` for a
    savepoint. This snapshot and all later ones of its table are needed."""
    whole: str | None = None
    """Name of a stream that has not read the table yet, so that all snapshots are needed; None if there is none."""


def required_snapshots(storage: Storage, table: str) -> RequiredSnapshots:
    """Returns the snapshots of a table that the streams of a storage root still need."""
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
        except (ValueError, KeyError, TypeError):
            # The stream of an unreadable checkpoint may have read nothing yet.
            whole = name
            continue
        after |= {snapshot: name for snapshot in next_ones.values() if snapshot is not None}
        if any(next_ones.get(place) is None for place in places):
            whole = name
    return RequiredSnapshots(after, whole)


def _checkpoints(storage: Storage) -> Iterator[tuple[str, str]]:
    """Yields name and path of the checkpoints of streams, and of their copies in savepoints."""
    for name in storage.list(storage.checkpoints):
        yield name, f"{storage.checkpoints}/{name}"
    for model in storage.list(storage.savepoints):
        path = f"{storage.savepoints}/{model}"
        for name in retaining_sources(storage, path):
            yield f"{model}/{name}", f"{path}/{name}/checkpoint"
