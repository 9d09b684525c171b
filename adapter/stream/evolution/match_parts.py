"""Matches the state tables and groups of an edited query with those of a state that have the same rows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...query.program import Program
from .stage_names import stages_called

ALIKE = "alike"
"""Entry of a signature with the meaning of each state table of a tree of operators (`query.operators.alike`)."""

CALLED = "called"
"""Entry with the names of state tables and groups in the state, by their names in the query."""


KEPT = "kept"
"""Entry with the state of the only stateful operator."""
OPERATORS = "operators"
"""Entry with the operators of a query that consists of more than windows."""


def kept_alike(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Returns whether two trees have one stateful operator each, with the same kind of state, maybe of other rows."""
    was, now = old.get(KEPT) or {}, new.get(KEPT) or {}
    return bool(was) and {**was, "name": None} == {**now, "name": None}


def as_kept(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `new` with the state's name in `old`, if `kept_alike`."""
    if not kept_alike(old, new):
        return dict(new)
    pattern = rf"\b{re.escape(new[KEPT]['name'])}(?![0-9a-f])"
    found: dict[str, Any] = json.loads(re.sub(pattern, old[KEPT]["name"], json.dumps(new)))
    return found


def names_of(had: Mapping[str, Any], program: Program, same_rows: bool = False) -> dict[str, str]:
    """Returns the names in a state of a program's state tables, groups and stages, where they differ.

    Args:
        had: signature of the state.
        program: the program.
        same_rows: whether the author accepts that the input rows differ.
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
        # An earlier migration gave it this name. Its name in the query is a digest of its definition, so the match still
        # holds even if this version describes its meaning differently.
        if name in own - found.keys() and called in stated - own - {*found.values()}:
            found[name] = called
    return found | of_windows


def same_parts(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Returns whether state tables and groups of the same name have the same meaning in two trees.

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
    """Returns the names in a state of an edited query's state tables and groups, where they differ.

    Args:
        old: `ALIKE` entry of the state's signature; empty if there is none.
        new: `ALIKE` entry of the edited query.

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
            # A name that both have is already matched.
            is_one = len(names) == 1 and times[means] == 1
            if name not in had and is_one and not any(each.startswith(names[0]) for each in has):
                found[name] = names[0]
    return found
