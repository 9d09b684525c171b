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


def cleaning_mode(source: StreamSource) -> str | None:
    """Returns how a source's read files are cleaned, in lower case; None if they stay.

    >>> from ..common.model import StreamSource
    >>> [cleaning_mode(StreamSource("s", "/in", "json", options={"CleanSource": asked})) for asked in ("Delete", "off")]
    ['delete', None]
    """
    action = (source.option("cleanSource") or "off").lower()
    return action if source.is_files and action != "off" else None


def cleaned_folders(model: StreamModel) -> set[str]:
    """Returns the folders, or patterns of folders, with files that a model has read and that were cleaned."""
    return {*json.loads(model.storage.read_text(model.cleaned) or "[]")}


def cleaned_by_others(model: StreamModel) -> dict[str, set[str]]:
    """Returns the cleaned folders of the storage root's other models, by key. A renamed model counts as another one."""
    storage, found = model.storage, {}
    for name in storage.list(storage.cleaned):
        key = name.removesuffix(".json")
        if name.endswith(".json") and key != model.key:
            found[key] = {*json.loads(storage.read_text(f"{storage.cleaned}/{name}") or "[]")}
    return found


def note_cleaned(model: StreamModel, batch: int) -> None:
    """Records folders with files of a micro-batch that Spark cleans after it. The sources are in the checkpoint's order."""
    found = {
        folder
        for place, source in enumerate(model.sources)
        if cleaning_mode(source) and files_of_batch(model.storage, model.checkpoint, place, batch)
        for folder in _cleaned_patterns(source)
    }
    if found and not found <= (had := cleaned_folders(model)):
        _write_folders(model, had | found)


def forget_cleaned_files(model: StreamModel) -> None:
    """Removes the record of folders that a new stream reads without cleaning. Called when the stream starts."""
    if had := cleaned_folders(model):
        kept = (source for source in model.sources if not cleaning_mode(source))
        _write_folders(model, had - {folder for source in kept for folder in _cleaned_patterns(source)})


def _cleaned_patterns(source: StreamSource) -> list[str]:
    """Returns the folder of a source, and a pattern for its subfolders if their files are read, too."""
    folder = plain_path(source.location)
    return [folder, f"{folder}/*"] if source.option_is("recursiveFileLookup", "true") else [folder]


def _write_folders(model: StreamModel, folders: set[str]) -> None:
    if folders:
        model.storage.write_text(model.cleaned, json.dumps(sorted(folders)))
    else:
        model.storage.delete(model.cleaned)
