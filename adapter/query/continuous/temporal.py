"""A predicate that rows leave again as time goes by: ``ts > current_timestamp() - interval '1' day``.

In a stream the time is that of its watermark, so that a replay gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from .. import intervals
from ..dialect import sql


@dataclass(frozen=True)
class Bound:
    """A condition, and for how long it holds for a row."""

    select: exp.Select
    condition: exp.Expr
    lasts: int
    """Microseconds of event time, from the row's."""

    def remove(self) -> None:
        """Takes the condition out of its WHERE."""
        where = self.select.args["where"]
        rest = [test for test in _tests(where.this) if test is not self.condition]
        self.select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)


def bound(select: exp.Select, is_time: Callable[[exp.Column], bool]) -> Bound | None:
    """The condition of a SELECT's WHERE that its rows leave again; None if there is none."""
    where = select.args.get("where")
    for test in _tests(where.this) if where else ():
        node = test.unnest()
        if not isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE):
            continue
        time, since = node.this, node.expression
        greater = isinstance(node, exp.GT | exp.GTE)
        if not isinstance(time, exp.Column):
            time, since, greater = since, time, not greater
        if not greater or not isinstance(time, exp.Column) or not is_time(time):
            continue
        length = _before_now(since.unnest())
        if length is not None:
            # At `ts = now - length` a row is still in for >= and out for >.
            return Bound(select, test, length + isinstance(node, exp.GTE | exp.LTE))
    return None


def _tests(node: exp.Expr) -> list[exp.Expr]:
    return list(node.flatten()) if isinstance(node, exp.And) else [node]


def _before_now(node: exp.Expr) -> int | None:
    if not isinstance(node, exp.Sub) or not isinstance(node.expression, exp.Interval):
        return None
    now = node.this.unnest()
    called = now.name.lower() if isinstance(now, exp.Anonymous) else ""
    if not isinstance(now, exp.CurrentTimestamp) and called not in ("now", "current_timestamp"):
        return None
    return interval(node.expression)


def interval(node: exp.Interval) -> int:
    """Microseconds of an INTERVAL.

    Raises:
        QueryError: it has no fixed length.
    """
    unit = node.args.get("unit")
    text = f"{node.this.name} {unit.name}" if unit is not None and node.this is not None else sql(node)
    return intervals.parse(text, f"'{sql(node)}':")
