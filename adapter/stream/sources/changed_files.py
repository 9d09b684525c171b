"""Checks that the files that a stream has read are unchanged. Spark identifies a file by its path and reads it once.

Spark records path and modification time of each planned file, and never compares the time again. So the rows of a
rewritten file stay in the table, and its new rows are never read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from dbt.adapters.events.logging import AdapterLogger

from ...environment.storage import is_local
from ...sources.file_options import is_pattern
from ...util.text import counted, verb_form
from ..common.errors import StreamError
from ..common.model import plain_path
from ..common.periodic import Periodic
from ..storage.checkpoint import file_entries, log_number_in_offset, read_offsets, read_values_by_source
from ..storage.source_order import in_checkpoint_order
from .cleaned_files import cleaning_mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...environment.storage import Storage
    from ...query.program import StreamInput
    from ..common.model import StreamModel, StreamSource

logger = AdapterLogger("Spark")

FILES = "files.json"
"""File of a checkpoint: place of a source → path → current modification time, for files that were changed before they
were read, and for accepted changes."""
_STATUS = re.compile(r"path=(.+?); isDirectory=false; length=\d+;.*?modification_time=(\d+)")


class ReadFiles:
    """The files that a model's stream has planned to read. `model` has its sources in the order of the checkpoint."""

    def __init__(self, spark: SparkSession, model: StreamModel) -> None:
        self._spark, self._model = spark, model
        self._places = [place for place, source in enumerate(model.sources) if source.is_files]
        self._checks = Periodic()
        self._changed: dict[int, dict[str, tuple[int, int]]] = {}
        """Place of a source → path of a rewritten file → its offset in the log and its current modification time."""
        self._find_changes()

    def _find_changes(self) -> None:
        with self._checks.running():
            noted = _recorded_times(self._model)
            for place in self._places:
                self._changed[place] = self._find_changed_files(place, noted.get(place, {}))

    def _find_changed_files(self, place: int, noted: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        source = self._model.sources[place]
        entries = file_entries(self._model.storage, self._model.checkpoint, place)
        if not entries:
            return {}
        now = list_files(self._spark, self._model.storage, source)
        times = {path: now.get(plain_path(unquote(path))) for path in entries}
        if not any(modified is not None for modified in times.values()):
            self._warn_of_others(source, len(entries), now)
        return {
            path: (entries[path].offset, modified)
            for path, modified in times.items()
            if modified is not None and modified != noted.get(path, entries[path].modified)
        }

    def check(self, batch: int) -> None:
        """Raises if a file was rewritten after it was read, in any micro-batch up to this one."""
        for place in self._places:
            if (again := self._changed_after_read(place, batch)) and not self._model.keep_state:
                raise StreamError(_rewritten_message(self._model, self._model.sources[place], again))

    def check_now_and_then(self, batch: int) -> None:
        """Runs `check` again if the last check is long enough ago."""
        if self._places and self._checks.is_due:
            self._find_changes()
            self.check(batch)

    def accept(self, batch: int) -> None:
        """Records the current modification times of rewritten files in the checkpoint. Called after `check`."""
        for place in self._places:
            source = self._model.sources[place]
            if again := self._changed_after_read(place, batch):
                what = f"{counted(len(again), 'file')} of its source {source.name or source.relation}"
                logger.warning(
                    f"Model {self._model.name}: {what} {verb_form(len(again), 'was', 'were')} written again, as {again[0]}. "
                    "By keep_state, the rows that were read stay, and none is read again."
                )
        if any(self._changed.values()):
            noted = _recorded_times(self._model)
            for place, files in self._changed.items():
                noted.setdefault(place, {}).update({path: now for path, (_, now) in files.items()})
            self._model.storage.write_text(f"{self._model.checkpoint}/{FILES}", json.dumps(noted))
            self._changed.clear()

    def _changed_after_read(self, place: int, batch: int) -> list[str]:
        if not (changed := self._changed.get(place)):
            return []
        offsets = read_offsets(self._model.storage, self._model.checkpoint, batch) if batch >= 0 else []
        last = log_number_in_offset(offsets[place]) if place < len(offsets) else None
        return sorted(unquote(path) for path, (at, _) in changed.items() if last is not None and at <= last)

    def _warn_of_others(self, source: StreamSource, read: int, now: Mapping[str, int]) -> None:
        """Warns if a folder has none of the files that were read (`read` is their number) but has other files, as after it
        was replaced."""
        is_expected = source.option_is("ignoreMissingFiles", "true") or cleaning_mode(source) or not now
        # With a pattern or recursive lookup it is unknown here which files Spark reads.
        if is_expected or is_pattern(source.location) or source.option_is("recursiveFileLookup", "true"):
            return
        if new := [path for path in now if _is_read(path, source.location)]:
            logger.warning(
                f"Model {self._model.name}: of the {counted(read, 'file')} that it has read of its source "
                f"{source.name or source.relation} none is in {source.location} any more, and {counted(len(new), 'other')} "
                f"{verb_form(len(new), 'is', 'are')}, whose rows are added to those that are in. That is right where files "
                "are moved away once they are read; the source's option 'ignoreMissingFiles: true' says that they are. If "
                f"the folder was replaced by another one, rebuild the model: {self._model.rebuild}."
            )


def warn_of_gone(spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput]) -> None:
    """Warns if files that a model has read are gone, since a rebuilt table lacks their rows."""
    try:
        ordered = in_checkpoint_order(model, inputs).model
    except StreamError:
        return  # the checkpoint is of other sources
    for place, source in enumerate(ordered.sources):
        entries = file_entries(model.storage, model.checkpoint, place) if source.is_files else {}
        there = list_files(spark, model.storage, source) if entries else {}
        gone = sorted(path for each in entries if plain_path(path := unquote(each)) not in there)
        if gone:
            logger.warning(
                f"Model {model.name}: {len(gone):,} of {counted(len(entries), 'file')} that it has read of its source "
                f"{source.name or source.relation} {verb_form(len(gone), 'is', 'are')} gone, as {gone[0]}: the table that "
                "is built now lacks their rows."
            )


def list_files(spark: SparkSession, storage: Storage, source: StreamSource) -> dict[str, int]:
    """Returns path → modification time (milliseconds since 1970) of the files below a source's folder."""
    from pyspark.errors import AnalysisException

    folder = plain_path(source.location)
    if is_local(folder) and not is_pattern(folder):
        return storage.modification_times(folder)
    # Spark lists the files as for the stream; this format needs no file to infer its columns.
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        plan = reader.load(source.location)._jdf.queryExecution().analyzed()
    except AnalysisException:
        return {}  # no file matches the pattern
    # One string instead of many Py4J calls.
    listed = plan.relation().location().allFiles().mkString("\n")
    return {plain_path(path): int(modified) for path, modified in _STATUS.findall(listed)}


def _is_read(path: str, folder: str) -> bool:
    """Returns whether Spark reads a file of a folder: a file that isn't hidden, in the folder or in subfolders that
    name partitions.

    >>> [_is_read(f"/in/{name}", "file:///in/") for name in ("day=1/a.json", "archive/a.json", "_SUCCESS")]
    [True, False, False]
    """
    *folders, name = path.removeprefix(plain_path(folder)).lstrip("/").split("/")
    return not name.startswith(("_", ".")) and all("=" in each for each in folders)


def _recorded_times(model: StreamModel) -> dict[int, dict[str, int]]:
    return read_values_by_source(model.storage, f"{model.checkpoint}/{FILES}")


def _rewritten_message(model: StreamModel, source: StreamSource, files: list[str]) -> str:
    more = f" and {counted(len(files) - 1, 'more', 'more')}" if len(files) > 1 else ""
    was, it, has = ("were", "them", "they have") if more else ("was", "it", "it has")
    names = "new names" if more else "another name"
    return (
        f"Model {model.name}: the file {files[0]}{more} of its source {source.relation} {was} written again since this "
        f"model read {it}. A stream reads a path once, so its table has the old rows, and those that {has} now would "
        f"never be read. To add them to the old ones, give {it} {names}; to replace the old ones, rebuild the model: "
        f"{model.rebuild}. If the rows are the same (files that were copied or touched), say so once: {model.keep_command}."
    )
