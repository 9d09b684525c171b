"""Applies a rewrite to the SELECTs of a query that it fits, innermost first."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ..errors import QueryError
from ..normalize.rankings import qualify
from ..sql.names import Names
from ..sql.nodes import every

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
    for select in reversed(list(every(tree, exp.Select))):
        if not fits(select):
            continue
        try:
            made = rewrite(select, names)
        except QueryError as problem:
            problems.append(problem)
            continue
        done = True
        if select is tree:
            tree = made
        else:
            select.replace(made)
    if not done:
        raise problems[-1] if problems else QueryError(otherwise)
    return tree
