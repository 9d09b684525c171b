"""Reads metadata files: JSON with the version of their format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import StreamError

if TYPE_CHECKING:
    from ...environment.storage import Storage

_Content = TypeVar("_Content")


def read_metadata(
    storage: Storage,
    place: str,
    version: int,
    make: Callable[[dict[str, Any]], _Content],
    what: str,
    made: str,
    to_do: str,
) -> _Content | None:
    """Returns the content of a metadata file, or None if there is no such file.

    Args:
        version: the supported version of the format.
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
        if found == version:
            return make(content)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise StreamError(f"{place} can't be read, so nothing is known of {what}. {to_do}") from problem
    raise StreamError(
        f"{made} by a newer dbt-spark-streaming (its format is {found}, this one knows {version}). Update the package."
    )
