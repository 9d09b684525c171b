"""Describes everything that a state depends on. The description is stored with the state, as JSON, and compared with that
of an edited query."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

VERSION = 5
"""Version of the layout of states and of their signatures. A state of another version is refused."""

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class MetricState:
    """An aggregate of a group aggregation or a window aggregation."""

    sql: str = ""
    columns: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    """Storage of its value: the functions of its columns, and the type of a sum."""
    rows: str = ""
    """Digest of its input rows, with the identities of other windows in the place of their names. The order of conditions
    doesn't matter."""
    distinct_set: str | None = None
    """The distinct set that it is counted from."""
    from_now: bool = False
    """Whether it was added to a state with rows, and doesn't include those rows."""
    unqualified: str | None = None
    """Its text without the relations of its columns; None if that is the key it is listed under."""


@dataclass(frozen=True)
class DistinctState:
    """A set of distinct values."""

    part: str = ""
    """Its state table."""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class AggregateState:
    """Keys and aggregates. They are identified by their text over the input rows, which doesn't change with an alias, the
    order or other parts of the query."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Meaning of each group key, by column."""
    grouping_sets: tuple[tuple[str, ...], ...] = ()
    key_order: tuple[str, ...] | None = None
    """Meanings of the group keys in their order, if the query has grouping sets."""
    metrics: Mapping[str, MetricState] = field(default_factory=dict)
    distinct_sets: Mapping[str, DistinctState] = field(default_factory=dict)
    enumerated: tuple[tuple[str, ...], ...] | None = None
    """Columns and values of `enum_distinct`."""
    retracts: bool = False
    """Whether input rows may be retractions."""
    leftovers: tuple[str, ...] = ()
    """Columns with values of removed aggregates, which stay because another window operator uses the columns."""

    @property
    def columns(self) -> set[str]:
        """The columns of all aggregates and distinct values."""
        listed = [metric.columns for metric in self.metrics.values()]
        listed += [values.columns for values in self.distinct_sets.values()]
        return {column for columns in listed for column in columns}


@dataclass(frozen=True)
class TopState:
    """A ranking of a window's rows."""

    function: str = ""
    partition: tuple[str, ...] = ()
    order: str = ""
    rows: int = 0


@dataclass(frozen=True)
class BufferState:
    """The rows of windows, kept until these close."""

    column: str = ""
    """The state column with the rows."""
    top: TopState | None = None
    """The ranking whose rows are kept; None if all rows are."""
    plain: str | None = None
    """Text of the rows without names of relations, if they are computed from one stream."""


@dataclass(frozen=True)
class WindowState:
    """A windowing TVF."""

    kind: str = ""
    time_col: str = ""
    size: int = 0
    step: int = 0
    offset: int = 0
    emit: str = "every_step"
    partition_by: tuple[str, ...] = ()
    time_zone: str | None = None


@dataclass(frozen=True)
class WindowOutput:
    """Results of a window operator that another one reads. State columns in them are named by their meaning."""

    rows: str = ""
    """Text of the rows, with all columns that aren't in `columns`."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Text of each column that can be added and removed without an effect on the others."""


@dataclass(frozen=True)
class WindowOperatorState:
    """One window aggregation of the query, whose state has partial aggregates or buffered rows."""

    name: str = ""
    identity: str = ""
    """Digest of its windows, input rows and keys, without its aggregates."""
    streams: tuple[str, ...] = ()
    source: str = ""
    """Text of the input."""
    source_digest: str | None = None
    """Digest of the input; None if it reads other window operators. The order of conditions doesn't matter."""
    window: WindowState = WindowState()
    aggregates: AggregateState | None = None
    buffer: BufferState | None = None
    below: Mapping[str, WindowOutput] = field(default_factory=dict)
    """Results of other window operators that this one reads, by their names."""


@dataclass(frozen=True)
class GroupState:
    """A group aggregation without windows."""

    operator: str = ""
    aggregates: AggregateState = AggregateState()
    last_output: str | None = None
    """State table with the last emitted row of each group; None if it isn't needed."""


@dataclass(frozen=True)
class TreeState:
    """A tree of operators."""

    operators: Mapping[str, str] = field(default_factory=dict)
    """Label of each operator, by name."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The operators below each operator."""
    root: str = ""
    rankings: Mapping[str, int] = field(default_factory=dict)
    """N of each ranking."""
    append_only_rankings: tuple[str, ...] = ()
    """State tables of rankings over rows that are never retracted."""
    single_by: tuple[str, ...] | None = None
    """If the root is the only stateful operator, what it groups or ranks by, independent of its input; None for other trees.
    """
    can_rebuild: bool = False
    """Whether operators can be rebuilt from the state below them."""
    rebuilds_table: bool = False
    """Whether a rebuild is compared with the whole table, which may have several rows per key."""
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The state tables of each operator."""
    output: str | None = None
    """State table with the output; None if the output is computed from the other state tables."""
    has_ttl: bool = False

    @property
    def all_parts(self) -> set[str]:
        """All state tables of operators."""
        return {part for listed in self.parts.values() for part in listed}

    @property
    def root_name(self) -> str:
        """Name of the root's groups, or of its state table."""
        return next(iter(self.groups or self.parts[self.root]))

    @property
    def output_parts(self) -> set[str]:
        """The state table with the output, if there is one."""
        return set() if self.output is None else {self.output}


@dataclass(frozen=True)
class ResultTimes:
    """Offsets from the end of a window at which its results are emitted, in microseconds."""

    first: int | None = None
    update: int | None = None
    complete: int = 0
    last: int = 0
    at_once: bool = False


@dataclass(frozen=True)
class RowKey:
    """Row key of the table, by which output rows replace existing ones."""

    columns: Mapping[str, str] | None = None
    """Origin of each column of the key; None if nothing identifies a row."""
    scope: tuple[str, ...] = ()
    bound: str | None = None


@dataclass(frozen=True)
class Fingerprints:
    """Lineage of a tree of operators and of its state tables, independent of how the query is written."""

    parts: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    windows: Mapping[str, str] = field(default_factory=dict)
    rows: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    meaning: str = ""


@dataclass(frozen=True)
class Signature:
    """Everything that a state depends on. Plans with equal signatures can share a state."""

    windows: tuple[WindowOperatorState, ...] = ()
    """Window operators, in the order of evaluation."""
    tree: TreeState = TreeState()
    """All other operators, with windows as their inputs; empty if the query consists of windows."""
    results: ResultTimes | None = None
    """When results of windows are emitted and their state is cleared."""
    event_times: Mapping[str, str] = field(default_factory=dict)
    """The event-time column of each stream, where it is known."""
    lookups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the lookup tables, by the views that replace them in the SQL."""
    text: str | None = None
    """A digest of the model's text and of the configs that its state depends on."""
    clauses: tuple[tuple[str, str], ...] | None = None
    """The query's clauses, each a keyword and a text."""
    fingerprints: Fingerprints | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    """Maps names of state tables, groups and window operators in the query to those in the state, if they differ."""
    session: Mapping[str, str] = field(default_factory=dict)
    package: str | None = None
    """Version of this package that wrote the signature. On its own it is not a difference."""
    row_key: RowKey | None = None
    """Row key of the model's table; None if rows are only inserted."""
    columns: tuple[str, ...] | None = None
    """Columns of the query; None if they are unknown."""
    rebuilt_from: tuple[str, ...] | None = None
    """Groups and rankings from which the operators above were last rebuilt. That rebuild may still be pending."""

    @property
    def has_several_operators(self) -> bool:
        """Whether several operators have state, and not only windows."""
        return bool(self.tree.operators) and self.tree.single_by is None

    @property
    def aggregates(self) -> dict[str, AggregateState]:
        """The aggregates of each window operator and group."""
        found = {
            operator.name: operator.aggregates for operator in self.windows if operator.aggregates is not None
        }
        return found | {name: group.aggregates for name, group in self.tree.groups.items()}

    def with_aggregates(self, change: Callable[[str, AggregateState], AggregateState]) -> Signature:
        """Returns the signature with other aggregates.

        Args:
            change: returns the new aggregates of a window operator or group.
        """
        windows = tuple(
            operator
            if operator.aggregates is None
            else replace(operator, aggregates=change(operator.name, operator.aggregates))
            for operator in self.windows
        )
        groups = {
            name: replace(group, aggregates=change(name, group.aggregates))
            for name, group in self.tree.groups.items()
        }
        return replace(self, windows=windows, tree=replace(self.tree, groups=groups))


def to_json(value: Any) -> Any:
    """Returns a signature, or a part of one, as plain JSON. Fields with their default value are left out.

    >>> to_json(DistinctState("part_1", ("v",))), to_json(DistinctState())
    ({'part': 'part_1', 'columns': ['v']}, {})
    """
    if is_dataclass(value) and not isinstance(value, type):
        values = {each.name: (getattr(value, each.name), _default_value(each)) for each in fields(value)}
        return {name: to_json(each) for name, (each, default) in values.items() if each != default}
    if isinstance(value, Mapping):
        return {name: to_json(each) for name, each in value.items()}
    return [to_json(each) for each in value] if isinstance(value, tuple) else value


def from_json(kind: type[_Read], value: Any) -> _Read:
    """Reads what `to_json` wrote of a class.

    Raises:
        ValueError: the JSON isn't of this class.

    >>> from_json(DistinctState, {"columns": ["v"]})
    DistinctState(part='', columns=('v',))
    """
    found: _Read = _value_from_json(kind, value)
    return found


def _default_value(of: Field[Any]) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()


@cache
def _field_types(of: type) -> dict[str, Any]:
    return get_type_hints(of)


def _value_from_json(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (kind,) = (each for each in arguments if each is not types.NoneType)
        return None if value is None else _value_from_json(kind, value)
    if is_dataclass(kind):
        kinds = _field_types(kind)  # type: ignore[arg-type]
        if not isinstance(value, Mapping) or not value.keys() <= kinds.keys():
            raise ValueError(f"{value} is no {kind.__name__}")  # type: ignore[union-attr]
        return kind(**{name: _value_from_json(kinds[name], each) for name, each in value.items()})  # type: ignore[operator]
    if origin is tuple:
        return tuple(_value_from_json(arguments[0], each) for each in value)
    if origin is not None:
        return {name: _value_from_json(arguments[1], each) for name, each in value.items()}
    if not isinstance(value, kind):
        raise ValueError(f"{value} is no {kind.__name__}")
    return value
