"""How much of its sources one micro-batch takes at most: options of the sources, gathered here.

They belong to a run, not to the stream: a checkpoint doesn't hold them, and the input of a micro-batch is
fixed when it is planned. So one run may lift them, the next have them again, and a micro-batch that a crash
cut short is the same one under other limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .model import StreamModel

LIMITS = frozenset(
    name.lower()
    for name in (
        # files
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        # Iceberg
        "streaming-max-files-per-micro-batch",
        "streaming-max-rows-per-micro-batch",
        # Kafka; the last two hold a micro-batch back until it is worth it
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
    )
)
"""The options, in small letters: Spark doesn't mind the case."""


def without_limits(options: Mapping[str, str]) -> dict[str, str]:
    """A source's other options.

    >>> without_limits({"maxFilesPerTrigger": "1", "latestFirst": "false"})
    {'latestFirst': 'false'}
    """
    return {name: value for name, value in options.items() if name.lower() not in LIMITS}


def at_once(model: StreamModel) -> StreamModel:
    """The model with no limit on its sources: all that they hold is one micro-batch."""
    unlimited = (replace(source, options=without_limits(source.options)) for source in model.sources)
    return replace(model, sources=tuple(unlimited))
