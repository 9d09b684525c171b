"""`Explanation`: what `explain` prints of an operator, and the `Context` that it depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..aggregates.model import Metric
from ..program import StateNames
from ..sql import intervals
from ..windows.emission import FINAL, Emission

APPEND, UPSERT, RETRACT, TABLE = "append", "upsert", "retract", "table"
FROM_CHANGES, PARTITIONS, EVERYTHING = (
    "from changes",
    "recomputes touched partitions",
    "recomputes everything",
)

WINDOW_END = "window end + allowed lateness"
WHEN_EMITTED = "when it is emitted"
BOUNDED = "nothing: its input is bounded"
ALL_BOUNDED = "nothing: its inputs are bounded"
FEW_ROWS = "nothing: its rows are constant_domains, or have few values"
AS_ITS_INPUT = "nothing: as many as its input has"


@dataclass(frozen=True)
class Changelog:
    """Kind of changes that an operator emits: the mode of the edge above it.

    >>> str(Changelog(UPSERT, ("k",))), str(Changelog(UPSERT)), str(Changelog(RETRACT))
    ('upsert(k)', 'upsert of one row', 'retract')
    """

    kind: str = APPEND
    """`APPEND`: inserted rows that never change; `UPSERT`: rows that replace those of their key; `RETRACT`:
    inserted and retracted rows; `TABLE`: a static table, read again in each micro-batch."""
    key: tuple[str, ...] = ()
    """Key of `UPSERT`; empty if there is a single row."""

    def __str__(self) -> str:
        if self.kind != UPSERT:
            return self.kind
        return f"{self.kind}({', '.join(self.key)})" if self.key else f"{self.kind} of one row"


@dataclass(frozen=True)
class Computing:
    """The way in which an operator updates its result."""

    how: str = FROM_CHANGES
    """`FROM_CHANGES`, `PARTITIONS` or `EVERYTHING`."""
    by: tuple[str, ...] = ()
    """Partition keys of `PARTITIONS`."""
    cost: str = ""
    """Rows that are read, if more than the changes."""

    @property
    def recomputes(self) -> bool:
        """Whether results that exist are computed again."""
        return self.how != FROM_CHANGES

    def __str__(self) -> str:
        if self.how == PARTITIONS:
            return f"{self.how} by {', '.join(self.by)}"
        return f"{self.how} in each micro-batch" if self.how == EVERYTHING else self.how


@dataclass(frozen=True)
class State:
    """A state table of an operator."""

    part: str
    rows: str
    """Description of one of its rows."""
    clears: str
    """Event or condition that clears a row."""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptMetric:
    """An aggregate call, with the state columns that store it."""

    sql: str
    """The call as its author wrote it."""
    function: str
    columns: tuple[str, ...]
    """Columns of the state; empty if it is computed from the stored rows."""
    how: str


def kept_metrics(
    metrics: Sequence[Metric], columns: Mapping[str, Sequence[str]], plain: str, of_values: str
) -> tuple[KeptMetric, ...]:
    """Returns aggregates that are stored as partial aggregates, or with their distinct values.

    Args:
        metrics: the aggregates, as the author wrote them.
        columns: state columns by a metric's identity.
        plain: how a partial aggregate is stored.
        of_values: how one with distinct values is stored.
    """
    return tuple(
        KeptMetric(
            each.sql,
            f"{each.function} distinct" if each.distinct else each.function,
            tuple(columns.get(each.identity, ())),
            of_values if each.distinct_set else plain,
        )
        for each in metrics
    )


@dataclass(frozen=True)
class Explanation:
    """An operator for display, with its inputs."""

    operator: str
    """Standard name of the operator."""
    description: str
    """Description in terms of the model's text."""
    identity: str = ""
    """Name of the operator: equal operators over equal inputs have the same name."""
    changelog: Changelog = Changelog()
    key: tuple[str, ...] | None = None
    """Columns that identify a row; None if none are known."""
    event_time: str | None = None
    """Column with the event time, and its properties."""
    state: tuple[State, ...] = ()
    computing: Computing = Computing()
    metrics: tuple[KeptMetric, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences."""
    reads: tuple[str, ...] = ()
    """Streams and tables that it reads in addition to its inputs, as its SQL names them."""
    inputs: tuple[Explanation, ...] = ()
    shares: tuple[str, ...] = ()
    """State tables of other operators that it also reads."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Facts that an operator's explanation depends on in addition to its fields."""

    ttl: int | None = None
    """Microseconds until idle state expires; None for never."""
    domains: bool = False
    """Whether the model names columns whose sets of values don't grow."""
    emission: Emission = FINAL
    relations: Mapping[str, Explanation] = field(default_factory=dict)
    """Streams and external tables, by their views."""
    upserts: tuple[str, ...] | None = None
    """Key by which its output replaces rows of the table; None if it emits changes."""
    state: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """State tables of the operator, each with its columns."""
    names: StateNames = field(default_factory=dict)
    state_name: str = ""
    """Name of the operator's groups in the state, if it is a GROUP BY."""
    rows_of: Mapping[str, str] = field(default_factory=dict)
    """State tables with buffered rows → name of the operator that the rows come from."""

    def ttl_after(self, last: str) -> str | None:
        """Returns the TTL as a phrase, counted from `last`; None if there is no TTL."""
        return None if self.ttl is None else f"state_ttl, {intervals.format(self.ttl)} after {last}"

    def why_keys_are_bounded(self, keys: bool, is_bounded: bool) -> str:
        """Returns the reason why the number of keys in the state is bounded, for a query without a TTL.

        Args:
            keys: whether there are keys.
            is_bounded: whether the number of input rows is itself bounded.

        >>> Context(domains=True).why_keys_are_bounded(True, False), Context().why_keys_are_bounded(False, False)
        ('nothing: its keys are constant_domains, or have few values', 'nothing: there is one')
        """
        if not keys:
            return "nothing: there is one"
        if is_bounded:
            return BOUNDED
        few_keys = "nothing: the values of its keys are few"
        return "nothing: its keys are constant_domains, or have few values" if self.domains else few_keys

    def state_tables(
        self, described: Mapping[str, tuple[str, str]], other: tuple[str, str]
    ) -> tuple[State, ...]:
        """Returns the operator's state tables.

        Args:
            described: state table → one of its rows, and what clears it.
            other: a row, and what clears it, for state tables that aren't in `described`.
        """
        tables = {**described, **{part: other for part in self.state if part not in described}}
        return tuple(
            State(part, *texts, self.state[part]) for part, texts in tables.items() if part in self.state
        )
