"""For how long the rows of a join may still find others, where its conditions bound their times.

Of each relation it is known which columns carry event time: for how long after the watermark has passed a time rows
with it may still come. Conditions say how far apart the times of rows that meet may lie. Together they say from
which watermark on a row finds nothing new. (Flink's interval join; with more than two relations, and with
windows' results, whose bounds are such columns.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import product

from sqlglot import exp

from ...util.quoting import quote
from ..errors import QueryError
from ..frontend import session_zone
from ..normalize.event_clock import interval
from .base import Operator, Until
from .operators.buffered_rows import BufferedRows
from .operators.key_generations import later
from .time_conditions import at_most, conditions

_Column = tuple[str, str]
"""The alias of a relation, and a column, in lower case."""


class TimeBounds:
    """What a SELECT's joins say of the times of the rows that meet.

    Args:
        select: the query.
        times: by alias (lower case) what `Relation.times` says.
    """

    def __init__(self, select: exp.Select, times: Mapping[str, Mapping[str, int]]) -> None:
        self._times = times
        self._apart = _closed(_apart(select, times), times)

    def until(self) -> dict[str, Until] | None:
        """By alias until when a row may find others. None: of some relation this can't be told."""
        found = {}
        for alias in self._times:
            each = [self._last(alias, other) for other in self._times if other != alias]
            if not each or None in each:
                return None
            found[alias] = tuple(dict.fromkeys(last for last in each if last is not None))
        return found

    def until_alone(self, preserved: Collection[str]) -> dict[str, Until] | None:
        """The same of an outer, semi or anti join of two relations, which says of the rows of some that they are alone, or
        not: what they met is kept as long as they may meet another.

        Args:
            preserved: the aliases of these, in lower case.
        """
        until = self.until()
        if until is None or len(until) != 2:
            return None
        found = self._until_told(until, until, preserved)
        if found is None or len(preserved) == 1:
            return found
        # Of a late row it is asked whether its partner has come alone: each is told of for as long as the other is kept.
        return self._until_told(found, found, preserved)

    def _until_told(
        self, found: Mapping[str, Until], until: Mapping[str, Until], preserved: Collection[str]
    ) -> dict[str, Until] | None:
        """By alias until when rows are kept that say whether those of the other, which are kept so long, are alone."""
        made = dict(found)
        for alias, other in (tuple(until), tuple(until)[::-1]):
            for column, micros in until[other] if other in preserved else ():
                later = [
                    (apart + micros, own)
                    for own in self._times[alias]
                    if (apart := self._apart.get(((other, column), (alias, own)))) is not None
                ]
                if not later:
                    return None
                more, own = min(later)
                lasts = dict(made[alias])
                made[alias] = tuple({**lasts, own: max(more, lasts.get(own, more))}.items())
        return made

    def _last(self, alias: str, other: str) -> tuple[str, int] | None:
        """Until when a row of one relation may find one of another."""
        ends = [
            (apart + self._times[other][one[1]], column)
            for (one, (of, column)), apart in self._apart.items()
            # A column of the row that is no event time may lie anywhere: the row would be kept as long.
            if of == alias and column in self._times[of] and one[0] == other and one[1] in self._times[other]
        ]
        if not ends:
            return None
        micros, column = min(ends)
        return column, micros

    def delays(self, until: Mapping[str, Until]) -> dict[_Column, int]:
        """By column for how long after the watermark has passed its time rows of the join may still come."""
        found = {}
        for alias, lasts in until.items():
            for column, own in self._times[alias].items():
                # The row comes when the last of those that it meets does.
                waits = [
                    None if (apart := self._between(alias, last, column)) is None else apart + micros
                    for last, micros in lasts
                ]
                if None not in waits:
                    found[alias, column] = max([own, *(each for each in waits if each is not None)])
        return found

    def _between(self, alias: str, one: str, other: str) -> int | None:
        """How much later one column of a relation may be than another."""
        return 0 if one == other else self._apart.get(((alias, one), (alias, other)))


def delay_of(node: exp.Expr, of_column: Callable[[exp.Column], int | None]) -> int | None:
    """For how many microseconds after the watermark has passed a time rows may still come of which that is the value of an
    expression; None: that can't be told.

    >>> from ..sql.dialect import parse
    >>> item = parse("select coalesce(b.ts, a.ts) - interval 1 minute").expressions[0]
    >>> delay_of(item, lambda column: {"a": 0, "b": 5}[column.table])
    60000005

    Args:
        node: the expression.
        of_column: the same of a column.
    """
    node = node.unnest()
    if isinstance(node, exp.Column):
        return of_column(node)
    if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        # It is one of them: of an outer join's times, say, the one that is there.
        each = [delay_of(one, of_column) for one in (node.this, *node.expressions)]
        return None if None in each else max(delay for delay in each if delay is not None)
    if isinstance(node, exp.Add | exp.Sub):
        try:
            delay, length = delay_of(node.this, of_column), interval(node.expression)
        except QueryError:
            return None  # months, whose lengths differ
        if delay is None or length is None:
            return None
        moved = delay - length if isinstance(node, exp.Add) else delay + length
        return max(0, moved + session_zone.slack(node))
    return None


def kept_until(operator: Operator, until: Until) -> BufferedRows:
    """The rows of a side of such a join."""
    lasts = max(1, *(micros + 1 for _, micros in until))
    return BufferedRows(operator, 0, busy=expires(until), lasts=lasts)


def expires(until: Until, row: str = "own") -> str:
    """SQL over a row: when it is kept no longer."""
    # A row that comes with the watermark's own time isn't late.
    ends = [later(f"cast({row}.{quote(column)} as timestamp)", micros + 1) for column, micros in until]
    return ends[0] if len(ends) == 1 else f"greatest({', '.join(ends)})"


def _apart(select: exp.Select, aliases: Mapping[str, object]) -> dict[tuple[_Column, _Column], int]:
    """By two columns how much later the first may be than the second, as single conditions say it."""
    found: dict[tuple[_Column, _Column], int] = {}
    for test in conditions(select):
        try:
            said = at_most([test])
        except QueryError:
            continue  # months, whose lengths differ
        for each in said:
            one, other = ((column.table.lower(), column.name.lower()) for column in (each.one, each.other))
            if one[0] in aliases and other[0] in aliases:
                micros = each.micros + each.slack
                found[one, other] = min(micros, found.get((one, other), micros))
    return found


def _closed(
    apart: dict[tuple[_Column, _Column], int], times: Mapping[str, Mapping[str, int]]
) -> dict[tuple[_Column, _Column], int]:
    """The same with what conditions say one after the other (Floyd and Warshall's shortest paths). Only columns with
    event time stand between: of others it isn't known whether they compare as times do."""
    columns = sorted({column for pair in apart for column in pair})
    between = [(alias, column) for alias, column in columns if column in times[alias]]
    for by, one, other in product(between, columns, columns):
        if one != other and (one, by) in apart and (by, other) in apart:
            micros = apart[one, by] + apart[by, other]
            apart[one, other] = min(micros, apart.get((one, other), micros))
    return apart
