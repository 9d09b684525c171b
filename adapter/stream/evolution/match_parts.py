"""Matches the state tables and groups of an edited query with those of a state that have the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...query.program import Program
from ...query.state_signature import Fingerprints, Signature
from .window_names import renamed_windows


def has_same_single(old: Signature, new: Signature) -> bool:
    """Returns whether two trees have one stateful operator each, with the same kind of state, maybe of other rows."""
    return old.single is not None and new.single is not None and old.single.by == new.single.by


def names_of(had: Signature, program: Program, same_rows: bool = False) -> dict[str, str]:
    """Maps the names of a program's state tables, groups and window operators to those in a state, if they differ.

    Args:
        same_rows: whether the author accepts that the input rows differ.
    """
    if same_rows and has_same_single(had, program.signature):
        assert had.single is not None and program.signature.single is not None
        was, now = had.single.name, program.signature.single.name
        return {now: was} if now != was else {}
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
        if name not in had and is_one and not any(each.startswith(names[0]) for each in has):
            found[name] = names[0]
    return found
