"""`Operator`, the base class of all operators of a plan, and what they have in common.

Operators are frozen dataclasses, each with its inputs, and derive the relation that they return from those of their
inputs. An operator's `name` is a digest of what it computes, so that its state is found again when the text around it
changes. Its SQL reads its inputs as the relations ``__input_0``, ``__input_1`` …
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from sqlglot import exp

from ..normalize import event_clock
from ..program import Lookup, Rows, StateNames, StatePart, Step
from ..sql.clauses import table_names
from ..sql.dialect import sql
from ..windows.emission import Emission
from .author_text import Expressions, lifted_expressions, with_author_expressions
from .explanation import (
    ALL_BOUNDED,
    APPEND,
    AS_ITS_INPUT,
    BOUNDED,
    RETRACT,
    UPSERT,
    WINDOW_END,
    Changelog,
    Context,
    Explanation,
)
from .lineage import Lineage, text_lineage
from .relation import Relation
from .state.group_state import Groups
from .state.window_steps import WindowSteps

Until: TypeAlias = tuple[tuple[str, int], ...]
"""Pairs of a time column and microseconds to add to it. The time that is meant is the greatest of these sums."""


def input_name(number: int) -> str:
    """Returns the name of an input in an operator's SQL.

    >>> input_name(0)
    '__input_0'
    """
    return f"__input_{number}"


def with_inputs(text: str, relations: Sequence[str]) -> str:
    """Returns an operator's SQL with its inputs, which are queries, as CTEs."""
    inputs = ",\n".join(f"{input_name(n)} as (\n{each}\n)" for n, each in enumerate(relations))
    return f"with {inputs}\n{text}"


@dataclass(frozen=True)
class UnboundedState:
    """Describes what an operator's state grows with if nothing bounds it."""

    what: str
    """Name of the stored rows, to be used in a sentence: "a row for every value of k"."""
    columns: frozenset[str] | None
    """Columns that bound the state if the set of values of each doesn't grow; None if no columns do."""
    instead: str = ""
    """A sentence on what may be missing in the query."""
    or_else: str = ""
    """An alternative bound, to be used at the end of a sentence."""
    expires: bool = True
    """Whether a TTL bounds it."""


@dataclass(frozen=True, kw_only=True)
class Operator(ABC):
    """An operator of a plan."""

    shown_as: ClassVar[tuple[str, ...]] = ()
    """Names under which `explain` prints the operator; empty if it is the class's name."""

    name: str
    inputs: tuple[Operator, ...] = ()
    label: str
    """Description of the operator, for display."""
    growth: UnboundedState | None = None
    """The rows that its state grows with; None if the state is bounded or there is none."""

    @cached_property
    def relation(self) -> Relation:
        """The relation that it returns: the properties of the edge above it."""
        return self.relation_over([each.relation for each in self.inputs])

    @abstractmethod
    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the properties of its rows.

        Args:
            below: properties of each input's rows.
        """

    @property
    def is_global(self) -> bool:
        """Whether all rows are in a single group or ranking, which is never idle."""
        return False

    @property
    def has_rows_without_input(self) -> bool:
        """Whether it may return rows for empty inputs."""
        return False

    @property
    def depends_on_watermark(self) -> bool:
        """Whether its output depends on the watermark, even without a TTL."""
        return True

    @property
    def tables_read(self) -> frozenset[str]:
        """Names of the tables and views that its query reads."""
        return frozenset()

    @property
    def filters_on_arrival(self) -> bool:
        """Whether it filters rows by the watermark before the micro-batch."""
        return False

    @property
    def lookup_query(self) -> exp.Query | None:
        """Query of the operator that may join external tables, whose rows are looked up by key; None if it has none."""
        return None

    @property
    def inputs_compared_with_watermark(self) -> tuple[Operator, ...]:
        """Returns the inputs whose rows are compared with the watermark before they are read."""
        return ()

    def rows_never_expire(self, below: Sequence[bool]) -> bool:
        """Whether the rows that it returns never expire: they stay until they are retracted.

        Args:
            below: whether the rows of each input never expire.
        """
        return self.is_global or (bool(below) and all(below))

    def expires_after(self, ttl: int | None) -> int | None:
        """Returns how many microseconds after the last change, or the window's end, its state expires; None for never.

        Args:
            ttl: the model's TTL in microseconds; None if it has none.
        """
        return None if state_never_expires(self) else ttl

    @abstractmethod
    def lineage(self, below: Sequence[Lineage]) -> Lineage | None:
        """Returns the lineage of its rows; None if its SQL isn't understood."""

    @abstractmethod
    def generate(self, wiring: Wiring) -> None:
        """Adds the operator's steps and its state to a program."""

    @abstractmethod
    def explain(self, context: Context) -> Explanation | None:
        """Returns what `explain` prints of it; None if it passes rows on without computing anything."""

    @property
    def expressions(self) -> Expressions:
        """Maps each column with a generated name to the author's expression that it holds."""
        return self.inputs[0].expressions if len(self.inputs) == 1 else {}

    def query_as_written(self, query: exp.Select) -> exp.Select:
        """Returns a query over its first input, with the author's expressions in place of generated columns."""
        return with_author_expressions(query, self.inputs[0].expressions if self.inputs else {})

    def explanation(
        self,
        context: Context,
        description: str,
        name: str = "",
        key: tuple[str, ...] | None = None,
        **more: Any,
    ) -> Explanation:
        """Returns an explanation with the properties of the edge above the operator.

        Args:
            description: what it computes.
            name: one of `shown_as`; empty for the class's name.
            key: columns that identify a row, as the author wrote them; None for the relation's key.
            more: other fields of the explanation.
        """
        relation = self.relation
        if key is None:
            # A rewritten LIMIT has a generated rank.
            named = [each for each in relation.keys if not any(name.startswith("__") for name in each)]
            found_key = replace(relation, keys=tuple(named)).key
            key = None if found_key is None else tuple(sorted(found_key))
        changelog = Changelog(RETRACT if relation.changes else APPEND)
        if context.upserts is not None:
            changelog = Changelog(UPSERT, key or context.upserts)
        time = None
        if relation.open_until is not None:
            time = f"{relation.open_until}, of windows that may be open"
        elif relation.complete_by:
            time = f"{', '.join(relation.complete_by)}, final when its rows come"
        found = {"changelog": changelog, "event_time": time, **more}
        return Explanation(name or type(self).__name__, description, identity=self.name, key=key, **found)

    def ttl_phrase(self, context: Context, last: str) -> str | None:
        """Returns the TTL of its state as a phrase, counted from `last`; None if the state doesn't expire."""
        return None if state_never_expires(self) else context.ttl_after(last)

    def clearing_phrase(self, context: Context, last: str = "the last change") -> str:
        """Returns what clears its state, as a phrase.

        Args:
            last: the event from which a TTL counts.
        """
        if state_never_expires(self):
            return AS_ITS_INPUT
        return self.ttl_phrase(context, last) or (BOUNDED if len(self.inputs) == 1 else ALL_BOUNDED)


@dataclass(frozen=True, kw_only=True)
class PrintedOperator(Operator):
    """An operator whose SQL is printed from a tree."""

    @property
    @abstractmethod
    def tree(self) -> exp.Query:
        """The tree. Callers must not change it."""

    @cached_property
    def sql(self) -> str:
        """The text of the tree."""
        return sql(self.tree)

    @property
    def tables_read(self) -> frozenset[str]:
        """Names of the tables and views in the tree."""
        return table_names(self.tree)

    @cached_property
    def filters_on_arrival(self) -> bool:
        """Whether the tree filters rows by the watermark before the micro-batch."""
        return event_clock.filters_on_arrival(self.tree)


@dataclass(frozen=True, kw_only=True)
class QueryOperator(PrintedOperator):
    """An operator whose relation follows from its query and from its inputs."""

    query: exp.Select
    """The query over its inputs, with the hidden columns that the operator's SQL has."""

    @property
    def tree(self) -> exp.Select:
        return self.query

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        return text_lineage(type(self).__name__, self.tree, below)

    @property
    def expressions(self) -> Expressions:
        """Maps each column with a generated name to the author's expression that the query computes."""
        return lifted_expressions(self.query_as_written(self.query))


@dataclass(frozen=True, kw_only=True)
class ExpiringOperator(Operator):
    """An operator whose state may expire with windows."""

    ends: tuple[str, ...] = ()
    """Per input, the column with the end of the window with which its rows expire; empty if they don't expire
    with windows."""

    @property
    def until(self) -> tuple[Until, ...]:
        """Per input, the watermark until which a row may find matches. Empty if unknown."""
        return ()

    @property
    def depends_on_watermark(self) -> bool:
        """Whether its state expires with windows, or by event time."""
        return bool(self.ends or self.until)

    def expires_after(self, ttl: int | None) -> int | None:
        """Returns 0 if its state expires with windows: at their end."""
        return 0 if self.ends else super().expires_after(ttl)

    def ttl_phrase(self, context: Context, last: str) -> str | None:
        """Returns the TTL as a phrase. If only some inputs' rows expire, stored rows of the others are cleared when they are
        retracted."""
        after = super().ttl_phrase(context, last)
        return (
            f"{after}, rows that never expire below it when they are retracted"
            if after and mixes_lifetimes(self.inputs)
            else after
        )

    def clearing_phrase(self, context: Context, last: str = "the last change") -> str:
        """Returns what clears its state, as a phrase: windows, if it expires with them."""
        return WINDOW_END if self.ends else super().clearing_phrase(context, last)


@dataclass(frozen=True)
class ResultSteps:
    """Steps after the commit that compute the output of the operator that is the result."""

    steps: list[Step]
    rows: str
    """Relation with the new rows of the result, each with a weight."""
    touched: str
    """Relation with the keys of the affected groups or rankings."""
    columns: tuple[str, ...]
    """Columns of `touched`."""


class Wiring(ABC):
    """A program under construction: what operators add to it, and what they know about their place in the tree."""

    ttl: int | None
    """Microseconds until idle state expires; None for never."""
    emission: Emission
    """When results of windows are emitted."""
    replayed: frozenset[str]
    """Names of the groups and rankings that are read from the state as if they were new."""
    names: StateNames
    state_names: Mapping[str, str]
    """Name of a GROUP BY operator → name of its groups in the state."""
    result: Operator | None
    """The operator that is the result, so that its output is computed from the state after the commit; None if the
    result is computed before it."""
    result_steps: ResultSteps | None
    """Steps that compute the output of `result` after the commit; None until `result` has added them."""
    rows: list[Rows]
    """Rows of streams that are compared with the watermark."""
    steps: list[Step | Lookup]
    """Steps before the commit, in order, with the look-ups that they read."""
    window_steps: list[WindowSteps]
    """Steps of windows, which run before those of all other operators."""
    parts: dict[str, StatePart]
    """The state tables, by name."""
    parts_of: dict[str, set[str]]
    """Name of an operator → the state tables that it has or shares."""
    looks_into: dict[str, set[str]]
    """Name of an operator → the state tables of others that it reads."""
    groups: dict[str, Groups]
    """State and steps of each GROUP BY, by the operator's name."""

    @abstractmethod
    def add_output_step(
        self, operator: Operator, text: str, initial: str | None = None, lookups: tuple[Lookup, ...] = ()
    ) -> None:
        """Adds the step with an operator's output, under the operator's name.

        Args:
            text: SQL of its rows, or of their changes.
            initial: the SQL for an empty state; None if it is the same.
            lookups: look-ups that the SQL reads.
        """

    @abstractmethod
    def add_state_table(self, part: StatePart, owner: object) -> None:
        """Adds a state table.

        Args:
            part: the table; operators that store the same rows share it.
            owner: the operator, or the `BufferedRows`, that it belongs to.
        """

    def name_in_state(self, name: str) -> str:
        """Returns the name of a state table in the state.

        Args:
            name: the one that it has in a new state.
        """
        return self.names.get(name, name)

    @abstractmethod
    def lookups(self, operator: Operator, inputs: Sequence[str] = ()) -> tuple[Lookup, ...]:
        """Returns the look-ups in external tables that an operator's SQL reads.

        Args:
            inputs: SQL of the rows that its query is over.
        """

    @abstractmethod
    def is_only_ranked(self, operator: Operator) -> bool:
        """Whether the only reader of the operator is one ranking, which reads it once."""

    @abstractmethod
    def is_only_reader(self, operator: Operator) -> bool:
        """Whether a single step of the operator is the only reader of a stream's rows."""

    @abstractmethod
    def retracts(self, operator: Operator) -> bool:
        """Whether a GROUP BY has to retract its old rows for its readers."""

    @abstractmethod
    def time_column(self, operator: Operator) -> str | None:
        """Returns the input's column with the time that an operator's TTL counts from, or at which its rows are final. None
        if that time is the watermark after the micro-batch, as for all operators but the result, and the groups that the
        result ranks."""


def inputs_first(root: Operator) -> Iterator[Operator]:
    """Yields an operator and all operators below it, inputs first, each once."""
    seen: set[str] = set()

    def walk(node: Operator) -> Iterator[Operator]:
        if node.name in seen:
            return
        seen.add(node.name)
        for each in node.inputs:
            yield from walk(each)
        yield node

    yield from walk(root)


def rows_never_expire(operator: Operator) -> bool:
    """Whether the rows that an operator returns never expire: they stay until they are retracted."""
    found: dict[str, bool] = {}
    for each in inputs_first(operator):
        found[each.name] = each.rows_never_expire([found[other.name] for other in each.inputs])
    return found[operator.name]


def state_never_expires(operator: Operator) -> bool:
    """Whether an operator's state never expires: either its input rows don't, or it is a single global group,
    which is never idle."""
    return operator.is_global or all(map(rows_never_expire, operator.inputs or (operator,)))


def mixes_lifetimes(inputs: Sequence[Operator]) -> bool:
    """Whether some inputs' rows never expire, and other inputs' rows expire under a TTL."""
    return len({rows_never_expire(each) for each in inputs}) > 1


def ttl_of_stored_rows(operator: Operator, ttl: int | None) -> int | None:
    """Returns the microseconds until stored rows of an operator expire; None for never. Rows of a changelog or an
    upsert source don't expire: they are retracted when they are deleted, so they are bounded."""
    return None if rows_never_expire(operator) else ttl
