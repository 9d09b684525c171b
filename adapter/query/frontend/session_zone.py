"""The session's time zone, in which Spark counts days: a day may have 23 or 25 hours.

``ts + interval '1' day`` (and ``interval '24' hours``) is the same local time of the next day, and a TIMESTAMP_NTZ is
a local time. So the instants of rows whose times are compared may be further apart than the interval.
"""

from __future__ import annotations

import re
from functools import cache

from sqlglot import exp

from ..sql import instants
from ..sql.functions import QueryRunner
from ..sql.intervals import DAY, HOUR
from ..sql.nodes import every

_LONGEST_CHANGE = 3 * HOUR
"""Upper limit of a clock change; only countries that crossed the date line changed by more."""
_SLACK = "zone_slack"
_FIXED = re.compile(r"(UTC|GMT|Z|Etc/.*|UT)?([+-]\d{1,2}(:?\d{2}){0,2})?")


def mark_clock_slack(tree: exp.Expr, ask: QueryRunner) -> None:
    """Notes how much a clock change may lengthen each interval that joins relations or moves a time. Changes the tree."""
    found = [each for each in every(tree, exp.Interval) if _is_in_join(each) or _moves_time(each)]
    if found and has_clock_changes(str(ask("select current_timezone()")[0])):
        for each in found:
            each.meta[_SLACK] = _LONGEST_CHANGE


def _is_in_join(interval: exp.Interval) -> bool:
    """Whether the interval is in a join condition."""
    clause = interval.find_ancestor(exp.Join, exp.Where, exp.Select)
    if isinstance(clause, exp.Where) and isinstance(clause.parent, exp.Select):
        return bool(clause.parent.args.get("joins"))
    return isinstance(clause, exp.Join)


def _moves_time(interval: exp.Interval) -> bool:
    """Whether the interval is added to a column's time in a select list."""
    of = interval.parent
    return (
        isinstance(of, exp.Add | exp.Sub)
        and of.this.find(exp.Column) is not None
        and isinstance(interval.find_ancestor(exp.Join, exp.Where, exp.Having, exp.Select), exp.Select)
    )


def clock_slack_micros(node: exp.Expr) -> int:
    """Returns the microseconds by which a time may exceed what the intervals in `node` say."""
    return max((each.meta_get(_SLACK, 0) for each in every(node, exp.Interval)), default=0)


@cache
def has_clock_changes(zone: str) -> bool:
    """Whether a zone's clock is changed regularly, or was since 1970.

    >>> [has_clock_changes(zone) for zone in ("Europe/Berlin", "UTC", "+02:00", "Africa/Lagos")]
    [True, False, False, False]
    """
    if _FIXED.fullmatch(zone):
        return False
    return len({instants.offset(month * 30 * DAY, zone) for month in range(68 * 12)}) > 1
