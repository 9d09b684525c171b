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
    tree = qualify.rewrite_qualify(tree)
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
        if made is None:
            return None
        done = True
        # Behind UNION or the like, and before one that has a WITH, the WITH of the steps needs brackets.
        return exp.Subquery(this=made) if isinstance(select.parent, exp.SetOperation) else made

    tree = replace_each(tree, exp.Select, rewritten)
    if not done:
        raise problems[-1] if problems else QueryError(otherwise)
    return tree
