"""What the planner found in a model's text, as frozen dataclasses; `operator_tree` shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..aggregates.aggregates import Types
from ..normalize.rankings.ranks import Top
from ..program import MiniBatch
from ..windows.windows import Window
from .base import Dataflow
from .untimed_rows import Dropped

FLAGS = FIRST, SEEN, TIMES = "first", "in", "times"
"""What the columns of a `Flag` say of a value: the slice it was first seen in, that it was seen, how often it is there."""


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
    feed: bool = False
    """Whether its change feed is read."""


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
    time_carries: str | None = None
    """As in `AggregateStage`."""
    written: str = ""
    """As in `AggregateStage`."""
    plain: str = ""
    """`source` without the names of its relations, so that these may be others; empty: nobody wrote it so."""


@dataclass(frozen=True)
class UnboundedState:
    """What the state of a query without windows grows with."""

    by: tuple[tuple[str, ...], ...]
    """What it keeps something for, by the names the query has for it: each key, or the columns it is
    computed from."""
    bounded: str
    """The query with a predicate that bounds it."""


@dataclass(frozen=True)
class GroupStage:
    """A GROUP BY over a whole stream, kept as partial aggregates per key."""

    name: str
    level: int
    streams: tuple[str, ...]
    rows: str
    """SQL of the rows that go in: keys and arguments."""
    source: str
    """As in `AggregateStage`."""
    keys: tuple[Key, ...]
    grouping_sets: tuple[tuple[str, ...], ...] | None
    metrics: tuple[Metric, ...]
    distinct_sets: tuple[DistinctSet, ...]
    growth: UnboundedState | None
    """None: of the stage whose rows come and go."""
    signed: bool = False
    """Whether a row may take one away that came before: its ``sign`` is −1 then."""
    enumerated: Enumerated | None = None
    written: str = ""
    """As in `AggregateStage`."""


@dataclass(frozen=True)
class KeyedStage:
    """A stream whose rows replace those before them that have the same key."""

    name: str
    level: int
    streams: tuple[str, ...]
    view: str
    source: str
    key: tuple[str, ...]
    feed: bool
    """Whether it is a change feed; else each row takes the place of the one before."""
    time: str | None
    """The column of the event time, by which rows follow each other; None: they do so as they come."""
    stored: bool
    """Whether rows are needed after they came."""
    signed: bool
    """Whether what stands above adds up rows that come and go."""
    growth: UnboundedState | None
    """None: of what it is the feed of."""


Stage: TypeAlias = AggregateStage | RowsStage


@dataclass(frozen=True)
class LookupTable:
    """A table outside that joins ask for the keys of a micro-batch."""

    relation: str
    """As the compiled text names it."""
    view: str
    """What its answer is under."""
    key: tuple[str, ...]
    """The columns that it is asked by."""
    columns: tuple[str, ...] | None
    """Columns the query may use; None: all."""


@dataclass(frozen=True)
class WindowPlan:
    """A query that stays within windows: streams, the stages that keep state, and the SQL over their results."""

    streams: tuple[Stream, ...]
    stages: tuple[Stage, ...]
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
    grouped_rows: tuple[Window, ...] = ()
    """The windows whose kept rows a GROUP BY is over."""
    certain: bool = True
    """Whether nothing above the stages can make two rows of one."""
    closed: bool = True
    """Whether the window columns it carries are of windows that have closed: all rows of one come at once."""
    written: str = ""
    """`output` as its author wrote it, where that is another text: for looking at."""
    lookups: tuple[LookupTable, ...] = ()
    """Where it is all of a model's query: the tables outside that it asks."""
    taken: frozenset[str] = frozenset()
    """As of `Plan`, where it is all of a model's query."""

    @property
    def grouped(self) -> list[Window]:
        """The windows whose rows are grouped."""
        own = [stage.window for stage in self.stages if isinstance(stage, AggregateStage)]
        return [*own, *self.grouped_rows]


@dataclass(frozen=True)
class Plan:
    """A model's query: its streams, and the operators that keep it up to date."""

    streams: tuple[Stream, ...]
    dataflow: Dataflow
    static: tuple[str, ...]
    """Relations read afresh at each micro-batch."""
    batch: str | None = None
    """The query in batch; None: it is put together from the stages of windows."""
    ranks: tuple[str, ...] = ()
    """The rankings that a filter ends, as the user wrote them."""
    rewrites: tuple[tuple[str, str], ...] = ()
    """The rewrites that the query asks for, and what they do."""
    lookups: tuple[LookupTable, ...] = ()
    mini_batch: MiniBatch | None = None
    """What a micro-batch is at most, where the text says so."""
    text: str = ""
    """Digest of the model's text, where it is known."""
    clauses: Callable[[], Sequence[tuple[str, str]]] = field(default=tuple, compare=False, repr=False)
    """Gives the clauses of that text, as `written_clauses` tells them."""
    unknown_functions: tuple[str, ...] = ()
    """Functions that aren't Spark's own, planned without a session: taken for functions of a row."""
    unclear_columns: tuple[str, ...] = ()
    """Columns of joins and of queries in expressions, planned without a session: a run asks it which relation has them, and
    of which type they are."""
    taken: frozenset[str] = frozenset()
    """Names of the author's that generated SQL may have for something else; they are marked in here (`own_names`)."""
    dropped: tuple[Dropped, ...] = ()
    """Where the stream drops rows without an event time, which a text for batch then leaves out, too."""

    @property
    def windows(self) -> WindowPlan | None:
        """As of `Dataflow`."""
        return self.dataflow.windows

    @property
    def shape(self) -> Mapping[str, bool]:
        """What a materialization may ask of a query."""
        windows = self.dataflow.grouped
        return {
            "window_aggregate": bool(windows),
            "cumulate": bool(windows) and all(window.grows for window in windows),
            "topn": bool(self.ranks),
            "streaming_table": True,
        }
