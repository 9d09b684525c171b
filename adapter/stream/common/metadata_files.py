"""Reads and writes metadata files: JSON with the version of their format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import StreamError

if TYPE_CHECKING:
    from ...environment.storage import Storage

_Content = TypeVar("_Content")

FORMAT = 1
"""Version of the format of all metadata files."""


def read_metadata(
    storage: Storage,
    place: str,
    make: Callable[[dict[str, Any]], _Content],
    what: str,
    made: str,
    to_do: str,
) -> _Content | None:
    """Returns the content of a metadata file, or None if there is no such file.

    Args:
        make: builds the result from the file's JSON object.
        what: the object that the file describes, for a message.
        made: beginning of a sentence that says who wrote the file.
        to_do: sentences that say what to do if the file can't be read.

    Raises:
        StreamError: a newer version of this package wrote the file, or it can't be read.
    """
    text = storage.read_text(place)
    if text is None:
        return None
    try:
        content: dict[str, Any] = json.loads(text)
        found = int(content.pop("format"))
        if found == FORMAT:
            return make(content)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise StreamError(f"{place} can't be read, so nothing is known of {what}. {to_do}") from problem
    raise StreamError(
        f"{made} by a newer dbt-spark-streaming (its format is {found}, this one knows {FORMAT}). Update the package."
    )


def write_metadata(storage: Storage, place: str, content: Any) -> None:
    """Writes a dataclass as a metadata file."""
    storage.write_text(place, json.dumps({"format": FORMAT, **asdict(content)}, indent=1))
