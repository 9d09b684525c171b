"""Names of a state for an edited query: what is of the same rows is called as it was."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...query.program import Program
from .stage_names import stages_called

ALIKE = "alike"
"""The entry of a signature with what the parts of a tree of operators are of (`query.operators.alike`)."""

CALLED = "called"
"""The entry with what parts and groups are called in the state, by what the query calls them."""


KEPT = "kept"
OPERATORS = "operators"
"""What a signature lists of a query in which something stands beside windows."""
"""The entry with what the only operator keeps that has a state."""


def kept_alike(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two trees keep the same, if perhaps of other rows, in one operator each."""
    was, now = old.get(KEPT) or {}, new.get(KEPT) or {}
    return bool(was) and {**was, "name": None} == {**now, "name": None}


def as_kept(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A signature in which what is kept is called as in another."""
    if not kept_alike(old, new):
        return dict(new)
    pattern = rf"\b{re.escape(new[KEPT]['name'])}(?![0-9a-f])"
    found: dict[str, Any] = json.loads(re.sub(pattern, old[KEPT]["name"], json.dumps(new)))
    return found


def names_of(had: Mapping[str, Any], program: Program, same_rows: bool = False) -> dict[str, str]:
    """What parts, groups and stages of a program are called in a state, where that is otherwise.

    Args:
        had: the signature of the state.
        program: the program.
        same_rows: whether the author says that other rows below don't matter.
    """
    if same_rows and kept_alike(had, program.signature):
        new: Any = program.signature[KEPT]
        return {new["name"]: had[KEPT]["name"]} if new["name"] != had[KEPT]["name"] else {}
    stages: Any = program.signature.get("stages", ())
    of_windows = stages_called(had.get("stages", ()), stages, had.get(CALLED, {}))
    if program.alike is None or ALIKE not in had:
        return of_windows
    was: Mapping[str, Any] = had[ALIKE]
    now: Mapping[str, Any] = program.alike()
    found = renamed(was, now)
    stated, own = ({*each["parts"], *each["groups"]} for each in (was, now))
    for name, called in had.get(CALLED, {}).items():
        # By its own name, which says all of it, whatever a later version tells of what it is of.
        if name in own - found.keys() and called in stated - own - {*found.values()}:
            found[name] = called
    return found | of_windows


def same_parts(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether what is called the same in two trees is of the same.

    >>> same_parts({"parts": {"a": "x"}, "groups": {}}, {"parts": {"a": "x", "b": "y"}, "groups": {}})
    True
    >>> same_parts({"parts": {"a": "x"}, "groups": {}}, {"parts": {"a": "y"}, "groups": {}})
    False
    """
    return all(
        was[kind][name] == now[kind][name]
        for kind in ("parts", "groups")
        for name in was[kind].keys() & now[kind].keys()
    )


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
    return found
