"""Adds hidden columns to a SELECT: the weight of its rows, or the row that they are computed from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from sqlglot import exp

from ..sql.clauses import hide_from_stars
from ..sql.nodes import copied
from .relation import GIVEN_BY, WEIGHT

ROW_TIME = "__row_time"
"""Hidden column with the time of rows that are grouped or ranked, from which their keys expire."""


def with_weight(select: exp.Select, inputs: Sequence[tuple[str, str]]) -> exp.Select:
    """Returns a SELECT that also has the product of its inputs' weights as a column; its stars leave the
    inputs' weights out.

    Args:
        select: SELECT over relations that have weights.
        inputs: alias and weight column of each.
    """
    made = copied(select)
    hide_from_stars(made, inputs)
    factors: list[exp.Expr] = [exp.column(name, table=alias, quoted=True) for alias, name in inputs]
    product = reduce(lambda left, right: exp.Mul(this=left, expression=right), factors)
    made.append("expressions", exp.alias_(product, WEIGHT, quoted=True))
    return made


def with_source_row(select: exp.Select, alias: str) -> exp.Select:
    """Returns a SELECT with the column `GIVEN_BY`, the input row that a row is computed from; its stars leave
    that column out."""
    made = copied(select)
    hide_from_stars(made, [(alias, GIVEN_BY)])
    column = exp.column(GIVEN_BY, table=alias, quoted=True)
    made.append("expressions", exp.alias_(column, GIVEN_BY, quoted=True))
    return made
