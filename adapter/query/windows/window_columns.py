"""Finds the window columns that columns of relations hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    """``result`` of windows, ``rows`` of a stream, or ``static`` for a table."""
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


def is_in_each_row(places: Collection[int], joins: Sequence[exp.Join | None]) -> bool:
    """Whether each row of a join has a row of at least one of some relations: an outer join also has rows with NULLs, and
    a semi or anti join has no row of its right side.

    Args:
        places: positions of the relations.
        joins: the join of each relation. None for the one in FROM.

    >>> from ..sql.dialect import parse
    >>> joins = [None, *parse("select 1 from a left join b full join c").args["joins"]]
    >>> [is_in_each_row(places, joins) for places in ({0}, {0, 2}, {1, 2})]
    [False, True, False]
    """
    found = False
    for place, join in enumerate(joins):
        side = "" if join is None else (join.side or "").upper()
        if side == "LEFT" or (join is not None and is_semi_or_anti(join)):
            continue
        own = place in places
        if side == "RIGHT":
            found = own
        else:
            found = (found and own) if side == "FULL" else (found or own)
    return found
