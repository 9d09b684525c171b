"""`Dataflow`: a query as a tree of operators."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..windows.windows import Window
from .operator import Operator, in_order
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
    """A query as a tree of operators; equal subtrees are one operator."""

    root: Operator
    key: tuple[str, ...] | None
    """Columns that identify a row of the result, if the result is an updating table."""
    operators: tuple[Operator, ...] = field(default=())
    """All operators, inputs first."""

    @property
    def windows(self) -> WindowResults | None:
        """Returns the result, if the query consists of windows only; None if there are no windows, or other operators
        above them."""
        return self.root if isinstance(self.root, WindowResults) else None

    @property
    def is_stateless(self) -> bool:
        """Whether rows are only passed through and nothing is stored."""
        if self.windows is not None:
            return not self.windows.specs
        passed = all(isinstance(each, Source | Project | UnionAll) for each in self.operators)
        uses = Counter(each.name for operator in self.operators for each in operator.inputs)
        # Non-deterministic rows with several readers are computed once, so they have to be stored.
        once = all(each.relation.repeatable or uses[each.name] <= 1 for each in self.operators)
        return passed and once and not self.root.relation.changes

    @property
    def groups(self) -> dict[str, GroupAggregate]:
        """Returns each GROUP BY under the name of its state.

        The name depends on the groups only, so that aggregates can be added and removed. Two GROUP BY over the same
        groups are distinguished by their aggregates.
        """
        found = [each for each in self.operators if isinstance(each, GroupAggregate)]
        times = Counter(each.groups for each in found)
        return {each.groups if times[each.groups] == 1 else each.name: each for each in found}

    @property
    def window_operators(self) -> tuple[WindowOperator, ...]:
        """Returns the windows."""
        return tuple(each for each in self.operators if isinstance(each, WindowOperator))

    @property
    def windowed(self) -> tuple[WindowSpec, ...]:
        """Returns the specs of the windows."""
        return tuple(each.spec for each in self.window_operators)

    @property
    def has_windows(self) -> bool:
        """Whether the query has windows."""
        return bool(self.windowed) or any(isinstance(each, WindowRows) for each in self.operators)

    @property
    def grouped(self) -> list[Window]:
        """Returns the windows whose rows are grouped."""
        below = [each.grouped for each in self.operators if isinstance(each, WindowResults)]
        rows = {each.name: each.window for each in self.operators if isinstance(each, WindowRows)}
        groups = [each for each in self.operators if isinstance(each, GroupAggregate)]
        over = [rows[below.name] for each in groups for below in in_order(each) if below.name in rows]
        return [*(window for each in below for window in each), *over]
