"""SQL of the rows of a relation that an operator keeps in the state, each with how often it is there.

A micro-batch adds its change to them. What the relation was before is all of it but that change; what it is
after is all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..continuous.lives import NO_STEP, later
from ..program import EXPIRES_AT, STEP, StatePart
from ..windows import quote
from .base import Operator, Top, digest
from .relation import WEIGHT

ROW, TIMES = "__row", "__times"
"""The columns of kept rows when they are read."""
_UNTIL = "__until"


@dataclass(frozen=True)
class KeptRows:
    """The rows of an operator's result.

    Args:
        operator: whose.
        keys: what they are partitioned by, over `alias`: with a TTL a partition expires as a whole. None: row by row.
        alias: what the keys call the relation.
        ttl: microseconds of event time after which idle rows expire; None: never.
        top: the only rows that are needed; None: all.
    """

    operator: Operator
    keys: tuple[str, ...] | None
    alias: str
    ttl: int | None
    top: Top | None = None

    @property
    def part(self) -> str:
        """The part of the state."""
        own = [] if self.ttl is None or self.keys is None else [*self.keys]
        ranked = [] if self.top is None else [self.top.place, str(self.top.rows), str(self.top.where)]
        return f"rows_{digest(self.operator.name, *own, '/', *ranked)}"

    @property
    def row(self) -> str:
        """Its column with a row."""
        return quote(f"{self.part}_row")

    @property
    def times(self) -> str:
        """Its column with how often a row is there."""
        return quote(f"{self.part}_times")

    def change(self) -> str:
        """The rows of the micro-batch's change, packed."""
        return packed(self.operator)

    def before(self) -> str:
        """All rows before the micro-batch, a row as often as it changed."""
        return f"select {ROW}, {TIMES} from (\n{self._alive('watermark_before')}\n)"

    def _alive(self, watermark: str) -> str:
        """The rows that have not expired at a watermark; a partition is idle, and expires, as a whole."""
        columns = f"{self.row} as {ROW}, {self.times} as {TIMES}"
        source = f"from state where part = '{self.part}'"
        if self.ttl is None:
            return f"select {columns} {source}"
        rows = f"select {columns}, {EXPIRES_AT} as {_UNTIL} {source}"
        if self.keys:
            keys = [f"{key} as __key_{n}" for n, key in enumerate(self.keys)]
            names = ", ".join(f"__key_{n}" for n in range(len(self.keys)))
            rows = (
                f"select {ROW}, {TIMES}, max({_UNTIL}) over (partition by {names}) as {_UNTIL} from (\n"
                f"select {', '.join([ROW, TIMES, _UNTIL, *keys])}\n"
                f"from (\nselect {ROW}.*, {ROW}, {TIMES}, {_UNTIL} from (\n{rows}\n)\n) as {quote(self.alias)}\n)"
            )
        lives = f"clock.{watermark} is null or {_UNTIL} is null or {_UNTIL} > clock.{watermark}"
        return f"select {ROW}, {TIMES}, {_UNTIL} from (\n{rows}\n) cross join clock where {lives}"

    def state(self) -> StatePart:
        """The part of the state."""
        expires = "" if self.ttl is None else f", {later('clock.watermark_after', self.ttl)} as {EXPIRES_AT}"
        columns = f"clock.{STEP}, {ROW} as {self.row}, {TIMES} as {self.times}{expires}"
        change = self.change()
        append = initial = f"select {columns} from (\n{change}\n) cross join clock"
        if self.top is not None:
            new = f"select *, true as __fresh from (\n{change}\n)"
            both = f"{new}\nunion all\nselect *, false as __fresh from (\n{self.before()}\n)"
            append = (
                f"select {columns} from (\n{self._first(both, '__fresh')}\n) cross join clock where __fresh"
            )
            initial = f"select {columns} from (\n{self._first(new, '__fresh')}\n) cross join clock"
        return StatePart(self.part, append, self._fold(), initial, closes=None, forgets=self.ttl)

    def _first(self, rows: str, also: str) -> str:
        """Of rows that only ever come those that can still be among the first."""
        assert self.top is not None
        where = f"\nwhere {self.top.where}" if self.top.where else ""
        listed = ", ".join(filter(None, [ROW, TIMES, also]))
        placed = (
            f"select {listed}, {self.top.place} as __place\n"
            f"from (\nselect {ROW}.*, {listed} from (\n{rows}\n)\n) as {quote(self.alias)}{where}"
        )
        return f"select * from (\n{placed}\n) where __place <= {self.top.rows}"

    def _fold(self) -> str:
        until = "" if self.ttl is None else _UNTIL
        rows = self._alive("watermark_after")
        times, by = TIMES, ""
        if self.top is not None:
            rows = self._first(rows, until)
        elif self.operator.relation.changes:
            times, by = f"sum({TIMES})", f"\ngroup by {ROW} having sum({TIMES}) <> 0"
            until = until and f"max({_UNTIL})"
        expires = f", {until} as {EXPIRES_AT}" if until else ""
        return (
            f"select {NO_STEP}, {ROW} as {self.row}, {times} as {self.times}{expires} from (\n{rows}\n){by}"
        )


def packed(operator: Operator) -> str:
    """The change of an operator's result, a row in a column."""
    if operator.relation.changes:
        return f"select struct(* except ({WEIGHT})) as {ROW}, {WEIGHT} as {TIMES} from {operator.name}"
    return f"select struct(*) as {ROW}, 1L as {TIMES} from {operator.name}"


def added_up(rows: str, changes: bool) -> str:
    """Rows with how often each is there in all; without retractions they are there as they are."""
    if not changes:
        return rows
    return f"select {ROW}, sum({TIMES}) as {TIMES} from (\n{rows}\n) group by {ROW} having sum({TIMES}) > 0"


def spread(rows: str, changes: bool) -> str:
    """Rows as a query reads them: each as often as it is there."""
    if not changes:
        return f"select {ROW}.* from (\n{rows}\n)"
    return f"select {ROW}.* from (\n{rows}\n) lateral view explode(sequence(1L, {TIMES})) each as __each"


def touching(rows: str, keys: Sequence[str], alias: str, touched: str) -> str:
    """The kept rows of the partitions in `touched`."""
    if not keys:
        return rows
    same = " and ".join(f"own.__key_{n} <=> touched.__key_{n}" for n in range(len(keys)))
    listed = ", ".join([ROW, TIMES, *(f"{key} as __key_{n}" for n, key in enumerate(keys))])
    keyed = f"select {listed}\nfrom (\nselect {ROW}.*, {ROW}, {TIMES} from (\n{rows}\n)\n) as {quote(alias)}"
    return f"select own.{ROW}, own.{TIMES} from (\n{keyed}\n) as own left semi join {touched} as touched on {same}"
