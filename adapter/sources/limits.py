"""Options of sources that limit the size of a micro-batch.

They belong to a run, not to the stream: a checkpoint doesn't hold them, and the input of a micro-batch is fixed when
it is planned. So one run may omit them and the next one set them again, and an interrupted micro-batch has the same
input under other limits.

No source splits a file. Iceberg knows the row count of a file, and adds files until the number of rows is reached.
Other formats don't, so each file is a micro-batch, unless the source's options set a limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from .file_options import by_lower_name

ROWS: Mapping[str, str] = {
    "iceberg": "streaming-max-rows-per-micro-batch",
    "kafka": "maxOffsetsPerTrigger",
}
"""Format → option that limits rows."""

FILES = ("maxFilesPerTrigger", "maxBytesPerTrigger")
"""Options that limit the other formats, which are files."""

# The last two are Kafka's, and delay a micro-batch until it is large enough.
_OTHERS = ("streaming-max-files-per-micro-batch", "minOffsetsPerTrigger", "maxTriggerDelay")
LIMITS = frozenset(map(str.lower, (*ROWS.values(), *FILES, *_OTHERS)))
"""The options that limit a micro-batch, in lower case: Spark ignores their case."""


def without_limits(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a source without limits.

    >>> without_limits({"maxFilesPerTrigger": "1", "latestFirst": "false"})
    {'latestFirst': 'false'}
    """
    return {name: value for name, value in options.items() if name.lower() not in LIMITS}


def with_row_limit(format: str, options: Mapping[str, str], rows: int) -> dict[str, str]:
    """Returns the options of a source with a limit of `rows` rows per micro-batch, or fewer if its own limit is lower.

    >>> with_row_limit("iceberg", {}, 1000)
    {'streaming-max-rows-per-micro-batch': '1000'}
    >>> with_row_limit("kafka", {"maxOffsetsPerTrigger": "500"}, 1000)
    {'maxOffsetsPerTrigger': '500'}
    >>> with_row_limit("json", {}, 1000), with_row_limit("json", {"maxfilespertrigger": "7"}, 1000)
    ({'maxFilesPerTrigger': '1'}, {'maxfilespertrigger': '7'})
    """
    given = by_lower_name(options)
    if format not in ROWS:
        if any(option.lower() in given for option in FILES):
            return dict(options)
        return {**options, FILES[0]: "1"}
    option = ROWS[format]
    own = given.get(option.lower(), "")
    fewer = min(rows, int(own)) if own.isdigit() else rows
    others = {key: value for key, value in options.items() if key.lower() != option.lower()}
    return {**others, option: str(fewer)}
