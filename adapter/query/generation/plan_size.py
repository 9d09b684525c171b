"""Bounds what Spark has to plan at once.

A step that is kept is computed with the first one that needs it, and stands in that one's plan with all it is made of, as
often as it is read there. Operators above each other multiply: two GROUP BYs, a join and a GROUP BY made plans of 34,000
lines. So a step that has come to a certain size is computed by a job of its own, and what reads it begins with its rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from ..program import Step

MOST = 24
"""Relations in a plan, each counted as often as it is read. A job of its own costs some 50 milliseconds, so what is
small is left to the step that reads it."""

_WORD = re.compile(r"\w+")


def bounded(steps: Iterable[Step], early: Collection[str] = ()) -> list[Step]:
    """Steps of which those are materialized whose plans would be large.

    Args:
        steps: in their order; none is read before it is made.
        early: those that are computed by jobs of their own anyway.
    """
    sizes: dict[str, int] = {}
    found = []
    for step in steps:
        size = max(_size(text, sizes) for text in (step.sql, step.initial or ""))
        if step.persist and size > MOST:
            step = replace(step, materialize=True)
        if step.materialize or step.name in early:
            size = 1
        sizes[step.name] = size
        found.append(step)
    return found


def _size(text: str, sizes: dict[str, int]) -> int:
    """How many relations a plan has: the leaves, and what the steps are made of that it reads."""
    return 1 + sum(times * sizes.get(word, 0) for word, times in Counter(_WORD.findall(text)).items())
