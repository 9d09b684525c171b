"""Names of a state for an edited query: what is of the same rows is called as it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..query.program import Program

ALIKE = "alike"
"""The entry of a signature with what the parts of a tree of operators are of (`query.operators.alike`)."""


def names_of(had: Mapping[str, Any], program: Program) -> dict[str, str]:
    """What parts and groups of a program are called in a state, of which the signature is given, where that is otherwise."""
    if program.alike is None or ALIKE not in had:
        return {}
    return renamed(had[ALIKE], json.loads(json.dumps(program.alike())))


def renamed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """What parts and groups of an edited query are called in a state, where that isn't as the query calls them.

    Args:
        old: what the state's query said of itself, as `alike` tells it; empty: nothing.
        new: what the edited one does.

    >>> was = {"version": 1, "parts": {"rows_a": "x", "rows_b": "y"}, "groups": {}}
    >>> renamed(was, {"version": 1, "parts": {"rows_c": "x", "rows_b": "y"}, "groups": {}})
    {'rows_c': 'rows_a'}
    >>> renamed(was, {"version": 1, "parts": {"rows_c": "x", "rows_d": "x"}, "groups": {}})
    {}
    >>> was = {"version": 1, "parts": {}, "groups": {}, "stages": {"stage_1": "x", "stage_2": "y"}}
    >>> renamed(was, {**was, "numbers": True, "stages": {"stage_1": "y", "stage_2": "x"}})
    {'stage_1': 'stage_2', 'stage_2': 'stage_1'}
    """
    if not old or not new or old.get("version") != new.get("version"):
        return {}
    found = {}
    for kind in ("parts", "groups"):
        had, has = old[kind], new[kind]
        by_meaning: dict[str, list[str]] = {}
        for name, means in had.items():
            by_meaning.setdefault(means, []).append(name)
        times = Counter(has.values())
        for name, means in has.items():
            names = by_meaning.get(means, [])
            # One that both have is the same, whatever else is.
            is_one = len(names) == 1 and times[means] == 1
            if name not in had and is_one and not any(each.startswith(names[0]) for each in has):
                found[name] = names[0]
    stages = [each.get("stages", {}) for each in (old, new)]
    if new.get("numbers") and sorted(stages[0].values()) == sorted({*stages[1].values()}) != []:
        # They are numbered as they are read, and each is of other rows.
        own = {means: name for name, means in stages[0].items()}
        if len(stages[1]) == len(own):
            found |= {name: own[means] for name, means in stages[1].items() if own[means] != name}
    return found
