"""Notes the folders whose files are moved or removed once a model's stream has read them (Spark's option ``cleanSource``).

The note outlives checkpoint and state: a stream that begins again would lack the rows of these files. It goes when the
model begins with the folder as it is, without the option.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..common.model import plain_path
from ..storage.checkpoint import files_of_batch

if TYPE_CHECKING:
    from ..common.model import StreamModel, StreamSource


def cleaning(source: StreamSource) -> str | None:
    """Returns what becomes of a source's files that were read, in small letters, or None if they stay."""
    asked = (source.option("cleanSource") or "off").lower()
    return asked if source.is_files and asked != "off" else None


def cleaned_folders(model: StreamModel) -> set[str]:
    """Returns the folders of which a model has read files that were cleaned away since."""
    return {*json.loads(model.storage.read_text(model.cleaned) or "[]")}


def note_cleaned(model: StreamModel, batch: int) -> None:
    """Notes the folders of which a micro-batch has files that are cleaned away once they are read.

    Args:
        model: the model, its sources in the order of the checkpoint.
        batch: the micro-batch.
    """
    found = {
        plain_path(source.location)
        for place, source in enumerate(model.sources)
        if cleaning(source) and files_of_batch(model.storage, model.checkpoint, place, batch)
    }
    if found and not found <= (had := cleaned_folders(model)):
        _write(model, had | found)


def forget_cleaned(model: StreamModel) -> None:
    """Forgets the folders that a stream begins to read as they are. To be called when it begins."""
    if had := cleaned_folders(model):
        _write(model, had - {plain_path(each.location) for each in model.sources if not cleaning(each)})


def _write(model: StreamModel, folders: set[str]) -> None:
    if folders:
        model.storage.write_text(model.cleaned, json.dumps(sorted(folders)))
    else:
        model.storage.delete(model.cleaned)
