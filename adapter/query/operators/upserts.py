"""An operator that is the result: its rows replace each other by their key, so it puts them out, and retracts nothing.

Elsewhere in a tree an operator says what it takes away, for what stands above it has to. Above the root stands the table,
which finds the rows of a group or of a ranking by itself. So these are read once more after the commit of their state, those
that the micro-batch touched; no old row is computed, and what comes out isn't a part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from ..clauses import relations
from ..dialect import parse
from ..program import Upsert
from ..windows import quote
from .base import Dataflow, GroupAggregate, Operator, Project, TopN, over, row_by_row
from .conditions import outputs
from .group_state import identity_columns
from .relation import WEIGHT


@dataclass(frozen=True)
class Replaced:
    """What is the result."""

    operator: GroupAggregate | TopN
    path: tuple[Project, ...]
    """What is done with it row by row, the first step first."""
    key: tuple[str, ...] | None
    """The columns that tell the result's rows apart; None: rows are put out once, and stay."""
    scope: tuple[str, ...]
    """Those that say which group, or which ranking, a row is of."""

    def output(self, rows: str) -> str:
        """The result, from the rows of what was touched, each with a weight."""
        text = f"select * from {rows}"
        if self.key is None:
            text = f"select * except ({WEIGHT}) from {rows}"
        for each in self.path:
            text = over(each.sql, [text])
        return text if self.key is None else f"select * except ({WEIGHT}) from (\n{text}\n)"

    def upsert(self, touched: str, columns: tuple[str, ...]) -> Upsert | None:
        """How it replaces what the table has of what was touched.

        Args:
            touched: a relation.
            columns: of that, in the order of `scope`.
        """
        if self.key is None:
            return None
        scope = " and ".join(
            f"old.{quote(name)} <=> fired.{own}" for name, own in zip(self.scope, columns, strict=True)
        )
        listed = ", ".join(columns) or "true as anything"
        own = dict(zip(self.scope, columns, strict=True)) if isinstance(self.operator, GroupAggregate) else {}
        carried = {name: own[name].strip("`") for name in self.key if name in own}
        return Upsert(self.key, f"select {listed} from {touched}", scope or "true", None, carried=carried)


def replaced(flow: Dataflow) -> Replaced | None:
    """The operator that is the result, where nothing else reads it; None: it is one that can't put it out so."""
    path, below = row_by_row(flow.root)
    if not isinstance(below, GroupAggregate | TopN):
        return None
    uses = [each.name for operator in flow.operators for each in operator.inputs]
    if any(uses.count(each) > 1 for each in (below.name, *(step.name for step in path))):
        return None
    if not all(each.relation.repeatable for each in path):
        return None
    if isinstance(below, TopN) and below.final:
        return Replaced(below, tuple(path), None, ())
    told = _told(below)
    if told is None or flow.key is None:
        return None
    own = _carried(told, path)
    shown = {what: name for name, what in reversed(list(own.items()))}
    if not shown.keys() >= {*told.values()}:
        return None
    if isinstance(below, GroupAggregate) and {*flow.key} != {*shown.values()}:
        return None  # of two columns with one key either may be the one
    return Replaced(below, tuple(path), flow.key, tuple(shown[each] for each in _in_order(below)))


def kept_root(flow: Dataflow) -> Operator:
    """The topmost operator that the state depends on: what an operator that is the result puts out is made after it."""
    found = replaced(flow)
    return flow.root if found is None else found.operator


def _told(operator: Operator) -> Mapping[str, str] | None:
    """By column of an operator, in lower case, what it says of which group or ranking a row is; None: they don't all say
    so."""
    if isinstance(operator, GroupAggregate):
        return {name.lower(): name for name in identity_columns(operator.stage)}
    assert isinstance(operator, TopN)
    if None in operator.shown:
        return None
    return {str(name): f"{n}" for n, name in enumerate(operator.shown)}


def _in_order(operator: GroupAggregate | TopN) -> tuple[str, ...]:
    if isinstance(operator, GroupAggregate):
        return identity_columns(operator.stage)
    return tuple(f"{n}" for n in range(len(operator.shown)))


def _carried(columns: Mapping[str, str], path: list[Project]) -> dict[str, str]:
    found = dict(columns)
    for step in path:
        select = parse(step.sql)
        assert isinstance(select, exp.Select)
        found = outputs(select, relations(select)[0].alias_or_name).carry(found)
    return found
