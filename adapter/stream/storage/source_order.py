"""Keeps the order of a stream's sources, even if the order in the query's text changes.

Structured Streaming's checkpoint identifies sources only by their index. So the initial order is stored in the checkpoint,
and later runs match sources by what they read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from ...query.program import StreamInput
from ...sources.source_tables import without_read_digest
from ..common.errors import StreamError
from ..common.model import StreamModel, StreamSource, plain_path
from .checkpoint import last_snapshot, planned_batch, read_offsets

if TYPE_CHECKING:
    from ...environment.storage import Storage

_FILE = "sources.json"


class Order(NamedTuple):
    """The sources of a stream in the order of its checkpoint."""

    model: StreamModel
    """The model with its sources in the order of the checkpoint."""
    inputs: tuple[StreamInput, ...]
    """The streams of the sources."""
    is_noted: bool
    """Whether the order is stored in the checkpoint; if not, it is the order in the query's text."""


def in_checkpoint_order(
    model: StreamModel, inputs: Sequence[StreamInput], checkpoint: str | None = None
) -> Order:
    """Returns a model's sources and their streams in the order of its checkpoint. Raises if the query has other sources.
    `checkpoint`: path of the checkpoint; default: the model's."""
    noted = _recorded_sources(model, checkpoint or model.checkpoint)
    if noted is None:
        # The stream hasn't started, or the checkpoint has no order.
        return Order(model, tuple(inputs), is_noted=False)
    places = _source_indexes(model, noted)
    by_relation = {each.relation: each for each in inputs}
    sources = tuple(model.sources[place] for place in places)
    inputs = tuple(by_relation[source.relation] for source in sources)
    return Order(replace(model, sources=sources), inputs, is_noted=True)


def note_order(order: Order) -> None:
    """Stores the order in the checkpoint unless it is there. Called once nothing prevents the stream from starting,
    because a checkpoint's folder means that the stream has started."""
    if not order.is_noted:
        write_order(order.model)


def write_order(model: StreamModel) -> None:
    """Stores the order of a model's sources in its checkpoint."""
    model.storage.write_text(
        f"{model.checkpoint}/{_FILE}", json.dumps([_source_identity(source) for source in model.sources])
    )


def noted_sources(storage: Storage, checkpoint: str) -> list[str]:
    """Returns the tables and folders that a stream reads, in the order of its checkpoint; empty if it has no order."""
    text = storage.read_text(f"{checkpoint}/{_FILE}")
    return [each["reads"] for each in json.loads(text)] if text is not None else []


def snapshots_read(storage: Storage, checkpoint: str) -> list[tuple[str, int | None]]:
    """Returns the tables and folders of `noted_sources`, each with its last planned snapshot; None if there is none."""
    names, batch = noted_sources(storage, checkpoint), planned_batch(storage, checkpoint)
    offsets = [] if batch is None else read_offsets(storage, checkpoint, batch)
    return [*zip_longest(names, map(last_snapshot, offsets[: len(names)]))]


def _recorded_sources(model: StreamModel, path: str) -> list[dict[str, str]] | None:
    begun = planned_batch(model.storage, path) is not None
    text = model.storage.read_text(f"{path}/{_FILE}") if begun else None
    return json.loads(text) if text is not None else None


def _source_identity(source: StreamSource) -> dict[str, str]:
    relation = without_read_digest(source.relation)
    return {"relation": relation, "reads": source.location.rstrip("/") or relation}


def _check_folder(model: StreamModel, source: StreamSource, known: dict[str, str]) -> None:
    """Raises if the folder of a file source has moved, because Structured Streaming identifies files by their paths."""
    if source.is_files and plain_path(source.location) != plain_path(known["reads"]):
        raise StreamError(
            f"Model {model.name}: its source {source.relation} was the folder {known['reads']}, and is {source.location} "
            "now. A stream identifies files by their paths, so all files there would be read as new. Put the path back, or "
            f"declare the new folder as another source of a separate model. To rebuild this one: {model.rebuild}."
        )


def _source_indexes(model: StreamModel, noted: Sequence[dict[str, str]]) -> list[int]:
    """Returns, for each source of the checkpoint, its index among the model's sources."""
    now = [_source_identity(source) for source in model.sources]
    found: dict[int, int] = {}
    # Matches sources by what they read, so that they may be renamed, and then by name, so that they may be moved.
    # A match of both comes first, because several sources may read the same folder.
    for keys in (("reads", "relation"), ("reads",), ("relation",)):
        for at, known in enumerate(noted):
            same = [
                n
                for n, each in enumerate(now)
                if all(each[key] == known[key] for key in keys) and n not in found.values()
            ]
            if at not in found and same:
                found[at] = same[0]
                _check_folder(model, model.sources[same[0]], known)
    gone = [known["relation"] for at, known in enumerate(noted) if at not in found]
    added = [each["relation"] for n, each in enumerate(now) if n not in found.values()]
    if gone or added:
        changed = [f"no longer reads {', '.join(gone)}"] if gone else []
        changed += [f"reads {', '.join(added)}, which it didn't when it began"] if added else []
        raise StreamError(
            f"Model {model.name}: its query {' and '.join(changed)}, but a stream can only continue with its first sources. "
            f"{model.rebuild_advice}"
        )
    return [found[at] for at in range(len(noted))]
