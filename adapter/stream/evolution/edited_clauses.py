"""Describes the edit of a query by its removed and added clauses, as the author wrote them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...query.sql.shortening import shorten

_SELECT = "SELECT"
_WHOLE = ("SET", "JOIN")
"""Kinds of clauses whose texts begin with their keywords."""
_MOST, _LONGEST = 4, 120


def edited_clauses(old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> list[str]:
    """Returns the clauses that differ between two queries, in words. Select lists are included only if no other clause
    differs, because names and expressions of a result may be edited at any time. Each clause is a keyword and a text.

    >>> was = [["SELECT", "k"], ["JOIN", "LEFT JOIN b"], ["WHERE", "v > 1"]]
    >>> edited_clauses(was, [["SELECT", "k AS x"], ["WHERE", "v > 2"]])
    ['LEFT JOIN b is gone', 'WHERE v > 2, which was v > 1']
    >>> edited_clauses(was, [["SELECT", "k AS x"], *was[1:]])
    ['k AS x in a select list, which was k']
    >>> edited_clauses(was, was)
    []
    """
    had, has = (Counter((kind, text) for kind, text in each) for each in (old, new))
    gone, come = [*(had - has).elements()], [*(has - had).elements()]
    kinds = [kind for kind in dict.fromkeys(kind for kind, _ in [*gone, *come]) if kind != _SELECT] or [
        _SELECT
    ]
    found = []
    for kind in kinds:
        before, after = ([text for each, text in listed if each == kind] for listed in (gone, come))
        if len(before) == len(after) == 1:
            found.append(f"{_clause_text(kind, after[0])}, which was {_shortened_text(before[0])}")
        else:
            found += [f"{_clause_text(kind, text)} is gone" for text in before]
            found += [f"{_clause_text(kind, text)} is new" for text in after]
    found = list(dict.fromkeys(found))
    if not found and [*map(tuple, old)] != [*map(tuple, new)]:
        found = ["the order of its clauses"]
    rest = len(found) - _MOST
    return found if rest <= 0 else [*found[:_MOST], f"{rest} more"]


def _clause_text(kind: str, text: str) -> str:
    if kind == _SELECT:
        return f"{_shortened_text(text)} in a select list"
    return _shortened_text(text) if kind in _WHOLE else f"{kind} {_shortened_text(text)}"


def _shortened_text(text: str) -> str:
    return shorten(text, _LONGEST)
