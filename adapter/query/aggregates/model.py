"""Data classes of a GROUP BY: keys, metrics, distinct sets, and the two kinds of aggregation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from ..sql.dialect import sql
from ..windows.windows import Window
from .aggregates import Types

FLAGS = FIRST, SEEN, TIMES = "first", "in", "times"
"""Suffixes of the columns of a `Flag`: the slice in which a value first occurred, whether it occurred, and its count."""


@dataclass(frozen=True)
class Key:
    """A group key: its column in the state and the author's expression."""

    name: str
    expression: exp.Expr
    """Callers must not change it."""
    identity: str = ""
    """Text that equal keys share, whatever aliases the query's relations have."""

    @cached_property
    def sql(self) -> str:
        """The text of the expression."""
        return sql(self.expression)


@dataclass(frozen=True)
class Metric:
    """An aggregate call. `arguments` and `filter` are columns of the aggregation's input rows."""

    name: str
    function: str
    arguments: tuple[str, ...]
    filter: str | None
    distinct_set: str | None
    """Name of the distinct set that the metric is computed from; None for a plain aggregate."""
    call: exp.Expr
    """The call as the author wrote it. Two metrics are equal if the texts of their calls are. Callers must not change it."""
    distinct: bool = False
    """Whether each value counts once (DISTINCT)."""
    has_retractions: bool = False
    """Whether input rows may be retractions."""
    types: Types | None = None
    """Types of a sum or an average. None for other functions, and for a query planned without a session."""
    identity: str = ""
    """Text that equal metrics share, whatever aliases the query's relations have."""
    unqualified: str = ""
    """`identity` without the relations of its columns."""
    rows: str = ""
    """Text of the input rows that the metric aggregates, to compare an edited query."""

    @cached_property
    def sql(self) -> str:
        """The text of the call."""
        return sql(self.call)


@dataclass(frozen=True)
class Flag:
    """A column of a distinct set that says which values count for a FILTER."""

    name: str
    """Prefix of the column. Each append-only metric has its own flag, because a metric that is added to a running query
    aggregates only rows after that. Metrics over retractions can't be added, so those with equal FILTERs share a flag."""
    filter: str | None
    """The input column with the FILTER's condition; None without a FILTER."""


@dataclass(frozen=True)
class DistinctSet:
    """The values of a list of DISTINCT arguments, shared by all metrics and FILTERs over it."""

    name: str
    columns: tuple[str, ...]
    flags: tuple[Flag, ...]
    identity: str = ""
    """Text that equal sets share, whatever aliases the query's relations have."""

    @property
    def filters(self) -> tuple[str | None, ...]:
        """Filter column of each flag; None if all values count."""
        return tuple(flag.filter for flag in self.flags)

    def flag_index(self, metric: Metric) -> int:
        """Returns the index of a metric's flag.

        >>> prices = DistinctSet("distinct_price", ("price",), (Flag("one", None), Flag("other", "is_new")))
        >>> prices.flag_index(Metric("other", "count", ("price",), "is_new", "distinct_price", exp.Count()))
        1
        """
        names = [flag.name for flag in self.flags]
        return names.index(metric.name) if metric.name in names else self.filters.index(metric.filter)


@dataclass(frozen=True)
class Enumerated:
    """Group keys with few possible values. A distinct set has a column per combination of them instead of rows."""

    keys: tuple[str, ...]
    number: str
    """The input column with an index into `values`."""
    values: tuple[tuple[str, ...], ...]
    """The combinations of the keys' values, as SQL literals; `number` has an index into them."""


@dataclass(frozen=True, kw_only=True)
class WindowedRows:
    """The input rows of a window operator."""

    name: str
    identity: str
    """Digest of its windows, input rows and keys, without its aggregates. It has the identities of the windows
    below in the place of their names."""
    window: Window
    streams: tuple[str, ...]
    rows: str
    """SQL of the rows: time, slice, and the columns that the operator aggregates or stores."""
    read: exp.Query
    """The query whose text is `rows`, or is wrapped in it. Callers must not change it."""
    source: str
    """The author's text of the input, without slices, to compare an edited query."""
    time_carries: str | None = None
    """Origin of the time column, if it is a window column of the windows below; None over a stream, or for another
    column."""
    reads: tuple[str, ...] = ()
    """Names of the window operators whose results it reads; empty over streams."""
    filters_on_arrival: bool = False
    """Whether the rows are filtered by the watermark before the micro-batch."""
    written: exp.Query
    """The input as its author wrote it, for `explain`. Callers must not change it."""


@dataclass(frozen=True, kw_only=True)
class WindowAggregateSpec(WindowedRows):
    """A window aggregation, stored as partial aggregates per slice and key."""

    keys: tuple[Key, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None
    """Key names of each grouping set. None for a plain GROUP BY."""
    metrics: tuple[Metric, ...]
    distinct_sets: tuple[DistinctSet, ...]
    output: exp.Select
    """The author's select list and HAVING, over the relation of finished windows. Callers must not change it."""
    session_keys: tuple[str, ...] = ()
    """The group keys that sessions are partitioned by."""
    enumerated: Enumerated | None = None

    @property
    def has_finest_set(self) -> bool:
        """Whether one of the grouping sets has all keys. The distinct values of the others follow from its values."""
        return any(len(members) == len(self.keys) for members in self.grouping_sets or ())


@dataclass(frozen=True)
class GroupAggregateSpec:
    """A group aggregation (without windows), stored as partial aggregates per key."""

    name: str
    rows: str
    """SQL of the input rows: keys and arguments."""
    keys: tuple[Key, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None
    metrics: tuple[Metric, ...]
    distinct_sets: tuple[DistinctSet, ...]
    written: exp.Query
    """The input as its author wrote it, for `explain`. Callers must not change it."""
    has_retractions: bool = False
    """Whether input rows may be retractions, which have ``sign`` −1."""
    filters_on_arrival: bool = False
    """Whether the rows are filtered by the watermark before the micro-batch."""
    enumerated: Enumerated | None = None
