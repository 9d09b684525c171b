"""Formats counts and lists of names for messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def counted(number: int, what: str, many: str | None = None) -> str:
    """Returns a number and its noun, in the singular for one.

    >>> counted(1, "row"), counted(1200, "row"), counted(0, "micro-batch", "micro-batches")
    ('1 row', '1,200 rows', '0 micro-batches')
    """
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"


def verb_form(number: int, one: str, many: str) -> str:
    """Returns the form of a verb that goes with a number.

    >>> verb_form(1, "is", "are"), verb_form(0, "is", "are")
    ('is', 'are')
    """
    return one if number == 1 else many


def listed(names: Sequence[str]) -> str:
    """Joins names with commas and "and".

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name: the known name that is most similar, or just a full stop.

    >>> did_you_mean("formt", ["format", "path"]), did_you_mean("x", ["format"])
    ("; did you mean 'format'?", '.')
    """
    like = get_close_matches(str(name).lower(), {each.lower(): each for each in known}, n=1, cutoff=0.7)
    return f"; did you mean '{like[0]}'?" if like else "."
