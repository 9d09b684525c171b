"""Finds the SELECT whose rows are the result, so that its output can be emitted from its state."""

from __future__ import annotations

from sqlglot import exp

from ..frontend import hints
from ..frontend.select_kind import is_grouped
from ..normalize import conditions
from ..sql.clauses import over_clauses, relations

_RESULT = "rows_of_result"


def mark_result(query: exp.Query) -> None:
    """Marks the SELECT that `result_select` finds as the result. Changes the tree."""
    if (select := result_select(query)) is not None:
        select.meta[_RESULT] = True


def unmark_result(select: exp.Select) -> bool:
    """Removes the mark from a SELECT; returns whether it had one. Changes the tree."""
    return bool(select.meta.pop(_RESULT, False))


def is_result(select: exp.Select) -> bool:
    """Whether a SELECT is marked as the result."""
    return bool(select.meta.get(_RESULT))


def result_select(query: exp.Expr) -> exp.Select | None:
    """Returns the ranking or grouping SELECT whose rows are, row by row, the result; None if there is none."""
    while isinstance(query, exp.Select):
        if is_grouped(query) or over_clauses(query):
            return query
        nodes = [node for node in relations(query) if hints.reads_stream(node)]
        # A subquery over a stream changes the result without changes of these rows.
        is_plain = len(nodes) == 1 and not conditions.inner_queries(query)
        if not is_plain or not isinstance(nodes[0], exp.Subquery):
            return None
        query = nodes[0].this
    return None
