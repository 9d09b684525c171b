"""The session's time zone, on whose clock Spark counts days: a day may last 23 or 25 hours there.

``ts + interval '1' day`` is the same time of the next day (and so is ``interval '24' hours``), and a TIMESTAMP_NTZ is of
that clock altogether. So rows whose times are compared that way may lie farther apart than the interval says.
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
"""No clock was put forward or back farther, but where a country changed sides of the date line."""
_SLACK = "zone_slack"
_FIXED = re.compile(r"(UTC|GMT|Z|Etc/.*|UT)?([+-]\d{1,2}(:?\d{2}){0,2})?")


def mark(tree: exp.Expr, ask: QueryRunner) -> None:
    """Notes at each interval that relations are joined by, or a time is moved by, how much longer it may last. Changes the
    tree.

    Args:
        tree: a query.
        ask: asks the session.
    """
    found = [each for each in every(tree, exp.Interval) if _joins(each) or _moves(each)]
    if found and changes(str(ask("select current_timezone()")[0])):
        for each in found:
            each.meta[_SLACK] = _LONGEST_CHANGE


def _joins(interval: exp.Interval) -> bool:
    """Whether it stands in the condition of a join."""
    clause = interval.find_ancestor(exp.Join, exp.Where, exp.Select)
    if isinstance(clause, exp.Where) and isinstance(clause.parent, exp.Select):
        return bool(clause.parent.args.get("joins"))
    return isinstance(clause, exp.Join)


def _moves(interval: exp.Interval) -> bool:
    """Whether a column's time is moved by it in a select list."""
    of = interval.parent
    return (
        isinstance(of, exp.Add | exp.Sub)
        and of.this.find(exp.Column) is not None
        and isinstance(interval.find_ancestor(exp.Join, exp.Where, exp.Having, exp.Select), exp.Select)
    )


def slack(node: exp.Expr) -> int:
    """How much farther away a time may be than its intervals say, in microseconds."""
    return max((each.meta_get(_SLACK, 0) for each in every(node, exp.Interval)), default=0)


@cache
def changes(zone: str) -> bool:
    """Whether a zone's clock is put forward and back, now or since 1970.

    >>> changes("Europe/Berlin"), changes("UTC"), changes("+02:00"), changes("Africa/Lagos")
    (True, False, False, False)
    """
    if _FIXED.fullmatch(zone):
        return False
    return len({instants.offset(month * 30 * DAY, zone) for month in range(68 * 12)}) > 1
