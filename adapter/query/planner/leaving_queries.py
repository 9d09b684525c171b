"""Queries that leave their windows: those that can't be evaluated on the rows of the windows that have just closed.

A query around one that leaves its windows leaves them, too. So each reason is found once, by the first attempt to plan
a query within windows, and no query that has it in it is attempted again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from sqlglot import exp

from ..errors import QueryError, UnintendedQueryError
from ..rewrites.stream_rewrites import Rewrites
from ..sql.nodes import every, shape

_Planned = TypeVar("_Planned")

_PLACE = "leaving_query"
"""Metadata of a query that leaves its windows: its place among them."""


class LeavingQueries:
    """Queries of one text that leave their windows, each with the reason."""

    def __init__(self, rewrites: Rewrites) -> None:
        """`rewrites`: those that the text requests. Their outcomes are kept only of plans that are made."""
        self.rewrites = rewrites
        self._reasons: list[tuple[Hashable, QueryError]] = []
        """The shape of each such query, and the reason."""

    def add(self, query: exp.Query, reason: QueryError) -> None:
        """Adds the innermost query that leaves its windows. Marks it, also in copies of the tree that are made later."""
        query.meta[_PLACE] = len(self._reasons)
        self._reasons.append((shape(query), reason))

    def plan_unless_left(self, query: exp.Query, plan: Callable[[], _Planned]) -> _Planned | QueryError:
        """Returns the plan of a query that stays within windows, or else the reason why it leaves them: then its
        windows are planned one by one, and operators above them compute the rest.

        Args:
            query: the query.
            plan: plans it within windows; raises `QueryError` if it leaves them.

        Raises:
            UnintendedQueryError: however it is planned, the query hardly does what its author intended.
        """
        if (known := self._reason_in(query)) is not None:
            return known
        try:
            with self.rewrites.attempt():
                return plan()
        except UnintendedQueryError:
            raise
        except QueryError as reason:
            return reason

    def _reason_in(self, query: exp.Query) -> QueryError | None:
        """Returns the reason why a query, or one in it, is known to leave its windows; None if none is."""
        for each in every(query, exp.Query):
            if (place := each.meta_get(_PLACE)) is not None:
                as_it_was, reason = self._reasons[place]
                # Planning may have moved the clause out of it that is the reason.
                if shape(each) == as_it_was:
                    return reason
        return None
