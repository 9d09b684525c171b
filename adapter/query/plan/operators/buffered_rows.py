"""SQL of the rows of a relation that an operator keeps in the state, each with how often it is there.

A micro-batch adds its change to them. What the relation was before is all of it but that change; what it is
after is all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, StatePart, Step, now
from ...sql.names import digest
from ..base import Operator, Top
from ..relation import WEIGHT
from . import generations
from .key_generations import NO_STEP, SINCE, generations_of, of_keys, same

ROW, TIMES = "__row", "__times"
"""The columns of kept rows when they are read."""


@dataclass(frozen=True)
class Partitions:
    """What an operator's inputs are kept by. With a TTL a partition, of all inputs together, expires as a whole.

    Args:
        owner: the operator.
        size: how many columns a key has; 0: there is one partition.
        ttl: microseconds of event time after which an idle partition expires; None: never.
        held: whether there are rows that keep theirs from it (`BufferedRows.holds`).
    """

    owner: str
    size: int
    ttl: int | None
    held: bool = False

    @property
    def names(self) -> list[str]:
        """The columns of a key."""
        return [f"__key_{n}" for n in range(self.size)]

    @property
    def touched(self) -> str:
        """The relation of the keys that the micro-batch touches."""
        return f"{self.owner}_touched"

    @property
    def generations(self) -> str:
        """The relation of the same with the step in which each one's generation began."""
        return f"{self.owner}_generations"

    def steps(self, touched: str, kept: Sequence[BufferedRows]) -> list[Step]:
        """The touched partitions, and their generations.

        Args:
            touched: SQL of their keys, each once.
            kept: all rows that are kept by them.
        """
        found = [Step(self.touched, touched, persist=True)]
        if self.ttl is not None:
            known = "\nunion all\n".join(each.lives() for each in {each.part: each for each in kept}.values())
            found.append(
                Step(
                    self.generations,
                    generations_of(f"select * from {self.touched}", known, self.names),
                    persist=True,
                    initial=f"select own.*, {now(STEP)} as {SINCE} from {self.touched} as own",
                )
            )
        return found


@dataclass(frozen=True)
class BufferedRows:
    """The rows of an operator's result.

    Args:
        operator: whose.
        ttl: microseconds of event time after which what is idle expires; None: never.
        partitions: what they are kept by; None: nothing, and with a TTL each row expires by itself.
        keys: the partition's columns, over `alias`.
        alias: what the keys call the relation.
        top: the only rows that are needed; None: all.
        busy: as of `Recompute`.
        ends: the column with the end of the window with which a row goes; None: it doesn't go with one.
        lasts: as of `StatePart`.
        alone: whether each row expires by itself, whatever it is kept by.
        stays: whether its rows count until they are taken back, also those of a partition that has expired.
        holds: whether a partition doesn't expire while it has rows of these.
    """

    operator: Operator
    ttl: int | None
    partitions: Partitions | None = None
    keys: tuple[str, ...] = ()
    alias: str = "own"
    top: Top | None = None
    busy: str | None = None
    ends: str | None = None
    lasts: int | None = None
    alone: bool = False
    stays: bool = False
    holds: bool = False

    @property
    def part(self) -> str:
        """The part of the state."""
        own = [] if self._expiring is None else [self._expiring.owner, *self.keys]
        own += [] if self.ends is None else ["until", self.ends]
        if self._expiring is None and self.busy is not None and self.ttl is not None:
            own += ["until", self.busy]
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

    @property
    def _changes(self) -> bool:
        return self.operator.relation.changes

    @property
    def _expiring(self) -> Partitions | None:
        return None if self.ttl is None or self.alone else self.partitions

    def change(self) -> str:
        """The rows of the micro-batch's change, packed."""
        return packed(self.operator)

    def _stored(self) -> str:
        """All rows of the state, with the keys of their partitions."""
        own = [] if self.ttl is None else generations.stored(self._expiring is not None)
        columns = ", ".join([f"{self.row} as {ROW}", f"{self.times} as {TIMES}", *own])
        return self._keyed(
            f"select {columns} from state where part = '{self.part}'", [item.split()[-1] for item in own]
        )

    def _keyed(self, rows: str, also: Sequence[str] = ()) -> str:
        if self.partitions is None or not self.keys:
            return rows
        keys = [f"{key} as {name}" for key, name in zip(self.keys, self.partitions.names, strict=True)]
        own = ", ".join([ROW, TIMES, *also])
        return (
            f"select {own}, {', '.join(keys)}\n"
            f"from (\nselect {ROW}.*, {own} from (\n{rows}\n)\n) as {quote(self.alias)}"
        )

    def touched(self) -> str:
        """The rows of the state of the partitions that the micro-batch touches, of whatever generation."""
        assert self.partitions is not None
        return of_keys(f"(\n{self._stored()}\n)", self.partitions.names, self.partitions.touched)

    def lives(self) -> str:
        """Of the partitions that the micro-batch touches the generations, and until when its rows keep each of them."""
        assert self.partitions is not None
        until = generations.UNTIL
        if self.partitions.held:
            until = f"if({generations.HELD}, {generations.FOR_EVER}, {until})"
        listed = [*self.partitions.names, f"{generations.LIFE} as {SINCE}", f"{until} as {EXPIRES_AT}"]
        return f"select {', '.join(listed)} from (\n{self._held(self.touched())}\n)"

    def _held(self, rows: str) -> str:
        """Rows of the state with `HELD`, where there are such that hold their partitions."""
        if self._expiring is None or not self._expiring.held:
            return rows
        holds = "false"
        if self.holds:
            holds = f"sum({TIMES}) over (partition by {ROW}) > 0" if self._changes else "true"
        return f"select *, {holds} as {generations.HELD} from (\n{rows}\n)"

    def came_now(self) -> str:
        """The keys of the partitions that rows of the state are of which came with the step."""
        assert self.partitions is not None
        columns = f"{self.row} as {ROW}, {self.times} as {TIMES}"
        rows = f"select {columns} from state where part = '{self.part}' and {STEP} = {now(STEP)}"
        listed = ", ".join(self.partitions.names) or "true as anything"
        return f"select distinct {listed} from (\n{self._keyed(rows)}\n)"

    def there(self, touched: str) -> str:
        """The rows of the state as it is, of the partitions that a relation has; each changed as often as it says."""
        assert self.partitions is not None
        names = self.partitions.names
        rows = of_keys(f"(\n{self._stored()}\n)", names, touched)
        if self._expiring is not None:
            by = f"partition by {', '.join(names)}" if names else ""
            last = f"select *, max({generations.LIFE}) over ({by}) as __last from (\n{rows}\n)"
            rows = f"select * except (__last) from (\n{last}\n) where {generations.LIFE} = __last"
            rows = self._there(rows, [ROW]) if self._changes else rows
        return f"select {ROW}, {TIMES} from (\n{rows}\n)"

    def before(self) -> str:
        """The rows before the micro-batch, of the partitions that it touches; each changed as often as it says."""
        if self.partitions is None:
            return self.all_before()
        rows = self.touched() if self._expiring is None or self.stays else self._living()
        if self.alone:
            stored = generations.lasting(self._stored(), None, "watermark_before")
            rows = of_keys(f"(\n{stored}\n)", self.partitions.names, self.partitions.touched)
        return f"select {ROW}, {TIMES} from (\n{rows}\n)"

    def _living(self) -> str:
        """The same of their present generations."""
        assert self._expiring is not None
        on = same("own", "generations", self._expiring.names)
        rows = (
            f"select own.* from (\n{self._stored()}\n) as own\n"
            f"left semi join {self._expiring.generations} as generations\n"
            f"on {on} and own.{generations.LIFE} = generations.{SINCE}"
        )
        return self._there(rows, [ROW]) if self._changes else rows

    @property
    def _key(self) -> list[str] | None:
        """What tells the rows apart that may be replaced without a retraction, nothing where there is one; None: they
        can't be told apart."""
        key = self.operator.relation.key
        if self._expiring is None or self.stays or not self._changes or key is None:
            return None
        return [f"{ROW}.{quote(column)}" for column in sorted(key)]

    def _there(self, rows: str, by: Sequence[str], also_by: Sequence[str] = ()) -> str:
        """How often rows are there that came and went under a TTL."""
        if self._key is not None:
            return generations.newest(rows, by, TIMES, [*also_by, *self._key])
        return generations.counted(rows, by, [TIMES])

    def after(self) -> str:
        """The rows after the micro-batch, of the partitions that it touches."""
        both = f"{self.before()}\nunion all\n{self.change()}"
        if self._key is None:
            return both
        told = "\nunion all\n".join(
            f"select {ROW}, {TIMES}, {n} as {generations.CAME_IN} from (\n{rows}\n)"
            for n, rows in enumerate((self.before(), self.change()))
        )
        return f"select {ROW}, {TIMES} from (\n{self._there(told, [ROW])}\n)"

    def all_before(self) -> str:
        """The rows before the micro-batch of all partitions, those that have expired left out."""
        return f"select {ROW}, {TIMES} from (\n{self._lasting('watermark_before')}\n)"

    def _lasting(self, watermark: str, beside: Sequence[BufferedRows] = ()) -> str:
        rows = self._stored()
        if self.ttl is None:
            return rows
        by = None if self._expiring is None else self._expiring.names
        held = self._expiring is not None and self._expiring.held
        others = [each._held(each._stored()) for each in beside]
        rows = generations.lasting(self._held(rows), by, watermark, others, held)
        if not self._changes:
            return rows
        assert self._expiring is not None
        of_generation = [*self._expiring.names, generations.LIFE]
        return self._there(rows, [ROW, *of_generation, generations.UNTIL], of_generation)

    def state(self, beside: Sequence[BufferedRows] = ()) -> StatePart:
        """The part of the state.

        Args:
            beside: what else is kept by the same partitions.
        """
        items = [f"{now(STEP)} as {STEP}", f"own.{ROW} as {self.row}", f"own.{TIMES} as {self.times}"]
        if self.ttl is not None:
            items.append(generations.until(self.ttl, self._busy))
        tables = "as own"
        if self._expiring is not None:
            items.append(f"generations.{SINCE}")
            on = same("own", "generations", self._expiring.names)
            tables += f" join {self._expiring.generations} as generations on {on}"
        columns, change = ", ".join(items), self.change()
        if self._expiring is not None:
            change = self._keyed(change)
        append = initial = f"select {columns} from (\n{change}\n) {tables}"
        if self.top is not None:
            new = f"select *, true as __fresh from (\n{self.change()}\n)"
            both = f"{new}\nunion all\nselect *, false as __fresh from (\n{self.before()}\n)"
            append, initial = (
                f"select {columns} from (\n{self._keyed(self._first(rows, '__fresh'), ['__fresh'])}\n) {tables} "
                "where own.__fresh"
                for rows in (both, new)
            )
        return StatePart(
            self.part,
            append,
            self._fold(beside),
            initial,
            closes=None,
            lasts=self.lasts,
            forgets=None if self.stays else self.ttl or None,
        )

    @property
    def _busy(self) -> str | None:
        if self.ends is not None:
            return f"own.{ROW}.{quote(self.ends)}"
        return None if self.busy is None else self.busy.replace("own.`", f"own.{ROW}.`")

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

    def _fold(self, beside: Sequence[BufferedRows]) -> str:
        others = [each for each in beside if each.part != self.part]
        times, by = TIMES, ""
        rows = self._stored() if self.stays else self._lasting("watermark_after", others)
        own = {} if self.ttl is None else {generations.UNTIL: EXPIRES_AT}
        if self._expiring is not None:
            own[generations.LIFE] = SINCE
        if self.stays and self._changes:
            # How long their partition isn't idle is said by the last of them.
            own = {f"max({name})": column for name, column in own.items()}
        if self.top is not None:
            rows = self._first(rows, ", ".join(own))
        elif self._changes and (self.ttl is None or self.stays):
            times, by = f"sum({TIMES})", f"\ngroup by {ROW} having sum({TIMES}) <> 0"
        also = "".join(f", {name} as {column}" for name, column in own.items())
        return f"select {NO_STEP}, {ROW} as {self.row}, {times} as {self.times}{also} from (\n{rows}\n){by}"


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


def netted(rows: str) -> str:
    """Changes of rows with how many times more each is there in all, as an operator gives them."""
    summed = (
        f"select {ROW}, sum({TIMES}) as {WEIGHT} from (\n{rows}\n) group by {ROW} having sum({TIMES}) <> 0"
    )
    return f"select {ROW}.*, {WEIGHT} from (\n{summed}\n)"


def spread(rows: str, changes: bool, apart: bool = False) -> str:
    """Rows as a query reads them: each as often as it is there; `apart`: Spark doesn't compute that query's select list
    within a UNION ALL that these are. (Where there is a correlated query in it, its optimizer ends with "key not found".)"""
    if not changes:
        once = " lateral view explode(array(1)) each as __each" if apart else ""
        return f"select {ROW}.* from (\n{rows}\n){once}"
    return f"select {ROW}.* from (\n{rows}\n) lateral view explode(sequence(1L, {TIMES})) each as __each"
