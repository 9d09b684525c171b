"""Records the folders whose files Spark moves or removes once a stream has read them (option ``cleanSource``).

The record outlives checkpoint and state: a new stream would lack the rows of these files. It is removed when the
model starts with the folder as it is, without the option.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..common.model import plain_path
from ..storage.checkpoint import files_of_batch

if TYPE_CHECKING:
    from ..common.model import StreamModel, StreamSource


def cleaning(source: StreamSource) -> str | None:
    """Returns how a source's read files are cleaned, in lower case; None if they stay."""
    asked = (source.option("cleanSource") or "off").lower()
    return asked if source.is_files and asked != "off" else None


def cleaned_folders(model: StreamModel) -> set[str]:
    """Returns the folders with files that a model has read and that were cleaned."""
    return {*json.loads(model.storage.read_text(model.cleaned) or "[]")}


def note_cleaned(model: StreamModel, batch: int) -> None:
    """Records the folders with files of a micro-batch that Spark cleans after it.

    Args:
        model: the model, its sources in the order of the checkpoint.
        batch: number of the micro-batch.
    """
    found = {
        plain_path(source.location)
        for place, source in enumerate(model.sources)
        if cleaning(source) and files_of_batch(model.storage, model.checkpoint, place, batch)
    }
    if found and not found <= (had := cleaned_folders(model)):
        _write(model, had | found)


def forget_cleaned(model: StreamModel) -> None:
    """Removes the record of folders that a new stream reads without cleaning. To be called when it starts."""
    if had := cleaned_folders(model):
        _write(model, had - {plain_path(each.location) for each in model.sources if not cleaning(each)})


def _write(model: StreamModel, folders: set[str]) -> None:
    if folders:
        model.storage.write_text(model.cleaned, json.dumps(sorted(folders)))
    else:
        model.storage.delete(model.cleaned)
