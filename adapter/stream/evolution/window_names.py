"""Matches the window operators of an edited query with those of a state.

The planner numbers window operators in the order in which it reads them, so reordering a query changes the numbers. One
is identified by its window, its input rows and its keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

from ...query.sql.names import windows_renamed
from ...query.state_signature import AggregateState, WindowOperatorState, to_json


def renamed_windows(
    had: Sequence[WindowOperatorState], has: Sequence[WindowOperatorState], called: Mapping[str, str]
) -> dict[str, str]:
    """Maps the names of a query's window operators to those in a state, if they differ.

    Args:
        had: window operators of the state's signature, in the order of evaluation.
        called: the result of an earlier match.

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
        """Pairs the remaining operators for which `is_same` holds, those with the most aggregates in common first."""
        for each in has:
            name, left = each.name, [other for other in by_name if other not in found.values()]
            if name not in found:
                same = [other for other in left if is_same(each, by_name[other])]
                if same:
                    found[name] = max(same, key=lambda other: (_shared(each, by_name[other]), other == name))

    def reads_same(each: WindowOperatorState, other: WindowOperatorState) -> bool:
        return {found.get(name) for name in each.below} == {*(other.below)}

    def is_same(each: WindowOperatorState, other: WindowOperatorState) -> bool:
        return now[each.name] == was[other.name]

    # Among operators with the same rows, pair those with equal aggregates first; the others may have added or removed
    # some.
    pair(
        lambda each, other: (
            is_same(each, other) and _metrics(each) == _metrics(other) and reads_same(each, other)
        )
    )
    pair(lambda each, other: is_same(each, other) and reads_same(each, other))
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


def _shared(one: WindowOperatorState, other: WindowOperatorState) -> int:
    """Returns the number of aggregates that two window operators have in common."""
    return len(_metrics(one) & _metrics(other))


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
