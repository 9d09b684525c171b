"""What steps read, looked up and wrote in each part of a state: plain numbers, and where Iceberg's summaries have them."""

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
    """What was done with a part of the state."""

    scans: int = 0
    """How often it was read."""
    rows_read: int = 0
    bytes_read: int = 0
    """Of the files that were read, as they lie there: of a file only the columns that are needed are read."""
    files_read: int = 0
    planning_seconds: float = 0.0
    """In which Iceberg looked for those files."""
    lookups: int = 0
    """Keys that it was asked for, where it is asked by key."""
    hits: int = 0
    """Of these, how many it had something of."""
    rows_written: int = 0
    bytes_written: int = 0
    files_written: int = 0
    rows_deleted: int = 0
    """With the files that a fold or a compaction puts others in the place of."""
    bytes_deleted: int = 0
    files_deleted: int = 0

    @property
    def misses(self) -> int:
        """Keys that nothing was found of."""
        return self.lookups - self.hits

    def add(self, other: PartFigures) -> None:
        """Add what was done besides."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def counts(self) -> dict[str, int]:
        """The whole numbers among them, by name."""
        found = {name: number for name, number in asdict(self).items() if name != "planning_seconds"}
        return {**found, "misses": self.misses}

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**self.counts(), "planning_seconds": round(self.planning_seconds, 3)}


@dataclass(frozen=True)
class Size:
    """How large a part is."""

    rows: int = 0
    bytes: int = 0
    files: int = 0

    def after(self, done: PartFigures) -> Size:
        """How large it is once that was written."""
        return Size(
            self.rows + done.rows_written - done.rows_deleted,
            self.bytes + done.bytes_written - done.bytes_deleted,
            self.files + done.files_written - done.files_deleted,
        )

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.bytes + other.bytes, self.files + other.files)


@dataclass(frozen=True)
class PartMetrics:
    """A part of the state, and what was done with it."""

    part: str
    operator: str
    """Who keeps it, as `dbt-stream explain` calls it; empty if nobody asked."""
    size: Size
    figures: PartFigures

    def as_dict(self, done: str = "last") -> dict[str, Any]:
        """As plain JSON; `done`: what the figures are of."""
        return {
            "part": self.part or None,
            "operator": self.operator or None,
            **asdict(self.size),
            done: self.figures.as_dict(),
        }


def added_up(first: Sequence[PartMetrics], then: Sequence[PartMetrics]) -> tuple[PartMetrics, ...]:
    """The parts of a state, and what was done with them by two runs one after the other."""
    before = {each.part: each.figures for each in first}
    found = []
    for each in then:
        figures = PartFigures()
        for done in (each.figures, before.get(each.part, PartFigures())):
            figures.add(done)
        found.append(replace(each, figures=figures))
    return tuple(found)


def written(summaries: Iterable[Mapping[str, str]]) -> dict[str, PartFigures]:
    """What commits wrote and deleted, by part, as the summaries of their snapshots say.

    >>> written([{"partitions.part=a": "added-data-files=1,added-records=5,added-files-size=900"}])["a"].rows_written
    5
    """
    found: dict[str, PartFigures] = {}
    for summary in summaries:
        for part, text in by_part(summary).items():
            numbers = {key: int(number) for key, number in _NUMBER.findall(text)}
            told = {field: numbers[key] for key, field in _WRITTEN.items() if key in numbers}
            found.setdefault(part, PartFigures()).add(PartFigures(**told))
    return found


def by_part(summary: Mapping[str, str]) -> dict[str, str]:
    """What the summary of a snapshot says of each part."""
    return {
        unquote_plus(name[len(_PARTITION) :]): text
        for name, text in summary.items()
        if name.startswith(_PARTITION)
    }


def sizes_in(told: Mapping[str, Any] | None, snapshot: int | None) -> dict[str, Size] | None:
    """How large parts are as the last figures of a model have it; None: those are of another snapshot of the state.

    Args:
        told: the figures, as `progress.report` makes them.
        snapshot: of the state, as it is now; None: it has none.
    """
    if snapshot is None:
        return {}
    state = (told or {}).get("state") or {}
    if state.get("snapshot") != snapshot or "parts" not in state:
        return None
    return {each["part"] or "": Size(each["rows"], each["bytes"], each["files"]) for each in state["parts"]}


def operators_in(told: Mapping[str, Any] | None, query: str) -> dict[str, str] | None:
    """Who keeps the parts, as the last figures of a model have it; None: those are of another query."""
    state = (told or {}).get("state") or {}
    if state.get("query") != query or "parts" not in state:
        return None
    return {each["part"] or "": each["operator"] or "" for each in state["parts"]}
