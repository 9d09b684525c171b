"""Ranges of event time as dbt writes them: a column between two moments of UTC.

The same text is right for a TIMESTAMP, which is an instant, for a TIMESTAMP_NTZ and for a DATE, whose clock is taken for
UTC's, as dbt does: Spark reads the bound as what the column is.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import NamedTuple

_JUST_BEFORE = timedelta(microseconds=1)


class Bound(NamedTuple):
    """One side of a range: what compares a column with it, and the text of the moment."""

    comparison: str
    text: str


def bounds(start: datetime | None, end: datetime | None) -> list[Bound]:
    """The bounds of a range from a moment to just before another one.

    As a DATE a bound loses its hours. So one that isn't a midnight is written as the last moment that lies before it.

    >>> [each.comparison + each.text for each in bounds(datetime(2024, 3, 4), datetime(2024, 3, 4, 5))]
    ['>=2024-03-04 00:00:00+00:00', '<=2024-03-04 04:59:59.999999+00:00']
    """
    found = []
    if start is not None:
        found.append(_bound(start, ">=", ">"))
    if end is not None:
        found.append(_bound(end, "<", "<="))
    return found


def condition(column: str, start: datetime | None, end: datetime | None) -> str:
    """SQL for whether a column's time is in a range.

    >>> condition("ts", datetime(2024, 3, 4), datetime(2024, 3, 5, tzinfo=timezone.utc))
    "ts >= '2024-03-04 00:00:00+00:00' and ts < '2024-03-05 00:00:00+00:00'"
    """
    return " and ".join(f"{column} {each.comparison} '{each.text}'" for each in bounds(start, end))


def _bound(moment: datetime, at_midnight: str, else_just_before: str) -> Bound:
    """A bound; moments without a zone are in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    moment = moment.astimezone(timezone.utc)
    if moment == moment.replace(hour=0, minute=0, second=0, microsecond=0):
        return Bound(at_midnight, str(moment))
    return Bound(else_just_before, str(moment - _JUST_BEFORE))
