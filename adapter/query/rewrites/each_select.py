"""Applies a rewrite to the SELECTs of a query that it fits, innermost first."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ..errors import QueryError
from ..normalize.rankings import qualify
from ..sql.names import Names
from ..sql.nodes import every, replace_each

Rewrite = Callable[[exp.Select, Names], exp.Select]


def rewrite_each(
    tree: exp.Query, fits: Callable[[exp.Select], bool], rewrite: Rewrite, otherwise: str
) -> exp.Query:
    """Returns the query with each SELECT that fits rewritten. Changes the tree.

    Args:
        fits: returns whether the rewrite applies to a SELECT.
        rewrite: returns a new SELECT for one that fits, without changing it.
        otherwise: message for a query in which no SELECT fits.

    Raises:
        QueryError: no SELECT fits, or none that fits can be rewritten.
    """
    tree = qualify.without_qualify(tree)
    names = Names(node.this for node in every(tree, exp.Identifier))
    problems: list[QueryError] = []
    done = False

    def rewritten(select: exp.Select) -> exp.Query | None:
        nonlocal done
        try:
            made = rewrite(select, names) if fits(select) else None
        except QueryError as problem:
            problems.append(problem)
            return None
        done = done or made is not None
        return made if made is None or not _follows_operator(select) else exp.Subquery(this=made)

    tree = replace_each(tree, exp.Select, rewritten)
    if not done:
        raise problems[-1] if problems else QueryError(otherwise)
    return tree


def _follows_operator(select: exp.Select) -> bool:
    """Whether a SELECT is behind UNION or the like, where a query that begins with WITH needs brackets."""
    node: exp.Expr = select
    while isinstance(node.parent, exp.SetOperation):
        if node.arg_key == "expression":
            return True
        node = node.parent
    return False
