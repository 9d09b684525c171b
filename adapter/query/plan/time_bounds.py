"""Derives how long rows of a join may still find matches, from conditions that bound their times.

Each relation has columns with event time, each with a delay: rows with a time may arrive that long after the
watermark has reached it. Conditions bound the difference between the times of matching rows. Both together
give the watermark from which on a row finds no new match. (Flink's interval join, also for more than two
relations, and for results of windows, whose bounds are columns with event time.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import product

from sqlglot import exp

from ...util.quoting import quote
from ..frontend import session_zone
from ..normalize.event_clock import interval_micros
from ..program import StateNames
from .operator import Operator, Until
from .state.buffered_rows import BufferedRows
from .state.generations import time_plus_sql
from .time_conditions import at_most_conditions, conditions

_Column = tuple[str, str]
"""Alias of a relation, and a column, both in lower case."""


class TimeBounds:
    """Bounds that a SELECT's joins set on the times of matching rows.

    Args:
        times: `Relation.times` by alias (lower case).
    """

    def __init__(self, select: exp.Select, times: Mapping[str, Mapping[str, int]]) -> None:
        self._times = times
        self._bounds = _transitive_bounds(_bounds_of_conditions(select, times), times)

    def until_for_inner_join(self) -> dict[str, Until] | None:
        """Returns for each alias the watermark until which its rows may find matches; None if it is unknown for
        one of them."""
        found = {}
        for alias in self._times:
            each = [self._last_match(alias, other) for other in self._times if other != alias]
            if not each or None in each:
                return None
            found[alias] = tuple(dict.fromkeys(last for last in each if last is not None))
        return found

    def until_for_outer_join(self, preserved: Collection[str]) -> dict[str, Until] | None:
        """Returns for each alias the watermark until which its rows are stored, for an outer, semi or anti join of two
        relations. A row that decides whether a preserved row has a match is stored as long as the preserved row may
        find another match.

        Args:
            preserved: aliases of the preserved relations, in lower case.
        """
        until = self.until_for_inner_join()
        if until is None or len(until) != 2:
            return None
        found = self._extend_for_preserved_rows(until, until, preserved)
        if found is None or len(preserved) == 1:
            return found
        # With both sides preserved, a row is stored, too, while it decides whether a stored row of the other side was
        # emitted without a match.
        return self._extend_for_preserved_rows(found, found, preserved)

    def _extend_for_preserved_rows(
        self, at_least: Mapping[str, Until], stored_until: Mapping[str, Until], preserved: Collection[str]
    ) -> dict[str, Until] | None:
        """Returns for each alias the watermark until which its rows are stored: at least that in `at_least`, and as long as
        they decide whether a row of the other relation, which is stored until that in `stored_until`, has a match."""
        made = dict(at_least)
        for alias, other in (tuple(stored_until), tuple(stored_until)[::-1]):
            for column, micros in stored_until[other] if other in preserved else ():
                longer = [
                    (bound + micros, own)
                    for own in self._times[alias]
                    if (bound := self._bounds.get(((other, column), (alias, own)))) is not None
                ]
                if not longer:
                    return None
                needed, own = min(longer)
                stored = dict(made[alias])
                made[alias] = tuple({**stored, own: max(needed, stored.get(own, needed))}.items())
        return made

    def _last_match(self, alias: str, other: str) -> tuple[str, int] | None:
        """Returns the watermark until which a row of one relation may match one of another."""
        times = self._times[other]
        ends = [
            (bound + times[time], column)
            for ((later, time), (earlier, column)), bound in self._bounds.items()
            # The watermark says nothing about columns without event time.
            if (later, earlier) == (other, alias) and column in self._times[alias] and time in times
        ]
        if not ends:
            return None
        micros, column = min(ends)
        return column, micros

    def delays(self, until: Mapping[str, Until]) -> dict[_Column, int]:
        """Returns the delay of each column of the join's result (`Relation.delays`): a row may arrive that many
        microseconds after the watermark has reached the time in the column."""
        found = {}
        for alias, ends in until.items():
            for column, delay in self._times[alias].items():
                # A joined row arrives with the last of its input rows.
                bounds = {last: self._bounds.get(((alias, last), (alias, column))) for last, _ in ends}
                bounds[column] = 0
                waits = [bound + micros for last, micros in ends if (bound := bounds[last]) is not None]
                if len(waits) == len(ends):
                    found[alias, column] = max([delay, *waits])
        return found


def delays_of_computed_columns(
    select: exp.Select, delay_of: Callable[[exp.Expr], int | None]
) -> dict[str, int]:
    """Returns `Relation.delays` of the columns that a SELECT computes."""
    made = {
        item.alias.lower(): delay_of(item.this)
        for item in select.expressions
        if isinstance(item, exp.Alias) and not isinstance(item.this, exp.Column)
    }
    return {name: delay for name, delay in made.items() if delay is not None}


def arrival_delay_of(node: exp.Expr, delay_of_column: Callable[[exp.Column], int | None]) -> int | None:
    """Returns the delay of an expression: rows with a value may arrive that many microseconds after the watermark has
    reached the value. None if unknown.

    Args:
        delay_of_column: returns the delay of a column.

    >>> from ..sql.dialect import parse
    >>> item = parse("select coalesce(b.ts, a.ts) - interval 1 minute").expressions[0]
    >>> arrival_delay_of(item, lambda column: {"a": 0, "b": 5}[column.table])
    60000005
    """
    node = node.unnest()
    if isinstance(node, exp.Column):
        return delay_of_column(node)
    if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        # The value is one of them: for an outer join, the one that isn't NULL.
        each = [arrival_delay_of(one, delay_of_column) for one in (node.this, *node.expressions)]
        return None if None in each else max(delay for delay in each if delay is not None)
    if isinstance(node, exp.Add | exp.Sub):
        delay, length = arrival_delay_of(node.this, delay_of_column), interval_micros(node.expression)
        if delay is None or length is None:
            return None
        moved = delay - length if isinstance(node, exp.Add) else delay + length
        return max(0, moved + session_zone.clock_slack_micros(node))
    return None


def buffered_join_side(operator: Operator, names: StateNames, until: Until) -> BufferedRows:
    """Returns the buffered rows of one side of an interval join."""
    lasts = max(1, *(micros + 1 for _, micros in until))
    return BufferedRows(operator, names, 0, busy=storage_end_sql(until), lasts=lasts)


def storage_end_sql(until: Until, row: str = "own") -> str:
    """Returns SQL of the time from which on a row is no longer stored."""
    # A row whose time equals the watermark isn't late.
    ends = [
        time_plus_sql(f"cast({row}.{quote(column)} as timestamp)", micros + 1) for column, micros in until
    ]
    return ends[0] if len(ends) == 1 else f"greatest({', '.join(ends)})"


def _bounds_of_conditions(
    select: exp.Select, aliases: Mapping[str, object]
) -> dict[tuple[_Column, _Column], int]:
    """Returns for each pair of columns the microseconds by which the first may be later than the second, as far as single
    conditions say so."""
    found: dict[tuple[_Column, _Column], int] = {}
    for each in at_most_conditions(conditions(select)):
        one, other = ((column.table.lower(), column.name.lower()) for column in (each.one, each.other))
        if one[0] in aliases and other[0] in aliases:
            micros = each.micros + each.slack
            found[one, other] = min(micros, found.get((one, other), micros))
    return found


def _transitive_bounds(
    bounds: dict[tuple[_Column, _Column], int], times: Mapping[str, Mapping[str, int]]
) -> dict[tuple[_Column, _Column], int]:
    """Adds bounds that follow from several conditions (shortest paths, Floyd and Warshall). Intermediate
    columns are only those with event time: other columns may not compare as times do."""
    columns = sorted({column for pair in bounds for column in pair})
    between = [(alias, column) for alias, column in columns if column in times[alias]]
    for middle, one, other in product(between, columns, columns):
        if one != other and (one, middle) in bounds and (middle, other) in bounds:
            micros = bounds[one, middle] + bounds[middle, other]
            bounds[one, other] = min(micros, bounds.get((one, other), micros))
    return bounds
