"""A SELECT that hands on more than its author asked for: how often its rows are there, or which row gave them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ..sql.dialect import DIALECT, sql
from .base import GIVEN_BY
from .relation import WEIGHT

ROW_TIME, SIGN = "__row_time", "__sign"
"""The hidden columns that rows which are grouped or ranked have: their time where keys expire, and +1 or -1."""


def with_weight(select: exp.Select, inputs: Sequence[tuple[str, str]]) -> exp.Select:
    """A SELECT that also puts out the product of its inputs' weights, and keeps theirs out of its stars.

    Args:
        select: over relations that have weights.
        inputs: the alias of each, and its column with the weight.
    """
    made = select.copy()
    hide_from_stars(made, inputs)
    factors = [sql(exp.column(name, table=alias, quoted=True)) for alias, name in inputs]
    product: exp.Expr = exp.maybe_parse(" * ".join(factors), dialect=DIALECT)
    made.append("expressions", exp.alias_(product, WEIGHT, quoted=True))
    return made


def with_row(select: exp.Select, alias: str) -> exp.Select:
    """A SELECT that also puts out, as `GIVEN_BY`, which row of an input gave each of its rows, and keeps it out of stars."""
    made = select.copy()
    hide_from_stars(made, [(alias, GIVEN_BY)])
    column = exp.column(GIVEN_BY, table=alias, quoted=True)
    made.append("expressions", exp.alias_(column, GIVEN_BY, quoted=True))
    return made


def hide_from_stars(select: exp.Select, columns: Sequence[tuple[str, str]]) -> None:
    """Keeps columns, each with its relation's alias, out of the stars of a SELECT. Changes the tree."""
    for item in list(select.expressions):
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if isinstance(star, exp.Star):
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            hidden = [exp.to_identifier(name) for alias, name in columns if table in ("", alias.lower())]
            star.set("except_", [*(star.args.get("except_") or ()), *hidden])
