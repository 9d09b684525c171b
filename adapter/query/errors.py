"""Errors in a model's query, as sentences for its author."""

from __future__ import annotations

from ..sources.stream_source import with_declared_names


class QueryError(Exception):
    """Raised for a query that can't be planned. The message says what was found and what to write instead.

    The adapter puts the model's name in front and raises it as dbt's compilation error.
    """

    def __str__(self) -> str:
        return with_declared_names(super().__str__())


class UnintendedQueryError(QueryError):
    """Raised for a query that is valid, but hardly does what its author intended."""


class NotWithinWindows(QueryError):
    """Raised if a query doesn't stay within its windows. It is then planned as a tree of operators, whose
    refusal is the one that is reported."""


class MissingKeyError(QueryError):
    """Raised if the columns that identify a row aren't all in the select list."""


class UnboundedStateError(QueryError):
    """Raised if nothing bounds the state of a query."""


EVENT_TIME_IN_YAML = "its event_time in YAML: config: {event_time: COLUMN}"
"""The end of a sentence that asks for the event time of a relation: give it …"""
