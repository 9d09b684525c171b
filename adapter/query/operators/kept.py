"""SQL of the rows of a relation that an operator keeps in the state, each with how often it is there.

A micro-batch adds its change to them. What the relation was before is all of it but that change; what it is
after is all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..continuous.lives import ALIVE, NO_STEP, later
from ..program import EXPIRES_AT, STEP, StatePart
from ..windows import quote
from .base import Operator, Top, digest
from .relation import WEIGHT

ROW, TIMES = "__row", "__times"
"""The columns of kept rows when they are read."""


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
        rows = f"select {self.row} as {ROW}, {self.times} as {TIMES} from state where part = '{self.part}'"
        if self.ttl is None:
            return rows
        until, over = EXPIRES_AT, ""
        if self.keys:
            # A partition is idle as a whole.
            rows = self._with_keys(
                f"select *, {self.row} as {ROW}, {self.times} as {TIMES} from state where part = '{self.part}'"
            )
            until = f"max({EXPIRES_AT}) over (partition by {', '.join(f'__key_{n}' for n in range(len(self.keys)))})"
            rows = f"select *, {until} as __until from (\n{rows}\n)"
            until = "__until"
        else:
            rows = f"select *, {self.row} as {ROW}, {self.times} as {TIMES} from state where part = '{self.part}'"
        return (
            f"select {ROW}, {TIMES} from (\n{rows}\n) cross join clock{over}\n"
            f"where clock.watermark_before is null or {until} is null or {until} > clock.watermark_before"
        )

    def _with_keys(self, rows: str) -> str:
        return (
            f"select {', '.join([f'{EXPIRES_AT}', ROW, TIMES, *(f'{key} as __key_{n}' for n, key in enumerate(self.keys or ()))])}\n"
            f"from (\nselect {ROW}.*, {ROW}, {TIMES}, {EXPIRES_AT} from (\n{rows}\n)\n) as {quote(self.alias)}"
        )

    def state(self) -> StatePart:
        """The part of the state."""
        expires = "" if self.ttl is None else f", {later('clock.watermark_after', self.ttl)} as {EXPIRES_AT}"
        columns = f"clock.{STEP}, {ROW} as {self.row}, {TIMES} as {self.times}{expires}"
        change = self.change()
        append = f"select {columns} from (\n{change}\n) cross join clock"
        initial = append
        if self.top is not None:
            new = f"select *, true as __fresh from (\n{change}\n)"
            both = f"{new}\nunion all\nselect *, false as __fresh from (\n{self.before()}\n)"
            append = f"select {columns} from (\n{self._first(both)}\n) cross join clock where __fresh"
            initial = f"select {columns} from (\n{self._first(new)}\n) cross join clock"
        return StatePart(self.part, append, self._fold(), initial, closes=None, forgets=self.ttl)

    def _first(self, rows: str) -> str:
        """Of rows that only ever come those that can still be among the first."""
        assert self.top is not None
        where = f"\nwhere {self.top.where}" if self.top.where else ""
        placed = (
            f"select {ROW}, {TIMES}, __fresh, {self.top.place} as __place\n"
            f"from (\nselect {ROW}.*, {ROW}, {TIMES}, __fresh from (\n{rows}\n)\n) as {quote(self.alias)}{where}"
        )
        return f"select * from (\n{placed}\n) where __place <= {self.top.rows}"

    def _fold(self) -> str:
        source = f"state where part = '{self.part}'"
        expires = ""
        if self.ttl is not None:
            expires = f", max({EXPIRES_AT}) as {EXPIRES_AT}"
            if not self.keys:
                source = (
                    f"state cross join clock where part = '{self.part}' and ({ALIVE} or {EXPIRES_AT} is null)"
                )
        if self.top is not None:
            kept = f"select {ROW}, {TIMES}, false as __fresh from (\n{self.before()}\n)"
            lasting = (
                "" if self.ttl is None else f", {later('clock.watermark_after', self.ttl)} as {EXPIRES_AT}"
            )
            clock = "" if self.ttl is None else " cross join clock"
            return f"select {NO_STEP}, {ROW} as {self.row}, {TIMES} as {self.times}{lasting} from (\n{self._first(kept)}\n){clock}"
        if not self.operator.relation.changes:
            return f"select {NO_STEP}, {self.row}, {self.times}{', ' + EXPIRES_AT if self.ttl is not None else ''} from {source}"
        return (
            f"select {NO_STEP}, {self.row}, sum({self.times}) as {self.times}{expires} from {source}\n"
            f"group by {self.row} having sum({self.times}) <> 0"
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
