"""Finds the window columns that columns of relations hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..sql.clauses import is_semi_or_anti

Columns = Mapping[str, str]
"""Output column (lower case) → its origin: a window column, or a group key (`plan.identity`)."""


@dataclass(frozen=True)
class FromRelation:
    """A relation in FROM or JOIN."""

    alias: str
    node: exp.Expr
    kind: str
    window_columns: Columns
    join: exp.Join | None = None
    unique: frozenset[str] | None = None
    """Origins that identify a row; None if unknown."""


def window_column(node: exp.Expr, sources: Sequence[FromRelation]) -> str | None:
    """Returns the origin of a column; None if an expression is no column of `sources`, or the column has none."""
    if not isinstance(node, exp.Column):
        return None
    for source in sources:
        if not node.table or node.table.lower() == source.alias.lower():
            if found := source.window_columns.get(node.name.lower()):
                return found
    return None


def in_each_row(joins: Sequence[exp.Join | None]) -> list[bool]:
    """Returns for each relation whether each row of the join has a row of it: an outer join also has rows with NULLs.

    Args:
        joins: the join of each relation. None for the one in FROM.
    """
    sides = ["" if join is None or is_semi_or_anti(join) else (join.side or "").upper() for join in joins]
    return [
        side not in ("LEFT", "FULL") and not {"RIGHT", "FULL"} & {*sides[place + 1 :]}
        for place, side in enumerate(sides)
    ]
