"""Matches the state tables and groups of an edited query with those of a state that have the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...query.program import Program
from ...query.state_signature import Fingerprints, Signature, TreeState, WindowOperatorState


def have_same_single_operator(was: TreeState, now: TreeState) -> bool:
    """Returns whether two trees have one stateful operator each, with the same kind of state, maybe of other rows."""
    return was.single_by is not None and was.single_by == now.single_by


def program_with_state_names(had: Signature, program: Program, same_rows: bool = False) -> Program:
    """Returns the program, its state tables, groups and window operators renamed to the names that a state has for them."""
    names = names_in_state(had, program, same_rows)
    if not names:
        return program
    assert program.with_names is not None
    return program.with_names(names)


def names_in_state(had: Signature, program: Program, same_rows: bool = False) -> dict[str, str]:
    """Maps the names of a program's state tables, groups and window operators to those in a state, if they differ."""
    was, now = had.tree, program.signature.tree
    if same_rows and have_same_single_operator(was, now):
        return {now.root_name: was.root_name} if now.root_name != was.root_name else {}
    of_windows = matched_windows(had.windows, program.signature.windows)
    if program.fingerprints is None or had.fingerprints is None:
        return of_windows
    fingerprints = program.fingerprints()
    found = unambiguous_names_in_state(had.fingerprints, fingerprints)
    stated, own = ({*each.parts, *each.groups} for each in (had.fingerprints, fingerprints))
    for name, called in had.names.items():
        # An earlier migration gave it this name. Its name in the query is a digest of its definition, so the match still
        # holds where several have the same meaning.
        if name in own - found.keys() and called in stated - own - {*found.values()}:
            found[name] = called
    return found | of_windows


def have_same_meaning(was: Fingerprints, now: Fingerprints) -> bool:
    """Returns whether state tables and groups of the same name have the same meaning in two trees.

    >>> have_same_meaning(Fingerprints({"a": "x"}), Fingerprints({"a": "x", "b": "y"}))
    True
    >>> have_same_meaning(Fingerprints({"a": "x"}), Fingerprints({"a": "y"}))
    False
    """
    return all(
        had[name] == has[name]
        for had, has in ((was.parts, now.parts), (was.groups, now.groups))
        for name in had.keys() & has.keys()
    )


def unambiguous_names_in_state(old: Fingerprints, new: Fingerprints) -> dict[str, str]:
    """Maps the names of an edited query's state tables and groups to those in a state, if they differ.

    >>> was = Fingerprints({"rows_a": "x", "rows_b": "y"})
    >>> unambiguous_names_in_state(was, Fingerprints({"rows_c": "x", "rows_b": "y"}))
    {'rows_c': 'rows_a'}
    >>> unambiguous_names_in_state(was, Fingerprints({"rows_c": "x", "rows_d": "x"}))
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


def matched_windows(had: Sequence[WindowOperatorState], has: Sequence[WindowOperatorState]) -> dict[str, str]:
    """Maps the names of a query's window operators to those in a state, if they differ.

    Args:
        had: window operators of the state's signature, in the order of evaluation.

    >>> from ...query.state_signature import AggregateState, MetricState
    >>> def of(name, identity, *metrics):
    ...     aggregates = AggregateState(metrics=dict.fromkeys(metrics, MetricState()))
    ...     return WindowOperatorState(name, identity, aggregates=aggregates)
    >>> matched_windows([of("window_a", "a"), of("window_b", "b")], [of("window_c", "c"), of("window_a", "a")])
    {'window_c': 'window_b'}
    >>> both = [of("window_a", "a", "n", "s"), of("window_1", "a", "n")]
    >>> matched_windows(both, [of("window_a", "a", "n"), of("window_2", "a", "n", "s")])
    {'window_a': 'window_1', 'window_2': 'window_a'}
    >>> matched_windows([of("window_b", "a")], [of("window_a", "a"), of("window_b", "b")])
    {'window_a': 'window_b', 'window_b': 'window_b_2'}
    """
    by_name = {each.name: each for each in had}
    found: dict[str, str] = {}

    def pair(is_same: Callable[[WindowOperatorState, WindowOperatorState], object]) -> None:
        """Pairs the remaining operators for which `is_same` holds, those with most in common first."""
        while pairs := [
            (each, other)
            for each in has
            for other in had
            if each.name not in found and other.name not in found.values() and is_same(each, other)
        ]:
            each, other = max(
                pairs,
                key=lambda pair: (
                    len(_stored_identities(pair[0]) & _stored_identities(pair[1])),
                    pair[0].name == pair[1].name,
                ),
            )
            found[each.name] = other.name

    def is_same(each: WindowOperatorState, other: WindowOperatorState) -> bool:
        return each.identity == other.identity

    def is_same_reader(each: WindowOperatorState, other: WindowOperatorState) -> bool:
        return is_same(each, other) and {found.get(name) for name in each.below} == {*other.below}

    # Among operators with the same rows, pair those with equal aggregates or rankings first; the others may have added or
    # removed some.
    pair(
        lambda one, other: is_same_reader(one, other) and _stored_identities(one) == _stored_identities(other)
    )
    pair(is_same_reader)
    pair(is_same)
    # Of those whose rows or keys were edited, pair those over the same streams; others are matched by their order.
    pair(lambda one, other: (one.window, one.streams) == (other.window, other.streams))
    left = [name for name in by_name if name not in found.values()]
    found |= zip([each.name for each in has if each.name not in found], left, strict=False)
    for each in has:
        # A new window operator needs a name that the state doesn't have.
        found.setdefault(each.name, f"{each.name}_2" if each.name in by_name else each.name)
    return {each.name: found[each.name] for each in has if each.name != found[each.name]}


def _stored_identities(operator: WindowOperatorState) -> set[object]:
    """Returns the aggregates; or the ranking whose rows are kept, and the same without its N."""
    if operator.buffer is not None:
        top = operator.buffer.top
        return {top, top and replace(top, rows=0)}
    return set() if operator.aggregates is None else {*operator.aggregates.metrics}
