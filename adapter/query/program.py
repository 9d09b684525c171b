"""The plan of one micro-batch, as SQL text: the interface between the planner and `stream/`.

The planner makes a `Program` from a model's SQL; `stream/` executes it. It holds no Spark objects and no SQL
trees, only names and texts, so that `dbt-stream explain` can print it.

The texts read these views, which `stream/` registers before each step:

``clock``
    one row (read with `clock_sql`): ``batch_id`` BIGINT, ``watermark_before`` and ``watermark_after`` TIMESTAMP. Both are
    NULL while there is no watermark; ``watermark_after`` is NULL until the input has been read. Texts have no
    literals for changing values: Spark would compile each new text again. ``step`` BIGINT numbers micro-batches and
    flushes. ``now_before`` and ``now_after`` are the watermarks before `Program.allowed_lateness` is subtracted. For each
    time zone of a window there is another column for each of these, as local time (`clock_column`).
`StreamInput.view`
    the rows of that stream in this micro-batch.
`Step.name`
    the result of each earlier step.
``state``
    the model's state: that of earlier micro-batches before the commit, afterwards with the rows of this one. A step
    that `sees_changes` reads both before the commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from ..util.quoting import quote
from .state_signature import Fingerprints, RowKey, Signature

StateNames: TypeAlias = Mapping[str, str]
"""Maps names that state tables, groups and windows have in a new state to their names in this state, if they differ."""
NEW_STATE: StateNames = MappingProxyType({})
EXPIRES_AT, STEP = "expires_at", "step"
"""Columns of the state: when a row expires, and the micro-batch that wrote it."""
TABLE_BEFORE = "table_before"
"""View of the model's table as it was before the micro-batch."""
CHANGE_TYPE, BATCH_ID = "_change_type", "_batch_id"
"""Metadata columns of a changelog, which its table doesn't have."""
CHANGES = "__changes"
"""Suffix of the name of a table's changelog."""


def clock_column(name: str, time_zone: str | None) -> str:
    """Returns the column of ``clock`` that holds a watermark as local time of a zone.

    >>> clock_column("watermark_after", "Europe/Berlin")
    'watermark_after_europe_berlin'
    """
    return f"{name}_{re.sub(r'[^a-z0-9]+', '_', time_zone.lower())}" if time_zone else name


def clock_sql(column: str) -> str:
    """Returns SQL for a column of ``clock``, usable wherever a value is.

    It is a subquery because Spark runs a broadcast job for a join. It reads a field of a struct because Spark
    writes a plain value into the code that it generates, and would compile that again for each value.

    >>> clock_sql("watermark_after")
    '(select struct(*) from clock).watermark_after'
    """
    return f"(select struct(*) from clock).{column}"


@dataclass(frozen=True)
class StreamInput:
    """A relation read as a stream."""

    relation: str
    """The relation as the model's SQL names it."""
    view: str
    """View with the rows of one micro-batch."""
    columns: tuple[str, ...] | None
    """Names of columns that the query uses, as it writes them; some may belong to other relations. None for all columns."""
    event_time: str | None
    """Column that the watermark is measured on, before any filter. None if the time is computed; then the
    watermark is measured on ``event_time`` of the rows."""
    feed: bool = False
    """Whether the relation's changelog is read."""
    needs_time: bool = True
    """Whether results depend on its event time. If not, a column of another type than TIMESTAMP may be named
    as event time: there is no watermark then."""


@dataclass(frozen=True)
class StateLookup:
    """A look-up of a state table by key, one per row of the step; counted while the step is computed."""

    part: str
    found: str
    """Whether the state has the row's key: a condition over the step's columns."""
    asked: str = "true"
    """Condition for the rows of the step that look a key up."""


@dataclass(frozen=True)
class FullScan:
    """An alternative text of a step, which reads a whole state table instead of looking keys up in it. It is used for a
    small table, and for one that this micro-batch rewrites (`Rewrite`). It may return more rows than the look-up."""

    sql: str
    part: str
    of_many: bool = False
    """Whether it only pays if the micro-batch has many rows."""


@dataclass(frozen=True)
class Rewrite:
    """Rewrites a whole state table instead of appending to it, where most of it changes in this micro-batch.
    The rewrite costs no more than the append and makes later reads cheaper. Made from a step that is a
    `FullScan`."""

    sql: str
    grows_by: str
    """Step with the rows that would be appended otherwise."""


@dataclass(frozen=True)
class Step:
    """A view that is registered in each micro-batch."""

    name: str
    sql: str
    persist: bool = False
    """Whether it is cached for the micro-batch because several steps read it. The first job that reads it
    computes it."""
    materialize: bool = False
    """Whether a cached step is computed at once, in a job for it alone: a plan that contains it would be too
    large, or its row count is needed."""
    unless_empty: str | None = None
    """Name of a cached step. While that has no rows, `initial` is used as for an empty state; `initial` then reads
    only one other cached step."""
    initial: str | None = None
    """Cheaper text with the same result for an empty state. If one step or state table of a program uses
    `initial`, all others do."""
    fresh: str | None = None
    """For steps of `Program.output_steps`: text with the same result that reads the steps before the commit, used if
    those were computed in this run. After a crash only the state is available."""
    reads: tuple[str, ...] = ()
    """All state tables that its texts may read. They decide which column a name refers to."""
    sees_changes: bool = False
    """Whether ``state`` also has the rows that this micro-batch is about to append to `reads`: the step
    returns results of windows that close, which others read before the commit."""
    full_scan: FullScan | None = None
    """Alternative to `sql` that reads a whole state table, used where that is less work."""
    state_lookups: tuple[StateLookup, ...] = ()
    """Look-ups in the state by `sql` or `full_scan`; `initial` and `fresh` make none."""


@dataclass(frozen=True)
class Rows:
    """Input rows of an operator, after all row-by-row operations below it.

    `stream/` handles the columns ``event_time`` and ``expires_at`` (TIMESTAMP). It counts and drops a row
    whose event time is NULL, or whose ``expires_at`` (the end of its last window) is not after the watermark
    before the batch. The rows that remain have no ``event_time`` column. Queries without windows drop no row,
    so they have no ``expires_at``; they have an ``event_time`` only if they need one.
    """

    name: str
    sql: str
    streams: tuple[str, ...]
    """Views of the streams that it reads."""
    time_zone: str | None = None
    """Time zone of ``expires_at``; None for UTC."""
    timed: bool = True
    """Whether it has an ``event_time``."""
    expires: bool = True
    """Whether it has an ``expires_at``."""
    read_by: str | None = None
    """Name of the only step that reads these rows, if that step doesn't need the streams' progress, so the
    rows needn't be cached. It is the first step of `Program.ingest` that reads rows."""
    forgets: bool = False
    """Whether late rows are ingested, and only counted as late: state that they would have been combined with may have
    expired."""
    is_single_reader: bool = False
    """Whether it is the only reader of its streams, so that their rows needn't be cached."""


@dataclass(frozen=True)
class StatePart:
    """A state table: one kind of state row, stored in the partition ``part`` of the state."""

    name: str
    append: str
    """Query for the rows that a micro-batch appends. If `closes` is ``expires_at``, a row is obsolete once
    the watermark reaches that column's value."""
    fold: str
    """Query that compacts it to fewer rows, over ``state`` and ``clock``."""
    initial: str | None = None
    """See `Step.initial`."""
    time_zone: str | None = None
    """Time zone of ``expires_at``; None for UTC."""
    lasts: int | None = None
    """Retention of a row in microseconds, where compaction only drops expired rows. None if compaction also
    merges rows."""
    merges: bool = True
    """Whether compaction merges rows, so that it pays when the state table has grown."""
    forgets: int | None = None
    """Microseconds of watermark after which rows expire and the state table is compacted; None for never."""
    closes: str | None = EXPIRES_AT
    """Column whose maximum is the watermark at which all results have been emitted; None if they always have."""
    rewrite: Rewrite | None = None
    """Rewrite that is used instead of `append` where it is less work; None if the state table is only
    appended to."""
    reads: tuple[str, ...] = ()
    """See `Step.reads`."""


@dataclass(frozen=True)
class Lookup:
    """A look-up in an external table by the keys of earlier items; a join reads the result."""

    view: str
    """View that holds the result."""
    relation: str
    """Table as the model's SQL names it."""
    key: tuple[str, ...]
    """Columns of the table that are looked up."""
    columns: tuple[str, ...] | None
    """Columns that are needed, in lower case (names of other tables may be among them); None for all."""
    keys: str
    """Query for the distinct keys, as ``key_1``, ``key_2`` …"""


_Reader = TypeVar("_Reader", Step, StatePart, Step | Lookup)


def limit_reads(items: Iterable[_Reader], parts: Iterable[StatePart]) -> tuple[_Reader, ...]:
    """Returns the steps or state tables with `reads` limited to these state tables."""
    names = tuple(sorted({part.name for part in parts}))
    return tuple(each if isinstance(each, Lookup) else replace(each, reads=names) for each in items)


Item: TypeAlias = Lookup | Rows | Step | StatePart
_Item = TypeVar("_Item", Lookup, Rows, Step, StatePart)


_WINDOWS_OF_A_HISTORY = 1_000
"""Number of windows that are assumed to close in a stream's first micro-batch."""


@dataclass(frozen=True)
class Boundaries:
    """Instants at which windows close: ``offset + n * step``, in microseconds since 1970."""

    step: int
    offset: int
    time_zone: str | None = None
    """Time zone in which they are counted; None for UTC."""
    extra_delay: int = 0
    """Microseconds from the instant until the window closes."""

    def count_closing(self, before: int | None, after: int | None) -> int:
        """Returns how many windows at most close when the watermark moves from `before` to `after`, both in
        the boundaries' time zone and reduced by `extra_delay`.

        >>> Boundaries(60, 0).count_closing(30, 200), Boundaries(60, 0).count_closing(30, 59)
        (3, 0)
        """
        if after is None:
            return 0
        if before is None:
            return _WINDOWS_OF_A_HISTORY
        return (after - self.offset) // self.step - (before - self.offset) // self.step


EVERYTHING = "select true as anything from clock"
"""`Upsert.affected_keys` of a full output."""


@dataclass(frozen=True)
class TargetCondition:
    """A condition that a row of the target table, ``old``, belongs to a window, group or ranking in ``fired``, which are the
    `Upsert.affected_keys`."""

    column: str
    """Column of the table."""
    comparison: str
    """``=``, ``<=>``, ``<=`` or ``>=``."""
    affected_key: str
    """Column of `Upsert.affected_keys`, quoted where it has to be."""
    keeps_closed: bool = False
    """Whether it only leaves out rows of sessions that had closed before."""

    @property
    def sql(self) -> str:
        """The condition's text.

        >>> TargetCondition("a b", "<=>", "k").sql
        'old.`a b` <=> fired.k'
        """
        return f"old.{quote(self.column)} {self.comparison} fired.{self.affected_key}"


@dataclass(frozen=True)
class Upsert:
    """Describes how output rows find the table rows that they replace."""

    key: tuple[str, ...] | None
    """Columns that identify a row; None if nothing does, and `affected_keys` covers the whole table."""
    affected_keys: str
    """Query for the affected keys: windows, groups or rankings whose rows are all in the output. A table row of
    theirs that isn't in the output is deleted."""
    target_filter: tuple[TargetCondition, ...]
    """Conditions that a table row and the affected key that it belongs to meet; empty for all rows."""
    bound: tuple[str, str] | None
    """A table column, and the column of `affected_keys` that is a lower bound of it where `target_filter` holds; None if
    there is none."""
    key_is_unique: bool = True
    """Whether the key is known to be unique; if not, that is checked at run time."""
    column_origins: Mapping[str, str] = field(default_factory=dict)
    """Table column → the window column or the group key of a window operator that it holds, where known."""
    change: str | None = None
    """View with inserts and retractions, used if nothing identifies a row and the output is `TABLE_BEFORE`
    plus these changes; None otherwise."""

    @property
    def is_whole(self) -> bool:
        """Whether the output is a full result that is compared with the whole table."""
        return self.affected_keys == EVERYTHING

    @property
    def condition(self) -> str:
        """The text of `target_filter`."""
        return " and ".join(each.sql for each in self.target_filter) or "true"

    @property
    def row_key(self) -> RowKey:
        """The key by which rows are matched, for the signature of a state."""
        names = None if self.key is None else sorted(name.lower() for name in self.key)
        return RowKey(
            columns=None if names is None else {name: self.column_origins.get(name, name) for name in names},
            # Neither the order of the group keys nor the condition that excludes closed windows matters.
            scope=tuple(sorted(each.sql for each in self.target_filter if not each.keeps_closed)),
            bound=self.bound[0] if self.bound else None,
        )


@dataclass(frozen=True)
class OpenWindowQuery:
    """A query for the windows of a state table that have rows and whose on-time firing is still to come."""

    part: str
    sql: str
    """Query over ``state`` with a row for each slice: the ``first`` and the ``last`` end of the windows that contain it, as
    microseconds of local time. For sessions, a single row for all that end after ``:watermark``, with their number as
    ``sessions``.
    """
    step: int
    """Microseconds between the ends of windows that contain a slice."""
    grows: bool
    """Whether the windows that contain a slice are steps of one window."""
    time_zone: str | None = None
    complete: int = 0
    """Microseconds from a window's end until its on-time firing."""


@dataclass(frozen=True)
class MiniBatch:
    """Limits of the size of a micro-batch."""

    latency: int | None = None
    """Microseconds between micro-batches."""
    rows: int | None = None


@dataclass(frozen=True)
class OperatorNames:
    """The operators of a program, as `dbt-stream explain` names them."""

    of_parts: Mapping[str, tuple[str, str]]
    """State table → the operator that owns it, and what one of its rows is."""
    tree: str
    """All operators in one line, from the table to the streams."""


@dataclass(frozen=True)
class Program:
    """All work of a streaming model in one micro-batch.

    ::

        arrival        against the watermark before the micro-batch; then the watermark advances
        ingest         what the input changes in the state
        cascade        results of windows that close, and what they change in the state above them
        COMMIT of the state
        output_steps   from the state after the commit
        output         COMMIT of the table

    A micro-batch without input that flushes windows from the state skips `arrival` and `ingest`. One that crosses
    none of the `boundaries` ends after `ingest` and its commit.
    """

    inputs: tuple[StreamInput, ...]
    items: tuple[Item, ...]
    """All work before the commit, in order: an item reads only earlier ones. Empty if there is no state."""
    output: str
    """Query for the rows of the model's table, in the order of its columns."""
    boundaries: tuple[Boundaries, ...] | None
    """A batch that crosses none of these emits nothing. None if every batch may emit."""
    lookups: tuple[Lookup, ...] = ()
    """Look-ups that `output` reads."""
    upsert: Upsert | None = None
    """None if rows are only inserted."""
    allowed_lateness: int = 0
    """Allowed lateness in microseconds, for which state is kept after its window's end: ``watermark_before``
    and ``watermark_after`` are that much behind ``now_before`` and ``now_after``."""
    extra_delay: int = 0
    """Microseconds by which the watermark is behind in addition to its configured delay."""
    time_zones: tuple[str, ...] = ()
    """Time zones that ``clock`` has columns for."""
    tables: tuple[str, ...] = ()
    """Static tables, which are read again in each micro-batch."""
    mini_batch: MiniBatch | None = None
    """Limits of a micro-batch; None if the sources and the trigger decide."""
    output_steps: tuple[Step, ...] = ()
    """Steps that `output` reads, computed from the state after its commit unless they were computed before
    it."""
    skip_if_empty: str | None = None
    """A cached, counted step: if it has no rows, nothing is emitted. None if `output` decides."""
    flushes_from_state: bool = False
    """Whether a micro-batch without input reads only the state: all state belongs to windows, and the
    micro-batch closes some."""
    filters_on_arrival: bool = False
    """Whether rows are filtered by the watermark before the micro-batch. Without state, the table's commits have to
    store it then."""
    is_full_output: bool = False
    """Whether `output` is the full result, so that the table is empty if it has no rows."""
    has_rows_without_input: bool = False
    """Whether the output may have rows before the streams have any: a global aggregate has one, over 0 rows."""
    signature: Signature = field(default_factory=Signature)
    """Everything that the state depends on. Stored with the state and compared in the next run."""
    open_windows: tuple[OpenWindowQuery, ...] = field(default=(), compare=False, repr=False)
    """Queries for the open windows, which a run reports."""
    operators: Callable[[], OperatorNames] | None = field(default=None, compare=False, repr=False)
    """Returns the operators, as `dbt-stream explain` names them. None if they weren't requested."""
    fingerprints: Callable[[], Fingerprints] | None = field(default=None, compare=False, repr=False)
    """Returns the lineage of the state tables of a tree of operators (`identity.fingerprints`), which is stored with
    the signature. None if the program isn't such a tree."""
    rebuild: Callable[[Collection[str]], Program] | None = field(default=None, compare=False, repr=False)
    """Returns a program for a micro-batch without input that rebuilds what it can from the rest of the state
    (rankings of groups; in a tree of operators everything above the named groups) and emits the full result.
    None if nothing can be rebuilt."""
    with_names: Callable[[StateNames], Program] | None = field(default=None, compare=False, repr=False)
    """Returns the program for a state with these names. None if it wasn't planned from a query."""

    @property
    def keeps_state(self) -> bool:
        """Whether micro-batches write a state table."""
        return bool(self.items)

    def items_of_kind(self, kind: type[_Item]) -> tuple[_Item, ...]:
        return tuple(each for each in self.items if isinstance(each, kind))

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """Returns all state tables."""
        return self.items_of_kind(StatePart)

    @property
    def arrival(self) -> tuple[Item, ...]:
        """Returns the items before the watermark advances: up to the last input rows before any state table."""
        before = takewhile(lambda each: not isinstance(each, StatePart), self.items)
        return self.items[: max((n for n, each in enumerate(before, 1) if isinstance(each, Rows)), default=0)]

    @property
    def ingest(self) -> tuple[Item, ...]:
        """Returns the items after `arrival`, up to the first step that reads windows which close."""
        rest = self.items[len(self.arrival) :]
        return tuple(takewhile(lambda each: not (isinstance(each, Step) and each.sees_changes), rest))

    @property
    def cascade(self) -> tuple[Item, ...]:
        """Returns the items after `ingest`. Empty unless windows feed other windows or operators."""
        return self.items[len(self.arrival) + len(self.ingest) :]


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a copy of a program, or of any nesting of dataclasses, tuples and dictionaries, with its texts
    replaced.

    Args:
        change: returns the new text.
    """

    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {with_texts(key, change): with_texts(each, change) for key, each in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        return type(value)(with_texts(each, change) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        made = {
            each.name: with_texts(getattr(value, each.name), change) for each in fields(value) if each.init
        }
        return replace(value, **made)
    return value
