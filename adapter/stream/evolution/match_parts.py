"""Matches the state tables and groups of an edited query with those of a state that have the same rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

from ...query.program import Program
from ...query.sql.names import windows_renamed
from ...query.state_signature import (
    AggregateState,
    Fingerprints,
    Signature,
    TreeState,
    WindowOperatorState,
    to_json,
)


def have_same_single(was: TreeState, now: TreeState) -> bool:
    """Returns whether two trees have one stateful operator each, with the same kind of state, maybe of other rows."""
    return was.single_by is not None and was.single_by == now.single_by


def with_names_of(had: Signature, program: Program, same_rows: bool = False) -> Program:
    """Returns the program with the names that its state tables, groups and window operators have in a state."""
    names = names_of(had, program, same_rows)
    if not names:
        return program
    assert program.named is not None
    return program.named(names)


def names_of(had: Signature, program: Program, same_rows: bool = False) -> dict[str, str]:
    """Maps the names of a program's state tables, groups and window operators to those in a state, if they differ."""
    was, now = had.tree, program.signature.tree
    if same_rows and have_same_single(was, now):
        return {now.root_name: was.root_name} if now.root_name != was.root_name else {}
    of_windows = renamed_windows(had.stages, program.signature.stages, had.names)
    if program.alike is None or had.fingerprints is None:
        return of_windows
    fingerprints = program.alike()
    found = renamed(had.fingerprints, fingerprints)
    stated, own = ({*each.parts, *each.groups} for each in (had.fingerprints, fingerprints))
    for name, called in had.names.items():
        # An earlier migration gave it this name. Its name in the query is a digest of its definition, so the match still
        # holds where several have the same meaning.
        if name in own - found.keys() and called in stated - own - {*found.values()}:
            found[name] = called
    return found | of_windows


def same_parts(was: Fingerprints, now: Fingerprints) -> bool:
    """Returns whether state tables and groups of the same name have the same meaning in two trees.

    >>> same_parts(Fingerprints({"a": "x"}), Fingerprints({"a": "x", "b": "y"}))
    True
    >>> same_parts(Fingerprints({"a": "x"}), Fingerprints({"a": "y"}))
    False
    """
    return all(
        had[name] == has[name]
        for had, has in ((was.parts, now.parts), (was.groups, now.groups))
        for name in had.keys() & has.keys()
    )


def renamed(old: Fingerprints, new: Fingerprints) -> dict[str, str]:
    """Maps the names of an edited query's state tables and groups to those in a state, if they differ.

    >>> was = Fingerprints({"rows_a": "x", "rows_b": "y"})
    >>> renamed(was, Fingerprints({"rows_c": "x", "rows_b": "y"}))
    {'rows_c': 'rows_a'}
    >>> renamed(was, Fingerprints({"rows_c": "x", "rows_d": "x"}))
    {}
    """
    return _names_of_same_meaning(old.parts, new.parts) | _names_of_same_meaning(old.groups, new.groups)


def _names_of_same_meaning(had: Mapping[str, str], has: Mapping[str, str]) -> dict[str, str]:
    by_meaning: dict[str, list[str]] = {}
    for name, means in had.items():
        by_meaning.setdefault(means, []).append(name)
    times = Counter(has.values())
    found = {}
    for name, means in has.items():
        names = by_meaning.get(means, [])
        # A name that both have is already matched.
        is_one = len(names) == 1 and times[means] == 1
        if name not in had and is_one and names[0] not in has:
            found[name] = names[0]
    return found


def renamed_windows(
    had: Sequence[WindowOperatorState], has: Sequence[WindowOperatorState], called: Mapping[str, str]
) -> dict[str, str]:
    """Maps the names of a query's window operators to those in a state, if they differ.

    The planner numbers window operators in the order in which it reads them, so reordering a query changes the numbers. One
    is identified by its window, its input rows and its keys.

    Args:
        had: window operators of the state's signature, in the order of evaluation.

    >>> from ...query.state_signature import MetricState
    >>> def of(name, stream, *metrics):
    ...     aggregates = AggregateState(metrics=dict.fromkeys(metrics, MetricState()))
    ...     return WindowOperatorState(name, (stream,), aggregates=aggregates)
    >>> renamed_windows([of("stage_1", "a"), of("stage_2", "b")], [of("stage_1", "b"), of("stage_2", "a")], {})
    {'stage_1': 'stage_2', 'stage_2': 'stage_1'}
    >>> renamed_windows([of("stage_1", "a")], [of("stage_1", "b"), of("stage_2", "a")], {})
    {'stage_1': 'stage_2', 'stage_2': 'stage_1'}
    >>> both = [of("stage_1", "a", "n", "s"), of("stage_2", "a", "n")]
    >>> renamed_windows(both, [of("stage_1", "a", "n"), of("stage_2", "a", "n", "s")], {})
    {'stage_1': 'stage_2', 'stage_2': 'stage_1'}
    >>> renamed_windows([of("stage_1", "a")], [of("stage_1", "b")], {})
    {}
    """
    if not had:
        return {}
    was, now = _meanings(had), _meanings(has)
    by_name = {each.name: each for each in had}
    found: dict[str, str] = {}

    def pair(is_same: Callable[[WindowOperatorState, WindowOperatorState], object]) -> None:
        """Pairs each remaining operator with the one, for which `is_same` holds, that has most aggregates in common."""
        for each in has:
            name, left = each.name, [other for other in by_name if other not in found.values()]
            if name not in found:
                same = [other for other in left if is_same(each, by_name[other])]
                if same:
                    shared = {other: len(_metrics(each) & _metrics(by_name[other])) for other in same}
                    found[name] = max(same, key=lambda other: (shared[other], other == name))

    def is_same(each: WindowOperatorState, other: WindowOperatorState) -> bool:
        return now[each.name] == was[other.name]

    def is_same_reader(each: WindowOperatorState, other: WindowOperatorState) -> bool:
        return is_same(each, other) and {found.get(name) for name in each.below} == {*other.below}

    # Among operators with the same rows, pair those with equal aggregates first; the others may have added or removed
    # some.
    pair(lambda one, other: is_same_reader(one, other) and _metrics(one) == _metrics(other))
    pair(is_same_reader)
    pair(is_same)
    # Window operators whose input was edited are matched by their names.
    pair(lambda each, other: called.get(each.name) == other.name)
    pair(lambda each, other: each.name == other.name)
    numbered = (f"stage_{number}" for number in count(1))
    for name in now:
        if name not in found:
            # A new window operator needs a name that the state doesn't have.
            taken = {*was, *found.values()}
            found[name] = next(each for each in chain([name], now, numbered) if each not in taken)
    return {name: found[name] for name in now if name != found[name]}


def _metrics(operator: WindowOperatorState) -> set[str]:
    return set() if operator.aggregates is None else {*operator.aggregates.metrics}


def _meanings(stages: Sequence[WindowOperatorState]) -> dict[str, str]:
    """Returns the meaning of each window operator by its name. Names of others in it are replaced by their meanings."""
    found: dict[str, str] = {}
    for each in stages:
        text = json.dumps(to_json(_meaning(each)), sort_keys=True)
        found[each.name] = windows_renamed(text, {name: f"({means})" for name, means in found.items()})
    return found


def _meaning(operator: WindowOperatorState) -> WindowOperatorState:
    """Returns what identifies a window operator: its window, its input rows and its keys, without its aggregates."""
    aggregates, buffer = operator.aggregates, operator.buffer
    is_plain = buffer is not None and buffer.plain is not None
    return WindowOperatorState(
        streams=operator.streams,
        source="" if is_plain else operator.source,  # contains names of relations
        window=operator.window,
        aggregates=None
        if aggregates is None
        else AggregateState(aggregates.keys, aggregates.grouping_sets, enumerated=aggregates.enumerated),
        buffer=None if buffer is None else replace(buffer, column=""),
    )
