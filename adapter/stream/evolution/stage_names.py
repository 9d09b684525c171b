"""What the stages of windows are called in a state: as there, wherever an edited query has them.

A stage is numbered as the planner meets it, so another order of a query's parts gives it another number. What it is tells
which one of a state it is: its windows, of which rows, and by which keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from ...query.sql.names import stages_renamed

_MEANS = ("streams", "source", "plain", "window", "keys", "grouping_sets", "enumerated", "top")
"""The entries of a stage that say what it is of, whatever it aggregates."""


def stages_called(
    had: Sequence[Mapping[str, Any]], has: Sequence[Mapping[str, Any]], called: Mapping[str, str]
) -> dict[str, str]:
    """What stages are called in a state, where that is otherwise.

    Args:
        had: the stages of the state's signature, in the order in which they are evaluated.
        has: those of the query's.
        called: by names of the query, what a state called them before that.

    >>> def of(name, stream, *metrics): return {"name": name, "streams": [stream], "metrics": dict.fromkeys(metrics)}
    >>> stages_called([of("stage_1", "a"), of("stage_2", "b")], [of("stage_1", "b"), of("stage_2", "a")], {})
    {'stage_1': 'stage_2', 'stage_2': 'stage_1'}
    >>> stages_called([of("stage_1", "a")], [of("stage_1", "b"), of("stage_2", "a")], {})
    {'stage_1': 'stage_2', 'stage_2': 'stage_1'}
    >>> both = [of("stage_1", "a", "n", "s"), of("stage_2", "a", "n")]
    >>> stages_called(both, [of("stage_1", "a", "n"), of("stage_2", "a", "n", "s")], {})
    {'stage_1': 'stage_2', 'stage_2': 'stage_1'}
    >>> stages_called([of("stage_1", "a")], [of("stage_1", "b")], {})
    {}
    """
    if not had:
        return {}
    was, now = _meanings(had), _meanings(has)
    by_name = {each["name"]: each for each in had}
    found: dict[str, str] = {}

    def pair(is_same: Callable[[Mapping[str, Any], Mapping[str, Any]], object]) -> None:
        """Pairs the stages that are left, where they are the same in some way."""
        for each in has:
            name, left = each["name"], [other for other in by_name if other not in found.values()]
            if name not in found:
                same = [other for other in left if is_same(each, by_name[other])]
                if same:
                    found[name] = max(same, key=lambda other: (_shared(each, by_name[other]), other == name))

    def reads_same(each: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return {found.get(name) for name in each.get("below") or ()} == {*(other.get("below") or ())}

    def is_same(each: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return now[each["name"]] == was[other["name"]]

    # Of several of the same rows those with the same aggregates first: of others some may have come or gone.
    pair(
        lambda each, other: (
            is_same(each, other) and _metrics(each) == _metrics(other) and reads_same(each, other)
        )
    )
    pair(lambda each, other: is_same(each, other) and reads_same(each, other))
    pair(is_same)
    # What was edited below is told by what it was called.
    pair(lambda each, other: called.get(each["name"]) == other["name"])
    pair(lambda each, other: each["name"] == other["name"])
    numbered = (f"stage_{number}" for number in count(1))
    for name in now:
        if name not in found:
            # It is new, and so is its name in the state.
            taken = {*was, *found.values()}
            found[name] = next(each for each in chain([name], now, numbered) if each not in taken)
    return {name: found[name] for name in now if name != found[name]}


def _metrics(stage: Mapping[str, Any]) -> set[str]:
    return set(stage.get("metrics") or ())


def _shared(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """How many aggregates two stages have in common."""
    return len(_metrics(one) & _metrics(other))


def _meanings(stages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By name what each stage is of, in which no stage is told by its name."""
    found: dict[str, str] = {}
    for each in stages:
        said = {key: each[key] for key in _MEANS if each.get(key) is not None}
        if "plain" in said:
            said.pop("source", None)  # which has names of its relations
        text = json.dumps(said, sort_keys=True)
        found[each["name"]] = stages_renamed(text, {name: f"({means})" for name, means in found.items()})
    return found
