"""Classifies SELECTs over a stream: row by row, or grouped."""

from __future__ import annotations

from sqlglot import exp

from ..errors import NotWithinWindows, QueryError
from ..sql.clauses import first_aggregate
from ..sql.dialect import sql
from ..sql.nodes import every
from . import hints
from .streams import is_printed_by_macro


def is_grouped(select: exp.Select) -> bool:
    """Whether a SELECT groups its rows: by GROUP BY, DISTINCT, HAVING, or an aggregate."""
    clauses = ("group", "distinct", "having")
    return any(select.args.get(name) for name in clauses) or first_aggregate(select) is not None


def write_distinct_as_group(select: exp.Select) -> None:
    """Rewrites SELECT DISTINCT as a GROUP BY of all its columns. Changes the tree.

    Raises:
        QueryError: the columns aren't named, or the SELECT also groups.
    """
    if select.is_star:
        raise QueryError(
            f"'{hints.excerpt(select)}': name the columns of a SELECT DISTINCT over a stream, in place of '*'."
        )
    if select.args.get("group") or first_aggregate(select):
        raise QueryError(
            "SELECT DISTINCT with GROUP BY over a stream: put one of the two into a separate query."
        )
    over = next((each for each in every(select, exp.Window) if not is_printed_by_macro(each)), None)
    if over is not None:
        raise NotWithinWindows(
            f"SELECT DISTINCT of '{sql(over)}' over a stream: put one of the two into a separate query."
        )
    select.set("distinct", None)
    select.set("group", exp.Group(expressions=[item.unalias().copy() for item in select.expressions]))
