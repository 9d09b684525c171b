"""What the stages of windows are called in a state: as there, wherever an edited query has them.

A stage is numbered as the planner meets it, so another order of a query's parts gives it another number. What it is tells
which one of a state it is: its windows, of which rows, and by which keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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

    >>> def of(name, stream): return {"name": name, "streams": [stream], "metrics": {"COUNT(*)": {}}}
    >>> stages_called([of("stage_1", "a"), of("stage_2", "b")], [of("stage_1", "b"), of("stage_2", "a")], {})
    {'stage_1': 'stage_2', 'stage_2': 'stage_1'}
    >>> stages_called([of("stage_1", "a")], [of("stage_1", "b"), of("stage_2", "a")], {})
    {'stage_2': 'stage_1', 'stage_1': 'stage_2'}
    >>> stages_called([of("stage_1", "a")], [of("stage_1", "b")], {})
    {}
    """
    was, now = _meanings(had), _meanings(has)
    metrics = {each["name"]: set(each.get("metrics") or ()) for each in had}
    found: dict[str, str] = {}
    left = list(was)
    for each in has:
        alike = [name for name in left if was[name] == now[each["name"]]]
        if alike:
            # Of several that are of the same rows the one that has the same aggregates.
            own = set(each.get("metrics") or ())
            most = max(alike, key=lambda name: (len(own & metrics[name]), name == each["name"]))
            found[each["name"]] = most
            left.remove(most)
    rest = [name for name in now if name not in found]
    for name in rest:
        # What was edited below is told by what it was called.
        for wanted in (called.get(name), name):
            if wanted in left:
                found[name] = wanted
                left.remove(wanted)
                break
    free = _free({*was, *now} - {*found.values()}, {*found.values()})
    for name in rest:
        if name not in found:
            found[name] = next(free)
    return {name: other for name, other in found.items() if name != other}


def _meanings(stages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By name what each stage is of, in which no stage is told by its name."""
    found: dict[str, str] = {}
    for each in stages:
        said = {key: each[key] for key in _MEANS if each.get(key) is not None}
        if "plain" in said:
            said.pop("source", None)  # which has names of its relations
        text = json.dumps(said, sort_keys=True)
        for name, means in found.items():
            text = re.sub(rf"\b{re.escape(name)}(?![0-9])", f"({means})", text)
        found[each["name"]] = text
    return found


def _free(names: set[str], taken: set[str]) -> Iterator[str]:
    """Names that no stage of the state has, those of the query first."""
    yield from sorted(names - taken)
    number = 1
    while True:
        if (name := f"stage_{number}") not in names | taken:
            yield name
        number += 1
