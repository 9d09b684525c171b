"""Small files that say what there is of something, each with the version of its format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import StreamError

if TYPE_CHECKING:
    from ...environment.storage import Storage

_Noted = TypeVar("_Noted")


def read_note(
    storage: Storage,
    place: str,
    version: int,
    make: Callable[[dict[str, Any]], _Noted],
    what: str,
    made: str,
    to_do: str,
) -> _Noted | None:
    """What a file says; None: there is none.

    Args:
        storage: where it is.
        place: its path.
        version: of the format that is known.
        make: makes it of what the file says.
        what: it is, in a sentence.
        made: how it came to be, as the beginning of a sentence.
        to_do: what to do where it can't be read, as sentences.

    Raises:
        StreamError: a newer version of this package made it, or it can't be read.
    """
    text = storage.read_text(place)
    if text is None:
        return None
    try:
        said: dict[str, Any] = json.loads(text)
        kind = int(said.pop("format"))
        if kind == version:
            return make(said)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise StreamError(f"{place} can't be read, so nothing is known of {what}. {to_do}") from problem
    raise StreamError(
        f"{made} by a newer dbt-spark-streaming (its format is {kind}, this one knows {version}). Update the package."
    )
