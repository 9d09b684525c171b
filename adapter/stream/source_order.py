"""The order in which a stream reads its sources: the one it began with, whatever the query's text says now.

Structured Streaming's checkpoint knows sources by their place alone. So the order that a checkpoint was begun with is
kept in it, and sources are found again by what they read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ..query.program import StreamInput
from .checkpoint import read_checkpoint
from .errors import StreamError
from .model import StreamModel, StreamSource


def in_first_order(
    model: StreamModel, inputs: Sequence[StreamInput]
) -> tuple[StreamModel, tuple[StreamInput, ...]]:
    """A model's sources and the streams made from them, in the order of its checkpoint. A stream that begins notes it.

    Args:
        model: the model.
        inputs: its streams.

    Raises:
        StreamError: the query reads another source than it began with, one more or one less.
    """
    storage, path = model.storage, f"{model.checkpoint}/sources.json"
    checkpoint = read_checkpoint(storage, model.checkpoint)
    noted = storage.read_text(path) if checkpoint is not None and checkpoint.planned is not None else None
    if noted is None:
        # A checkpoint that was begun before the order was noted has that of the text.
        storage.write_text(path, json.dumps([_identity(source) for source in model.sources]))
        return model, tuple(inputs)
    places = _places(model, json.loads(noted))
    by_relation = {each.relation: each for each in inputs}
    sources = tuple(model.sources[place] for place in places)
    return replace(model, sources=sources), tuple(by_relation[source.relation] for source in sources)


def _identity(source: StreamSource) -> dict[str, str]:
    return {"relation": source.relation, "reads": source.location.rstrip("/") or source.relation}


def _places(model: StreamModel, noted: Sequence[dict[str, str]]) -> list[int]:
    """Where each source that the checkpoint knows is among those of the model."""
    now = [_identity(source) for source in model.sources]
    found: dict[int, int] = {}
    # A table or folder is the same by any name; one that was moved is, by its name.
    for key in ("reads", "relation"):
        for at, known in enumerate(noted):
            same = [n for n, each in enumerate(now) if each[key] == known[key] and n not in found.values()]
            if at not in found and same:
                found[at] = same[0]
    gone = [known["relation"] for at, known in enumerate(noted) if at not in found]
    come = [each["relation"] for n, each in enumerate(now) if n not in found.values()]
    if gone or come:
        changed = [f"no longer reads {', '.join(gone)}"] if gone else []
        changed += [f"reads {', '.join(come)}, which it didn't when it began"] if come else []
        raise StreamError(
            f"Model {model.name}: its query {' and '.join(changed)}, and a stream goes on with the sources it began with. "
            f"To build it anew: {model.rebuild}."
        )
    return [found[at] for at in range(len(noted))]
