"""How much of its sources one micro-batch takes at most: options of the sources, gathered here.

They belong to a run, not to the stream: a checkpoint doesn't hold them, and the input of a micro-batch is
fixed when it is planned. So one run may lift them, the next have them again, and a micro-batch that a crash
cut short is the same one under other limits.

No source cuts a file. Iceberg knows how many rows a file has, and takes files up to and including the one with
which a number of rows is reached. Where that isn't known, each file is a micro-batch of its own, unless the
source's options say how many are taken.
"""

from __future__ import annotations

from collections.abc import Mapping

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

ROWS: Mapping[str, str] = {
    "iceberg": "streaming-max-rows-per-micro-batch",
    "kafka": "maxOffsetsPerTrigger",
}
"""Format → the option that counts rows."""

FILES = ("maxFilesPerTrigger", "maxBytesPerTrigger")
"""Options of the other formats, which are files."""


def without_limits(options: Mapping[str, str]) -> dict[str, str]:
    """A source's other options.

    >>> without_limits({"maxFilesPerTrigger": "1", "latestFirst": "false"})
    {'latestFirst': 'false'}
    """
    return {name: value for name, value in options.items() if name.lower() not in LIMITS}


def limited(format: str, options: Mapping[str, str], rows: int) -> dict[str, str]:
    """The options of a source, with which a micro-batch has at most so many of its rows.

    >>> limited("iceberg", {}, 1000)
    {'streaming-max-rows-per-micro-batch': '1000'}
    >>> limited("kafka", {"maxOffsetsPerTrigger": "500"}, 1000)
    {'maxOffsetsPerTrigger': '500'}
    >>> limited("json", {}, 1000), limited("json", {"maxfilespertrigger": "7"}, 1000)
    ({'maxFilesPerTrigger': '1'}, {'maxfilespertrigger': '7'})
    """
    said = {key.lower(): value for key, value in options.items()}
    if format not in ROWS:
        if any(option.lower() in said for option in FILES):
            return dict(options)
        return {**options, FILES[0]: "1"}
    option = ROWS[format]
    own = said.get(option.lower(), "")
    fewer = min(rows, int(own)) if own.isdigit() else rows
    others = {key: value for key, value in options.items() if key.lower() != option.lower()}
    return {**others, option: str(fewer)}
