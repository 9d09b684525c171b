"""Limits the size of the plans that Spark optimizes at once.

A cached step is computed with the first step that reads it, and is part of that step's plan, once per
reference. The sizes of operators above each other multiply: two GROUP BYs, a join and a GROUP BY gave plans
of 34,000 lines. So a step above a certain size is computed by a separate job (`Step.materialize`), and its
readers start from its rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from ..program import Lookup, Step

MOST = 24
"""Maximum number of relations in a plan, each counted once per reference. A separate job takes some 50
milliseconds, so smaller steps are left to their readers."""

_WORD = re.compile(r"\w+")


def with_bounded_plans(steps: Iterable[Step | Lookup], early: Collection[str] = ()) -> list[Step | Lookup]:
    """Returns the steps, with those materialized whose plans would be too large.

    Args:
        steps: in order; a step reads only earlier ones.
        early: names of steps that separate jobs compute anyway.
    """
    sizes: dict[str, int] = {}
    found: list[Step | Lookup] = []
    for step in steps:
        if isinstance(step, Lookup):
            found.append(step)
            continue
        size = max(_size(text, sizes) for text in (step.sql, step.initial or ""))
        if step.persist and size > MOST:
            step = replace(step, materialize=True)
        if step.materialize or step.name in early:
            size = 1
        sizes[step.name] = size
        found.append(step)
    return found


def _size(text: str, sizes: dict[str, int]) -> int:
    """Returns the number of relations in a plan: its leaves, and those of the steps that it reads."""
    return 1 + sum(times * sizes.get(word, 0) for word, times in Counter(_WORD.findall(text)).items())
