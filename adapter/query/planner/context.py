"""Context of the planner's rules: the query, the known relations, and the operators planned so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ..frontend import hints
from ..frontend.streams import Streams
from ..normalize.names import ctes
from ..normalize.rankings import limits, ranks
from ..plan import unbounded_state, untimed_rows
from ..plan.operator import Operator
from ..sql.names import digest
from ..windows.emission import FINAL, Emission
from .from_items import table_with_alias
from .within_windows import WithinWindows


@dataclass(frozen=True)
class PlannerSettings:
    """Settings of a model's configs that its plan depends on."""

    ttl: int | None = None
    """Microseconds until an idle key of a query without windows expires; None for never."""
    emission: Emission = FINAL
    """When results of windows are emitted."""
    may_grow: bool = False
    """Whether unbounded state is accepted."""


class Planner(ABC):
    """Plans the queries of one tree. Each rule is a function that takes the planner and a node and returns an
    operator."""

    def __init__(
        self,
        tree: exp.Query,
        domains: Collection[str],
        streams: Streams,
        within: WithinWindows,
        settings: PlannerSettings,
    ) -> None:
        self.tree = limits.write_limits_as_ranks(tree, hints.reads_stream_or_operator)
        streams.check_declarations()
        self.streams, self._within = streams.copy(), within
        self.rewrites, self.settings = within.rewrites, settings
        self.ttl, self.emission = settings.ttl, settings.emission
        self.under_windows = 0
        """Number of windows above the visited node that read its rows."""
        self.domains = frozenset(name.lower() for name in domains)
        self.operators: dict[str, Operator] = {}
        self.visited: dict[Hashable, Operator] = {}
        """Operators of visited queries, by all that defines the query."""
        self.ranks: dict[str, None] = {}
        self.dropped: dict[str, tuple[untimed_rows.DroppedRows, ...]] = {}
        """Places where each operator drops rows without an event time, by its name."""
        self._feeding = WithinWindows(self.tree, self.streams, self.rewrites, at_once=True)
        """Queries within windows that feed other windows as their rows arrive."""
        self.reread_ctes = ctes.random_ctes_read_twice(self.tree)
        """Identities of the non-deterministic CTEs that the tree reads more than once."""

    @property
    def feeds_windows(self) -> bool:
        """Whether windows above the visited node take its rows as they arrive, and not when the windows below close."""
        return self.emission.may_update_results and self.under_windows > 0

    @property
    def within(self) -> WithinWindows:
        """Returns the queries that stay within windows."""
        return self._feeding if self.feeds_windows else self._within

    @abstractmethod
    def source(self, table: exp.Table) -> Operator:
        """Returns the operator of a stream."""

    @abstractmethod
    def query(self, node: exp.Query) -> Operator:
        """Returns the operator of a query that is visited for the first time."""

    @abstractmethod
    def select(self, select: exp.Select) -> Operator:
        """Returns the operator of a SELECT."""

    def visit(self, node: exp.Expr) -> Operator | None:
        """Returns the operator of a query or relation, or None if it reads no stream."""
        if (placed := hints.placeholder_of(node)) is not None:
            return self.operators[placed]
        if isinstance(node, exp.Subquery):
            return self.visit(node.this)
        if isinstance(node, exp.Table):
            return self.source(node) if hints.is_stream(node) else None
        if not isinstance(node, exp.Query) or not hints.reads_stream_or_operator(node):
            return None
        visited = (*ranks.query_key(node), self.feeds_windows)
        if visited not in self.visited:
            self.visited[visited] = self.query(node)
        return self.visited[visited]

    def add(self, operator: Operator) -> Operator:
        """Returns an operator, or the equal one that was added before. Two operators of one name are different if other
        columns identify their rows, as for two rankings that differ only in how many of their rows are used."""
        there = self.operators.get(operator.name)
        if there is not None and there.relation.keys != operator.relation.keys:
            keys = sorted(map(sorted, operator.relation.keys))
            operator = replace(operator, name=f"{operator.name}_{digest(*map(str, keys))}")
        return self.operators.setdefault(operator.name, operator)

    def record_dropped_rows(
        self, operator: Operator, select: exp.Select, time: str = "", alias: str = ""
    ) -> Operator:
        """Records that an operator drops rows without an event time, and returns the operator.

        Args:
            select: the SELECT that the operator computes.
            time, alias: see `untimed_rows.DroppedRows`.
        """
        found = (*self.dropped.get(operator.name, ()), *untimed_rows.dropped_rows_of(select, time, alias))
        self.dropped[operator.name] = tuple(dict.fromkeys(found))
        return operator

    def placeholder_for(self, operator: Operator, alias: str) -> exp.Expr:
        """Returns a table that refers to an operator, for a rewritten query that is planned next."""
        table = table_with_alias(operator.name, alias)
        hints.mark_placeholder(table, operator.name)
        return table

    def have_few_values(self, keys: Sequence[exp.Expr], select: exp.Select) -> bool:
        """Whether the sets of values of all keys are bounded, by their expressions or by constant_domains."""
        return all(
            unbounded_state.is_bounded(key, select) or self.is_covered(unbounded_state.key_names(key, select))
            for key in keys
        )

    def is_covered(self, names: tuple[str, ...]) -> bool:
        """Whether constant_domains has a key's alias, or all columns that it is computed from. `names` is the
        result of `unbounded_state.key_names`."""
        alias, *columns = names
        return alias in self.domains or (bool(columns) and self.domains.issuperset(columns))
