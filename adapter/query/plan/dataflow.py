"""`Dataflow`: a query as a tree of operators."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..windows.windows import Window
from .operator import Operator, inputs_first
from .operators.group_aggregate import GroupAggregate
from .operators.project import Project
from .operators.source import Source
from .operators.union_all import UnionAll
from .operators.window_results import WindowResults
from .operators.window_rows import WindowRows
from .state.window_steps import WindowSpec
from .window_operator import WindowOperator


@dataclass(frozen=True)
class Dataflow:
    """A query as a tree of operators, in which equal subtrees are one operator."""

    root: Operator
    key: tuple[str, ...] | None
    """Columns that identify a row of the result, if the result is an updating table."""
    operators: tuple[Operator, ...] = field(default=())
    """All operators, inputs first."""

    @property
    def windows(self) -> WindowResults | None:
        """Returns the root if the query consists of windows only, or works row by row; None otherwise."""
        return self.root if isinstance(self.root, WindowResults) else None

    @property
    def is_stateless(self) -> bool:
        """Whether rows are only passed through and nothing is stored."""
        if self.windows is not None:
            return not self.windows.specs
        passed = all(isinstance(each, Source | Project | UnionAll) for each in self.operators)
        uses = Counter(each.name for operator in self.operators for each in operator.inputs)
        # Non-deterministic rows with several readers must be computed only once, so they are stored.
        once = all(each.relation.repeatable or uses[each.name] <= 1 for each in self.operators)
        return passed and once and not self.root.relation.changes

    @property
    def filters_on_arrival(self) -> bool:
        """Whether rows are filtered by the watermark before the micro-batch."""
        return any(each.filters_on_arrival for each in self.operators)

    @property
    def depends_on_watermark(self) -> bool:
        """Whether the result depends on the watermark, even without a TTL."""
        return self.filters_on_arrival or any(each.depends_on_watermark for each in self.operators)

    @property
    def groups(self) -> dict[str, GroupAggregate]:
        """Returns each GROUP BY under the name of its state.

        The name depends on the groups only, so that aggregates can be added and removed. Two GROUP BY over the same
        groups are distinguished by their aggregates.
        """
        found = [each for each in self.operators if isinstance(each, GroupAggregate)]
        counts = Counter(each.groups for each in found)
        return {each.groups if counts[each.groups] == 1 else each.name: each for each in found}

    @property
    def names(self) -> frozenset[str]:
        """Returns the names of the operators, and of the groups of each GROUP BY."""
        groups = [each.groups for each in self.operators if isinstance(each, GroupAggregate)]
        return frozenset([*(each.name for each in self.operators), *groups])

    @property
    def window_operators(self) -> tuple[WindowOperator, ...]:
        return tuple(each for each in self.operators if isinstance(each, WindowOperator))

    @property
    def window_specs(self) -> tuple[WindowSpec, ...]:
        return tuple(each.spec for each in self.window_operators)

    @property
    def has_windows(self) -> bool:
        """Whether the query has windows."""
        return bool(self.window_specs) or any(isinstance(each, WindowRows) for each in self.operators)

    @property
    def grouped_windows(self) -> list[Window]:
        """Returns the windows whose rows are grouped."""
        within_windows = [each.grouped_windows for each in self.operators if isinstance(each, WindowResults)]
        windows = {each.name: each.window for each in self.operators if isinstance(each, WindowRows)}
        groups = [each for each in self.operators if isinstance(each, GroupAggregate)]
        of_rows = [
            windows[node.name] for each in groups for node in inputs_first(each) if node.name in windows
        ]
        return [*(window for each in within_windows for window in each), *of_rows]
