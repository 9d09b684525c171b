"""At most so many rows in a micro-batch, in the words of each source's own options.

No source cuts a file. Iceberg knows how many rows a file has, and takes files up to and including the
one with which the number is reached. Where that isn't known, each file is a micro-batch of its own,
unless the source's options say how many are taken.
"""

from __future__ import annotations

from collections.abc import Mapping

ROWS: Mapping[str, str] = {
    "iceberg": "streaming-max-rows-per-micro-batch",
    "kafka": "maxOffsetsPerTrigger",
}
"""Format → the option that counts rows."""

FILES = ("maxFilesPerTrigger", "maxBytesPerTrigger")
"""Options of the other formats, which are files."""


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
