"""Lists the state tables that a program writes, and their columns."""

from __future__ import annotations

from collections.abc import Callable

from ..program import Program, StatePart
from ..sql.dialect import parse

Columns = Callable[[str], tuple[str, ...]]
"""Returns the columns of a state table, by its name."""


def columns_of(program: Program) -> Columns:
    """Returns a function for the columns of each state table that a program writes."""
    parts = {part.name: part for part in program.parts}

    def columns(name: str) -> tuple[str, ...]:
        part = parts.get(name)
        return () if part is None else _columns(part)

    return columns


def _columns(part: StatePart) -> tuple[str, ...]:
    """Returns the columns named by the text that compacts a state table; if that has a star, those of the
    text that appends to it."""
    for made in (part.fold, part.append):
        names = tuple(parse(made).named_selects)
        if "*" not in names and "" not in names:
            return names
    return ()
