"""What is wrong with a model's text, as a sentence for its author."""

from __future__ import annotations

from ..sources.stream_source import as_written


class QueryError(Exception):
    """A query that can't be planned. The message says what was found and what to write instead.

    The adapter puts the model's name in front and raises it as dbt's compilation error.
    """

    def __str__(self) -> str:
        return as_written(super().__str__())


class NotMeant(QueryError):
    """A query that has a meaning, but hardly the one its author has in mind."""


class NotInStages(QueryError):
    """Parts of a query don't go together within stages. As operators they may; what they refuse is the reason then."""


class Unkeyed(QueryError):
    """The key that tells a query's rows apart isn't in its select list."""


class Unbounded(QueryError):
    """The state of a query can grow for ever."""
