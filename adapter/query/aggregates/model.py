"""Data classes of a GROUP BY: keys, metrics, distinct sets, and the two kinds of aggregation."""

from __future__ import annotations

from dataclasses import dataclass

from ..windows.windows import Window
from .aggregates import Types

FLAGS = FIRST, SEEN, TIMES = "first", "in", "times"
"""Suffixes of the columns of a `Flag`: the slice a value first occurred in, whether it occurred, how often it is
there."""


@dataclass(frozen=True)
class Key:
    """A group key: its column in the state and the user's expression."""

    name: str
    sql: str
    identity: str = ""
    """The key's meaning as text, independent of the aliases of the query's relations."""


@dataclass(frozen=True)
class Metric:
    """An aggregate call. Arguments and filter name columns of the aggregation's input rows."""

    name: str
    function: str
    arguments: tuple[str, ...]
    filter: str | None
    distinct_set: str | None
    """The distinct set that the metric is counted from. None for a plain aggregate."""
    sql: str
    """The call as the user wrote it. Two metrics are equal if and only if this text is."""
    distinct: bool = False
    """Whether each value counts once (DISTINCT)."""
    signed: bool = False
    """Whether input rows may be retractions."""
    types: Types | None = None
    """Types of a sum or an average. None for other functions, and for a query planned without a session."""
    identity: str = ""
    """The metric's meaning as text, independent of relation aliases."""
    rows: str = ""
    """Text of the input rows the metric aggregates, for comparing an edited query."""


@dataclass(frozen=True)
class Flag:
    """A column of a distinct set that says which values count for a FILTER."""

    name: str
    """Prefix of the column. Each append-only metric has its own flag, because a metric that is added to a running
    query counts only from the first row after that. Metrics over retractions can't be added to a running query, so
    those with the same FILTER share a flag."""
    filter: str | None
    """The input column that holds the FILTER's condition. None without a FILTER."""


@dataclass(frozen=True)
class DistinctSet:
    """The values of one DISTINCT argument list, shared by every metric and FILTER over it."""

    name: str
    columns: tuple[str, ...]
    flags: tuple[Flag, ...]
    identity: str = ""
    """The set's values as text, independent of relation aliases."""

    @property
    def filters(self) -> tuple[str | None, ...]:
        """Filter column of each flag. None where every value counts."""
        return tuple(flag.filter for flag in self.flags)

    def place(self, metric: Metric) -> int:
        """Returns the index of a metric's flag.

        >>> prices = DistinctSet("distinct_price", ("price",), (Flag("one", None), Flag("other", "is_new")))
        >>> prices.place(Metric("other", "count", ("price",), "is_new", "distinct_price", "COUNT(DISTINCT price)"))
        1
        """
        names = [flag.name for flag in self.flags]
        return names.index(metric.name) if metric.name in names else self.filters.index(metric.filter)


@dataclass(frozen=True)
class Enumerated:
    """Group keys with few possible values. A distinct set has a column for each combination of them instead of rows."""

    keys: tuple[str, ...]
    number: str
    """The input column with an index into `values`."""
    values: tuple[tuple[str, ...], ...]
    """SQL literals of the keys, by number."""


@dataclass(frozen=True, kw_only=True)
class WindowedRows:
    """The input rows of a window operator."""

    name: str
    level: int
    window: Window
    streams: tuple[str, ...]
    rows: str
    """SQL of the rows: time, slice, and what the operator keeps of them."""
    source: str
    """The user's text of the input, for comparing an edited query. Slices are no part of it."""
    time_carries: str | None = None
    """The window column of the windows below that serves as the time of these. None over a stream, or for another
    time column."""
    written: str = ""
    """The input as its author wrote it, for `explain`."""


@dataclass(frozen=True, kw_only=True)
class WindowAggregateSpec(WindowedRows):
    """A window aggregation, kept as partial aggregates per slice and key."""

    keys: tuple[Key, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None
    """Key names of each grouping set. None for a plain GROUP BY."""
    metrics: tuple[Metric, ...]
    distinct_sets: tuple[DistinctSet, ...]
    output: str
    """SQL of the user's select list and HAVING over ``{windows}``, the finished windows."""
    session_keys: tuple[str, ...] = ()
    """The group keys that sessions are partitioned by."""
    enumerated: Enumerated | None = None

    @property
    def has_finest_set(self) -> bool:
        """Whether one of the grouping sets has all keys. The distinct values of the others follow from its values."""
        return any(len(members) == len(self.keys) for members in self.grouping_sets or ())


@dataclass(frozen=True)
class GroupAggregateSpec:
    """A group aggregation (without windows), kept as partial aggregates per key."""

    name: str
    rows: str
    """SQL of the input rows: keys and arguments."""
    keys: tuple[Key, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None
    metrics: tuple[Metric, ...]
    distinct_sets: tuple[DistinctSet, ...]
    signed: bool = False
    """Whether input rows may be retractions, which have ``sign`` −1."""
    enumerated: Enumerated | None = None
    written: str = ""
    """The input as its author wrote it, for `explain`."""
