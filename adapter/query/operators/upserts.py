"""A result of groups: as its rows replace each other by their key, the groups put them out, and retract nothing.

Elsewhere in a tree an operator says what it takes away, for what stands above it has to. Above the root stands the table,
which finds the rows of a key by itself. So the groups are read once more after the commit of their state, those that the
micro-batch touched; no old row is computed, and what comes out isn't a part of the state.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ..clauses import relations
from ..dialect import parse
from ..program import Upsert
from ..unwindowed.groups import identity_columns
from ..windows import quote
from .base import Dataflow, GroupAggregate, Project, over, row_by_row
from .conditions import outputs
from .relation import WEIGHT


@dataclass(frozen=True)
class ReplacedGroups:
    """Groups whose rows are the result."""

    group: GroupAggregate
    path: tuple[Project, ...]
    """What is done with them row by row, the first step first."""
    columns: tuple[tuple[str, str], ...]
    """The result's columns that tell its rows apart, each with the group's that it is."""

    def output(self, name: str) -> str:
        """The result, from the relation with the groups that were touched."""
        text = f"select *, 1L as {WEIGHT} from {name}"
        for each in self.path:
            text = over(each.sql, [text])
        return f"select * except ({WEIGHT}) from (\n{text}\n)"

    def upsert(self, touched: str) -> Upsert:
        """How it replaces what the table has of the keys in a relation."""
        keys = [quote(own) for _, own in self.columns]
        scope = " and ".join(f"old.{quote(name)} <=> fired.{quote(own)}" for name, own in self.columns)
        listed = ", ".join(keys) or "true as anything"
        return Upsert(
            tuple(name for name, _ in self.columns), f"select {listed} from {touched}", scope or "true", None
        )


def replaced_groups(flow: Dataflow) -> ReplacedGroups | None:
    """The groups that are the result, where nothing else reads them; None: it is something else."""
    path, group = row_by_row(flow.root)
    if not isinstance(group, GroupAggregate) or flow.key is None:
        return None
    uses = [each.name for operator in flow.operators for each in operator.inputs]
    if any(uses.count(name) > 1 for name in (group.name, *(each.name for each in path))) or not all(
        each.relation.repeatable for each in path
    ):
        return None
    of_group = {name.lower(): name for name in identity_columns(group.stage)}
    ids = {*of_group.values()}
    for step in path:
        select = parse(step.sql)
        assert isinstance(select, exp.Select)
        of_group = outputs(select, relations(select)[0].alias_or_name).carry(of_group)
    columns = tuple((name, of_group[name.lower()]) for name in flow.key if name.lower() in of_group)
    if len(columns) < len(flow.key) or {own for _, own in columns} != ids:
        return None
    return ReplacedGroups(group, tuple(path), columns)
