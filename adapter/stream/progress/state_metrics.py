"""Counts reads, lookups and writes by state table. Writes come from the summaries of Iceberg's snapshots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any
from urllib.parse import unquote_plus

_PARTITION = "partitions.part="
_NUMBER = re.compile(r"([a-z-]+)=(\d+)")
_WRITTEN = {
    "added-records": "rows_written",
    "added-files-size": "bytes_written",
    "added-data-files": "files_written",
    "deleted-records": "rows_deleted",
    "removed-files-size": "bytes_deleted",
    "deleted-data-files": "files_deleted",
}


@dataclass
class PartFigures:
    """Reads, lookups and writes of a state table."""

    scans: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    """Sizes of the files that were read. Only the needed columns of these files are read."""
    files_read: int = 0
    planning_seconds: float = 0.0
    """Seconds that Iceberg took to find the files."""
    lookups: int = 0
    """Number of keys that were looked up."""
    hits: int = 0
    """Number of keys that were looked up and found."""
    rows_written: int = 0
    bytes_written: int = 0
    files_written: int = 0
    rows_deleted: int = 0
    """Includes the rows of files that a merge or a compaction replaced."""
    bytes_deleted: int = 0
    files_deleted: int = 0

    @property
    def misses(self) -> int:
        """Number of keys that were looked up and not found."""
        return self.lookups - self.hits

    def add(self, other: PartFigures) -> None:
        """Adds other metrics to these."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def counts(self) -> dict[str, int]:
        """Returns the integer metrics by name."""
        found = {name: number for name, number in asdict(self).items() if name != "planning_seconds"}
        return {**found, "misses": self.misses}

    def as_dict(self) -> dict[str, Any]:
        """Returns the metrics as a JSON object."""
        return {**self.counts(), "planning_seconds": round(self.planning_seconds, 3)}


@dataclass(frozen=True)
class Size:
    """The size of a state table."""

    rows: int = 0
    bytes: int = 0
    files: int = 0

    def after_writes(self, done: PartFigures) -> Size:
        """Returns the size after writes and deletes."""
        return Size(
            self.rows + done.rows_written - done.rows_deleted,
            self.bytes + done.bytes_written - done.bytes_deleted,
            self.files + done.files_written - done.files_deleted,
        )

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.bytes + other.bytes, self.files + other.files)


@dataclass(frozen=True)
class PartMetrics:
    """The size and the metrics of a state table."""

    part: str
    operator: str
    """The operator of the state table, as in `dbt-stream explain`; empty if it was not looked up."""
    holds: str
    """Description of a row of the state table, as in `dbt-stream explain`; empty if `operator` is empty."""
    size: Size
    figures: PartFigures

    def as_dict(self, done: str = "last") -> dict[str, Any]:
        """Returns the size and the metrics as a JSON object."""
        return {
            "part": self.part or None,
            "operator": self.operator or None,
            "holds": self.holds or None,
            **asdict(self.size),
            done: self.figures.as_dict(),
        }


def sum_of_runs(first: Sequence[PartMetrics], then: Sequence[PartMetrics]) -> tuple[PartMetrics, ...]:
    """Returns the state tables after two consecutive runs, with the sums of their metrics."""
    before = {each.part: each.figures for each in first}
    found = []
    for each in then:
        figures = PartFigures()
        for done in (each.figures, before.get(each.part, PartFigures())):
            figures.add(done)
        found.append(replace(each, figures=figures))
    return tuple(found)


def written_per_part(summaries: Iterable[Mapping[str, str]]) -> dict[str, PartFigures]:
    """Returns the writes and deletes of commits by state table, from the summaries of their snapshots.

    >>> summary = {"partitions.part=a": "added-data-files=1,added-records=5,added-files-size=900"}
    >>> written_per_part([summary])["a"].rows_written
    5
    """
    found: dict[str, PartFigures] = {}
    for summary in summaries:
        for part, text in entries_by_part(summary).items():
            numbers = {key: int(number) for key, number in _NUMBER.findall(text)}
            counts = {field: numbers[key] for key, field in _WRITTEN.items() if key in numbers}
            found.setdefault(part, PartFigures()).add(PartFigures(**counts))
    return found


def entries_by_part(summary: Mapping[str, str]) -> dict[str, str]:
    """Returns the entry of each state table in a snapshot's summary, by name."""
    return {
        unquote_plus(name[len(_PARTITION) :]): text
        for name, text in summary.items()
        if name.startswith(_PARTITION)
    }


def sizes_from_progress(progress: Mapping[str, Any] | None, snapshot: int | None) -> dict[str, Size] | None:
    """Returns the sizes of state tables from a model's last progress; None if it reports another snapshot."""
    if snapshot is None:
        return {}
    state = (progress or {}).get("state") or {}
    if state.get("snapshot") != snapshot or "parts" not in state:
        return None
    return {each["part"] or "": Size(each["rows"], each["bytes"], each["files"]) for each in state["parts"]}


def operators_from_progress(
    progress: Mapping[str, Any] | None, query: str
) -> dict[str, tuple[str, str]] | None:
    """Returns the operator of each state table and the description of its rows, from a model's last progress. Returns None
    if the progress reports another query or lacks descriptions."""
    state = (progress or {}).get("state") or {}
    parts = state.get("parts")
    if state.get("query") != query or parts is None or not all("holds" in each for each in parts):
        return None
    return {each["part"] or "": (each["operator"] or "", each["holds"] or "") for each in parts}
