"""The trees of operators of a state and of an edited query, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...query.state_signature import AggregateState, Fingerprints, GroupState, Signature, TreeState
from .match_parts import have_same_meaning


@dataclass(frozen=True)
class Trees:
    """The trees of a state and of an edited query."""

    old: Signature
    new: Signature
    was: TreeState
    now: TreeState
    same_rows: bool
    """Whether the author accepts that the input rows of the aggregates differ."""

    @property
    def groups(self) -> list[str]:
        """Names of the groups that both trees have."""
        return [name for name in self.was.groups if name in self.now.groups]

    @property
    def fingerprints(self) -> tuple[Fingerprints, Fingerprints] | None:
        """The lineage of both trees; None if it isn't known of one of them."""
        was, now = self.old.fingerprints, self.new.fingerprints
        return None if was is None or now is None else (was, now)

    def changed_inputs(self, name: str) -> list[str]:
        """Returns the keys of a group's aggregates with unchanged SQL whose input columns are computed differently."""
        if self.fingerprints is None:
            return []
        had, has = (each.metrics.get(name, {}) for each in self.fingerprints)
        before, after = (tree.groups[name].aggregates.metrics for tree in (self.was, self.now))
        return [each for each in after if each in before and had.get(each) != has.get(each)]

    def changed_values(self, name: str) -> list[str]:
        """Returns the distinct aggregates of `changed_inputs`, in words."""
        metrics = self.now.groups[name].aggregates.metrics
        return [
            f"what {metrics[each].sql} is made of, below the aggregates"
            for each in self.changed_inputs(name)
            if metrics[each].distinct_set is not None
        ]

    def with_distinct_keys(self, name: str) -> AggregateState:
        """Returns the state's aggregates of a group. Those of `changed_inputs` get keys that match no new aggregate."""
        changed, aggregates = self.changed_inputs(name), self.was.groups[name].aggregates
        keys = {key: f"{key} as it was" if key in changed else key for key in aggregates.metrics}
        return replace(aggregates, metrics={keys[key]: each for key, each in aggregates.metrics.items()})

    def groups_of_same_rows(self) -> set[str]:
        """Returns the groups whose input rows are known to be the same, whatever the SQL."""
        if self.same_rows:
            return {*self.now.groups}
        if self.fingerprints is None:
            return set()
        was, now = (each.groups for each in self.fingerprints)
        return {name for name in self.now.groups if name in now and was.get(name) == now[name]}

    def is_reworded(self, name: str) -> bool:
        """Returns whether a new aggregate of a group may be an old one with another text. It restarts, so operators above
        have to be rebuilt: otherwise the values that they have ingested would never be retracted."""
        assert self.fingerprints is not None
        had, has = (each.metrics.get(name, {}) for each in self.fingerprints)
        gone = {means for key, means in had.items() if key not in has}
        come = {means for key, means in has.items() if key not in had}
        return bool(gone & come) or ("" in gone | come and bool(gone and come))

    def has_same_windows(self) -> bool:
        """Returns whether window operators are the same, or of the same names, and none differ only in aggregates."""
        if self.old.windows == self.new.windows:
            return True
        if self.fingerprints is None:
            return False
        was, now = (each.windows for each in self.fingerprints)
        return was == now and len({*now.values()}) == len(now)

    def has_same_group(self, name: str) -> bool:
        """Returns whether the state of a group is unchanged."""
        if name not in self.was.groups:
            return False
        trees = (self.was, self.now)
        was, now = (replace(_without_leftovers(tree.groups[name]), operator="") for tree in trees)
        return was == now and not self.changed_inputs(name)

    def is_same_below(self, operator: str) -> bool:
        """Returns whether the state of all operators below an operator is unchanged."""
        below = operators_below(self.now.inputs, operator)
        names = {group.operator: name for name, group in self.now.groups.items()}
        if self.fingerprints is not None:
            # The name of a group depends on the results of the operators below it.
            had = self.was.all_parts
            return have_same_meaning(*self.fingerprints) and all(
                had.issuperset(self.now.parts.get(each, ()))
                and (each not in names or self.has_same_group(names[each]))
                for each in below
            )
        trees = (self.was, self.now)
        was, now = ({each.operator: _without_leftovers(each) for each in t.groups.values()} for t in trees)
        return all(
            each in self.was.operators
            and self.was.parts.get(each) == self.now.parts.get(each)
            and was.get(each) == now.get(each)
            for each in below
        )

    def is_complete(self, name: str) -> bool:
        """Returns whether the state of a group or ranking is certainly complete. It may not be while a rebuild is pending,
        unless the rebuild starts at or above this operator."""
        if self.old.rebuilt_from is None:
            return True
        inputs = self.was.inputs
        starts = {operator_of(self.was, each) for each in self.old.rebuilt_from} & inputs.keys()
        below = (operators_below(inputs, each) for each in starts)
        return operator_of(self.was, name) in starts.union(*below)

    def rankings(self) -> Iterator[tuple[str, int, int]]:
        """Yields each ranking over append-only rows that both trees have: its state table, its old N and its new N."""
        was, now = _rankings(self.was), _rankings(self.now)
        for part in self.now.append_only_rankings:
            if part in was:
                yield part, self.was.rankings[was[part]], self.now.rankings[now[part]]


def trees_of(old: Signature, new: Signature, same_rows: bool) -> Trees:
    """Returns the trees of a state and of a query."""
    return Trees(old, new, _without_unused_outputs(old.tree, new.tree), new.tree, same_rows)


def operator_of(tree: TreeState, name: str) -> str:
    """Returns the operator of a group, or of the state table of a ranking."""
    return tree.groups[name].operator if name in tree.groups else _rankings(tree).get(name, name)


def operators_below(inputs: Mapping[str, tuple[str, ...]], operator: str) -> set[str]:
    found: set[str] = set()
    todo = [*inputs[operator]]
    while todo:
        each = todo.pop()
        if each not in found:
            found.add(each)
            todo += inputs[each]
    return found


def _rankings(tree: TreeState) -> dict[str, str]:
    """Returns the rankings by their state tables, whose names don't depend on how the query is written."""
    return {part: name for name in tree.rankings for part in tree.parts.get(name, ())}


def _without_unused_outputs(was: TreeState, now: TreeState) -> TreeState:
    """Returns a state's tree without tables of last emitted rows that its groups no longer need."""
    kept = {name for name, group in now.groups.items() if group.last_output is None}
    needless = {group.last_output for name, group in was.groups.items() if name in kept} - {None}
    groups = {
        name: replace(group, last_output=None) if group.last_output in needless else group
        for name, group in was.groups.items()
    }
    parts = {name: tuple(part for part in own if part not in needless) for name, own in was.parts.items()}
    return replace(was, groups=groups, parts=parts) if needless else was


def _without_leftovers(group: GroupState) -> GroupState:
    return replace(group, aggregates=replace(group.aggregates, leftovers=()))
