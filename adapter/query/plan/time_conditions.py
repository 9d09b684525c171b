"""Conditions of a join that bound the difference between the times of its rows.

>>> from ..sql.dialect import parse
>>> found = at_most_conditions(conditions(parse("select * from a join b on b.t between a.t and a.t + interval 1 hour")))
>>> [(str(each.one), str(each.other), each.micros) for each in found]
[('a.t', 'b.t', 0), ('b.t', 'a.t', 3600000000)]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..frontend import session_zone
from ..normalize.event_clock import interval_micros
from ..sql.clauses import conjuncts, filters


@dataclass(frozen=True)
class AtMost:
    """A condition: the time in `one` is at most `micros` after that in `other`."""

    one: exp.Column
    other: exp.Column
    micros: int
    """Microseconds; may be negative."""
    slack: int
    """Microseconds to add to `micros` for changes of the clock."""


def conditions(select: exp.Select) -> list[exp.Expr]:
    """Returns the conditions of a SELECT's joins and WHERE."""
    of_joins = [join.args.get("on") for join in select.args.get("joins") or ()]
    return [*(test for condition in of_joins for test in conjuncts(condition)), *filters(select)]


def at_most_conditions(tests: Sequence[exp.Expr]) -> list[AtMost]:
    """Returns the bounds in conditions that compare columns of two relations, with or without intervals."""
    found: list[AtMost] = []
    for test in tests:
        if isinstance(test, exp.Between):
            found += _bounds_of_comparison(test.args["low"], test.this)
            found += _bounds_of_comparison(test.this, test.args["high"])
        elif isinstance(test, exp.LT | exp.LTE):
            found += _bounds_of_comparison(test.this, test.expression)
        elif isinstance(test, exp.GT | exp.GTE):
            found += _bounds_of_comparison(test.expression, test.this)
        elif isinstance(test, exp.EQ):
            found += _bounds_of_comparison(test.this, test.expression)
            found += _bounds_of_comparison(test.expression, test.this)
    return found


def _bounds_of_comparison(earlier: exp.Expr, later: exp.Expr) -> Iterator[AtMost]:
    """Yields the bound in ``earlier <= later``, if the sides are columns of two relations, with or without an added
    interval, or if one is their difference and the other an interval.

    >>> from ..sql.dialect import parse
    >>> (test,) = conditions(parse("select * from a join b on a.t - b.t < interval 5 minutes"))
    >>> [(str(each.one), str(each.other), each.micros) for each in _bounds_of_comparison(test.this, test.expression)]
    [('a.t', 'b.t', 300000000)]
    """
    added = 0
    if isinstance(earlier.unnest(), exp.Sub) and (length := interval_micros(later)) is not None:
        difference = earlier.unnest()
        one, other, added = _moved_column(difference.this), _moved_column(difference.expression), length
    elif isinstance(later.unnest(), exp.Sub) and (length := interval_micros(earlier)) is not None:
        difference = later.unnest()
        one, other, added = _moved_column(difference.expression), _moved_column(difference.this), -length
    else:
        one, other = _moved_column(earlier), _moved_column(later)
    if one is not None and other is not None and one[0].table.lower() != other[0].table.lower():
        slack = max(map(session_zone.clock_slack_micros, (earlier, later)))
        yield AtMost(one[0], other[0], other[1] - one[1] + added, slack)


def _moved_column(node: exp.Expr) -> tuple[exp.Column, int] | None:
    """Returns the column and the microseconds added to it, for an expression such as ``a.ts + interval '5'
    minute``."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return (node, 0) if len(node.parts) == 2 else None
    if isinstance(node, exp.Add | exp.Sub):
        inner, length = _moved_column(node.this), interval_micros(node.expression)
        if inner is None or length is None:
            return None
        return inner[0], inner[1] + (length if isinstance(node, exp.Add) else -length)
    return None
