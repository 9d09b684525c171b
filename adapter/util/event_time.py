"""Filters on event time as dbt writes them: a column between two times in UTC.

One text fits columns of type TIMESTAMP, TIMESTAMP_NTZ and DATE, because Spark casts the bound to the column's type.
Values of the latter two types count as UTC, as in dbt.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import NamedTuple

_JUST_BEFORE = timedelta(microseconds=1)


class Bound(NamedTuple):
    """One side of a range: a comparison operator and the text of the time."""

    comparison: str
    text: str


def bounds(start: datetime | None, end: datetime | None) -> list[Bound]:
    """Returns the bounds of the range from `start` (inclusive) to `end` (exclusive). Either may be None.

    A cast to DATE drops the hours. So a bound that isn't at midnight is written as the last microsecond before it.

    >>> [each.comparison + each.text for each in bounds(datetime(2024, 3, 4), datetime(2024, 3, 4, 5))]
    ['>=2024-03-04 00:00:00+00:00', '<=2024-03-04 04:59:59.999999+00:00']
    """
    sides = ((start, ">=", ">"), (end, "<", "<="))
    return [_bound(moment, *comparisons) for moment, *comparisons in sides if moment is not None]


def condition(column: str, start: datetime | None, end: datetime | None) -> str:
    """Returns a SQL condition that a column is in a range of time.

    >>> condition("ts", datetime(2024, 3, 4), datetime(2024, 3, 5, tzinfo=timezone.utc))
    "ts >= '2024-03-04 00:00:00+00:00' and ts < '2024-03-05 00:00:00+00:00'"
    """
    return " and ".join(f"{column} {each.comparison} '{each.text}'" for each in bounds(start, end))


def _bound(moment: datetime, at_midnight: str, else_just_before: str) -> Bound:
    """Returns a bound. A time without a zone is in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    moment = moment.astimezone(timezone.utc)
    if moment == moment.replace(hour=0, minute=0, second=0, microsecond=0):
        return Bound(at_midnight, str(moment))
    return Bound(else_just_before, str(moment - _JUST_BEFORE))
