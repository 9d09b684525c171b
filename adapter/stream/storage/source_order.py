"""The order in which a stream reads its sources: the one it began with, whatever the query's text says now.

Structured Streaming's checkpoint knows sources by their place alone. So the order that a checkpoint was begun with is
kept in it, and sources are found again by what they read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...query.program import StreamInput
from ...sources.source_tables import without_place
from ..common.errors import StreamError
from ..common.model import StreamModel, StreamSource, plain_path
from .checkpoint import read_checkpoint

if TYPE_CHECKING:
    from ...environment.storage import Storage

_FILE = "sources.json"


class Order(NamedTuple):
    """What a stream reads, in the order of its checkpoint."""

    model: StreamModel
    """With its sources in that order."""
    inputs: tuple[StreamInput, ...]
    """The streams made from them."""
    is_noted: bool
    """Whether the checkpoint says so, or else the query's text."""


def in_first_order(model: StreamModel, inputs: Sequence[StreamInput], checkpoint: str | None = None) -> Order:
    """A model's sources and the streams made from them, in the order of its checkpoint.

    Args:
        model: the model.
        inputs: its streams.
        checkpoint: another one than its own.

    Raises:
        StreamError: the query reads another source than it began with, one more or one less.
    """
    noted = _noted(model, checkpoint or model.checkpoint)
    if noted is None:
        # Nothing was planned yet, or by a version that noted no order: that of the text.
        return Order(model, tuple(inputs), is_noted=False)
    places = _places(model, noted)
    by_relation = {each.relation: each for each in inputs}
    sources = tuple(model.sources[place] for place in places)
    inputs = tuple(by_relation[source.relation] for source in sources)
    return Order(replace(model, sources=sources), inputs, is_noted=True)


def note_order(order: Order) -> None:
    """Keep the order with the checkpoint, which then has it for good. To be called when nothing keeps the stream from
    starting: a checkpoint's folder says that a stream has begun.

    Args:
        order: as `in_first_order` gave it.
    """
    if not order.is_noted:
        write_order(order.model)


def write_order(model: StreamModel) -> None:
    """Keep the order of a model's sources with its checkpoint."""
    model.storage.write_text(
        f"{model.checkpoint}/{_FILE}", json.dumps([_identity(source) for source in model.sources])
    )


def noted_sources(storage: Storage, checkpoint: str) -> list[str]:
    """What a stream reads, by the place of its sources: names of tables and folders; none if its checkpoint doesn't say."""
    text = storage.read_text(f"{checkpoint}/{_FILE}")
    return [each["reads"] for each in json.loads(text)] if text is not None else []


def _noted(model: StreamModel, path: str) -> list[dict[str, str]] | None:
    checkpoint = read_checkpoint(model.storage, path)
    begun = checkpoint is not None and checkpoint.planned is not None
    text = model.storage.read_text(f"{path}/{_FILE}") if begun else None
    return json.loads(text) if text is not None else None


def _identity(source: StreamSource) -> dict[str, str]:
    relation = without_place(source.relation)
    return {"relation": relation, "reads": source.location.rstrip("/") or relation}


def _check_folder(model: StreamModel, source: StreamSource, known: dict[str, str]) -> None:
    """Passes a folder that is where it was: Structured Streaming knows files by their paths."""
    if source.is_files and plain_path(source.location) != plain_path(known["reads"]):
        raise StreamError(
            f"Model {model.name}: its source {source.relation} was the folder {known['reads']}, and is {source.location} "
            "now. A stream knows files by their paths, so all that lie there would be read as new. Put the path back, or "
            f"give the new folder as a source of another name to a model of its own. To build it anew: {model.rebuild}."
        )


def _places(model: StreamModel, noted: Sequence[dict[str, str]]) -> list[int]:
    """Where each source that the checkpoint knows is among those of the model."""
    now = [_identity(source) for source in model.sources]
    found: dict[int, int] = {}
    # A table or folder is the same by any name; one that was moved is, by its name. Several sources may be one folder.
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
    come = [each["relation"] for n, each in enumerate(now) if n not in found.values()]
    if gone or come:
        changed = [f"no longer reads {', '.join(gone)}"] if gone else []
        changed += [f"reads {', '.join(come)}, which it didn't when it began"] if come else []
        raise StreamError(
            f"Model {model.name}: its query {' and '.join(changed)}, and a stream goes on with the sources it began with. "
            f"{model.build_anew}"
        )
    return [found[at] for at in range(len(noted))]
