"""Aggregates, their keys and distinct sets, and the GROUP BYs that have them."""

from __future__ import annotations

from dataclasses import dataclass

from ..windows.windows import Window
from .aggregates import Types

FLAGS = FIRST, SEEN, TIMES = "first", "in", "times"
"""What the columns of a `Flag` say of a value: the slice it was first seen in, that it was seen, how often it is there."""


@dataclass(frozen=True)
class Key:
    """A group key: its column in the state and the user's expression."""

    name: str
    sql: str
    identity: str = ""
    """What it is, whatever aliases the query has for its relations."""


@dataclass(frozen=True)
class Metric:
    """An aggregate call. Arguments and filter are columns of the stage's rows."""

    name: str
    function: str
    arguments: tuple[str, ...]
    filter: str | None
    distinct_set: str | None
    """The distinct set it is counted from; None for a plain aggregate."""
    sql: str
    """As the user wrote it; two metrics are the same if and only if this is."""
    distinct: bool = False
    """Whether each value counts once."""
    signed: bool = False
    """Whether rows may be taken away again."""
    types: Types | None = None
    """Of a sum or an average; None: of something else, or planned without a session."""
    identity: str = ""
    """As a key's."""
    rows: str = ""
    """The rows it is over, as text: what its columns are made of, below."""


@dataclass(frozen=True)
class Flag:
    """A column of a distinct set that says which values count."""

    name: str
    """What it is called after: by itself a metric starts to count with the first row after it came to the query, so each
    has one of its own. Where rows are taken away again, none comes to a query that is going on, and they share those of
    a FILTER."""
    filter: str | None
    """The column of the FILTER."""


@dataclass(frozen=True)
class DistinctSet:
    """The values of one DISTINCT argument list, shared by every metric and FILTER over it."""

    name: str
    columns: tuple[str, ...]
    flags: tuple[Flag, ...]
    identity: str = ""
    """What its values are, as a key's."""

    @property
    def filters(self) -> tuple[str | None, ...]:
        """The columns of the filters, one for each flag; None: every value counts."""
        return tuple(flag.filter for flag in self.flags)

    def place(self, metric: Metric) -> int:
        """Which of the flags is a metric's."""
        names = [flag.name for flag in self.flags]
        return names.index(metric.name) if metric.name in names else self.filters.index(metric.filter)


@dataclass(frozen=True)
class Enumerated:
    """Group keys of few values, which a distinct set has columns for instead of rows."""

    keys: tuple[str, ...]
    number: str
    """The column of the rows that says which of `values` they have."""
    values: tuple[tuple[str, ...], ...]
    """SQL of each key, by number."""


@dataclass(frozen=True)
class AggregateStage:
    """A GROUP BY over a window function, kept as partial aggregates per slice and key."""

    name: str
    level: int
    window: Window
    streams: tuple[str, ...]
    rows: str
    """SQL of the rows that go in: time, slice, keys and arguments."""
    source: str
    """What the user wrote below it, for comparing: how we cut slices is no part of it."""
    keys: tuple[Key, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None
    """Key names of each set; None for a plain GROUP BY."""
    metrics: tuple[Metric, ...]
    distinct_sets: tuple[DistinctSet, ...]
    output: str
    """SQL of the user's select list and HAVING over ``{windows}``, the finished windows."""
    session_keys: tuple[str, ...] = ()
    """The keys that are what sessions are partitioned by."""
    time_carries: str | None = None
    """The window column of a lower stage that its time is; None for a stage over streams, or another time."""
    enumerated: Enumerated | None = None
    written: str = ""
    """What it reads, as its author wrote it: for looking at."""

    @property
    def has_finest_set(self) -> bool:
        """Whether one of its grouping sets has all keys: its distinct values tell those of the others."""
        return any(len(members) == len(self.keys) for members in self.grouping_sets or ())


@dataclass(frozen=True)
class GroupStage:
    """A GROUP BY over a whole stream, kept as partial aggregates per key."""

    name: str
    rows: str
    """SQL of the rows that go in: keys and arguments."""
    source: str
    """As in `AggregateStage`."""
    keys: tuple[Key, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None
    metrics: tuple[Metric, ...]
    distinct_sets: tuple[DistinctSet, ...]
    signed: bool = False
    """Whether a row may take one away that came before: its ``sign`` is −1 then."""
    enumerated: Enumerated | None = None
    written: str = ""
    """As in `AggregateStage`."""
