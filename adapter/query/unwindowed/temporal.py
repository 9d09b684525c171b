"""A predicate that rows leave again as time goes by: ``ts > current_timestamp() - interval '1' day``.

In a stream the time is that of its watermark, so that a replay gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from ..clauses import conjuncts, filters
from ..event_clock import lower_bound


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
        rest = [test for test in conjuncts(where.this) if test is not self.condition]
        self.select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)


def bound(select: exp.Select, is_time: Callable[[exp.Column], bool]) -> Bound | None:
    """The condition of a SELECT's WHERE that its rows leave again; None if there is none."""
    for test in filters(select):
        found = lower_bound(test)
        if found is not None and is_time(found[0]):
            _, _, length, included = found
            # At `ts = now - length` a row is still in for >= and out for >.
            return Bound(select, test, length + included)
    return None
