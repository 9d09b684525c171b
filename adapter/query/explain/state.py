"""The parts of the state that a program writes, and their columns."""

from __future__ import annotations

from collections.abc import Callable

from ..program import Program, StatePart
from ..sql.dialect import parse

Columns = Callable[[str], tuple[str, ...]]
"""The columns of a part, by its name."""


def columns_of(program: Program) -> Columns:
    """The columns of each part that a program writes."""
    parts = {part.name: part for part in program.parts}

    def columns(name: str) -> tuple[str, ...]:
        part = parts.get(name)
        return () if part is None else _columns(part)

    return columns


def _columns(part: StatePart) -> tuple[str, ...]:
    """Its columns, as the text that folds it names them; that of rows nobody folds has a star, and the text that adds
    to it names them."""
    for made in (part.fold, part.append):
        names = tuple(parse(made).named_selects)
        if "*" not in names and "" not in names:
            return names
    return ()
