"""Queries that leave their windows: those that can't be evaluated on the rows of the windows that have just closed.

A query around one that leaves its windows leaves them, too. So each reason is found once, when a query around it is first
planned within windows, and no query that has it in it is planned so again.
"""

from __future__ import annotations

from collections.abc import Hashable

from sqlglot import exp

from ..errors import QueryError
from ..rewrites.stream_rewrites import Rewrites
from ..sql.nodes import every, shape

_PLACE = "leaving_query"
"""Metadata of a query that leaves its windows: its place among them."""


class LeavingQueries:
    """Queries of one text that leave their windows, each with the reason."""

    def __init__(self, rewrites: Rewrites) -> None:
        """`rewrites`: those that the text requests, with the outcomes of the plans that are made."""
        self.rewrites = rewrites
        self._reasons: list[tuple[Hashable, QueryError]] = []
        """The shape of each such query, and the reason."""

    def add(self, query: exp.Query, reason: QueryError) -> None:
        """Adds the innermost query that leaves its windows. Marks it, also in copies of the tree that are made later."""
        query.meta[_PLACE] = len(self._reasons)
        self._reasons.append((shape(query), reason))

    def reason_of(self, query: exp.Query) -> QueryError | None:
        """Returns the reason why a query, or one in it, is known to leave its windows; None if none is."""
        for each in every(query, exp.Query):
            if (place := each.meta_get(_PLACE)) is not None:
                as_it_was, reason = self._reasons[place]
                # Planning may have moved the clause out of it that is the reason.
                if shape(each) == as_it_was:
                    return reason
        return None
