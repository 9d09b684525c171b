"""What the planner found in a model's text, as frozen dataclasses: `dbt-stream explain` prints these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .ranks import Top
from .windows import Window


@dataclass(frozen=True)
class Stream:
    """A relation that is read as a stream."""

    relation: str
    """As the compiled text names it."""
    view: str
    columns: tuple[str, ...] | None
    """Columns the query may use; None: all."""
    event_time: str | None
    """Its column that the first window over it is cut by; None where that is computed."""


@dataclass(frozen=True)
class Key:
    """A group key: its column in the state and the user's expression."""

    name: str
    sql: str


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


@dataclass(frozen=True)
class DistinctSet:
    """The values of one DISTINCT argument list, shared by every metric and FILTER over it."""

    name: str
    columns: tuple[str, ...]
    filters: tuple[str | None, ...]
    """The columns of the filters; None for the metrics without FILTER."""


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


@dataclass(frozen=True)
class RowsStage:
    """A window function whose rows are kept until their windows close."""

    name: str
    level: int
    window: Window
    streams: tuple[str, ...]
    rows: str
    source: str
    """As in `AggregateStage`."""
    reason: str
    """Why rows are kept instead of aggregates."""
    top: Top | None = None
    """The only rows that are needed; None: all."""


@dataclass(frozen=True)
class Plan:
    """A model's query: streams, the stages that keep state, and the SQL over their results."""

    streams: tuple[Stream, ...]
    stages: tuple[AggregateStage | RowsStage, ...]
    """In the order they are evaluated; none: the query works row by row."""
    output: str
    static: tuple[str, ...]
    """Relations read afresh at each micro-batch."""
    carried: Mapping[str, str] = field(default_factory=dict)
    """Output column → the window column or group key it carries (``stage.key``)."""
    unique: frozenset[str] | None = None
    """What identifies a row of the output; None: nothing does."""
    ranks: tuple[str, ...] = ()
    """The rankings that a filter ends, as the user wrote them."""

    @property
    def shape(self) -> Mapping[str, bool]:
        """What a materialization may ask of a query."""
        windows = [stage.window for stage in self.stages if isinstance(stage, AggregateStage)]
        return {
            "window_aggregate": bool(windows),
            "cumulate": bool(windows) and all(window.grows for window in windows),
            "topn": bool(self.ranks),
            "streaming_table": True,
        }
