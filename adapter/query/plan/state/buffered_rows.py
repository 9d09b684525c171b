"""SQL of input rows that an operator stores, each with its multiplicity.

A micro-batch appends the change of the input. The rows stored before are the input before the micro-batch; together with the
change they are the input after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, StateNames, StatePart, Step, clock_sql
from ...sql.dialect import sql
from ...sql.names import digest
from ..operator import Operator
from ..relation import WEIGHT
from . import generations
from .generations import NO_STEP, SINCE, equal_keys_condition, generations_of_keys, rows_of_keys

ROW, TIMES = "__row", "__times"
"""Columns of stored rows when they are read."""


@dataclass(frozen=True)
class Partitions:
    """Partitions by which an operator's inputs are stored. Under a TTL a partition expires as a whole, over all inputs.

    Args:
        owner: name of the operator, which the names of steps begin with.
        size: number of key columns; 0 for a single partition.
        ttl: microseconds of event time after which an idle partition expires; None for never.
        held: whether some rows prevent their partitions from expiring (`BufferedRows.holds`).
    """

    owner: str
    size: int
    ttl: int | None
    held: bool = False

    @property
    def names(self) -> list[str]:
        """Key columns."""
        return [f"__key_{n}" for n in range(self.size)]

    @property
    def touched_keys(self) -> str:
        """Relation with the keys that the micro-batch touches."""
        return f"{self.owner}_touched"

    @property
    def generations(self) -> str:
        """Relation with the touched keys and the step in which each one's generation began."""
        return f"{self.owner}_generations"

    def steps(self, touched: str, kept: Sequence[BufferedRows]) -> list[Step]:
        """Returns the steps with the touched partitions and their generations.

        Args:
            touched: SQL of their keys, without duplicates.
            kept: all rows that are stored by these partitions.
        """
        found = [Step(self.touched_keys, touched, persist=True)]
        if self.ttl is not None:
            known = "\nunion all\n".join(
                each.generations_of_partitions() for each in {each.part: each for each in kept}.values()
            )
            found.append(
                Step(
                    self.generations,
                    generations_of_keys(f"select * from {self.touched_keys}", known, self.names),
                    persist=True,
                    initial=f"select own.*, {clock_sql(STEP)} as {SINCE} from {self.touched_keys} as own",
                )
            )
        return found


@dataclass(frozen=True)
class BufferedRows:
    """Rows of an operator's result that an operator above it stores.

    Args:
        ttl: microseconds of event time after which idle state expires; None for never.
        partitions: partitions of the rows. Without any, each row expires on its own under a TTL.
        keys: the partition's columns, over `alias`.
        alias: alias of the rows.
        top: limits the rows to the first N; None for all rows.
        busy: see `Recompute.busy`.
        ends: column with the end of the window with which a row expires; None without one.
        lasts: see `StatePart.lasts`.
        expires_by_itself: whether each row expires on its own, even if there are partitions.
        stays: whether rows are read until they are retracted, even if their partition has expired.
        holds: whether these rows prevent their partition from expiring.
    """

    operator: Operator
    names: StateNames
    ttl: int | None
    partitions: Partitions | None = None
    keys: tuple[exp.Expr, ...] = ()
    alias: str = "own"
    top: TopRows | None = None
    busy: str | None = None
    ends: str | None = None
    lasts: int | None = None
    expires_by_itself: bool = False
    stays: bool = False
    holds: bool = False

    @cached_property
    def part(self) -> str:
        """Name of the state table."""
        identity: list[str] = []
        if self._expiring_partitions is not None:
            identity = [self._expiring_partitions.owner, *map(sql, self.keys)]
        identity += [] if self.ends is None else ["until", self.ends]
        if self._expiring_partitions is None and self.busy is not None and self.ttl is not None:
            identity += ["until", self.busy]
        ranking: list[str] = []
        if self.top is not None:
            ranking = [sql(self.top.place), str(self.top.rows), str(self.top.where and sql(self.top.where))]
        name = f"rows_{digest(self.operator.name, *identity, '/', *ranking)}"
        return self.names.get(name, name)

    @property
    def row(self) -> str:
        """State column with a row."""
        return quote(f"{self.part}_row")

    @property
    def times(self) -> str:
        """State column with a row's multiplicity."""
        return quote(f"{self.part}_times")

    @property
    def _may_retract(self) -> bool:
        return self.operator.relation.changes

    @property
    def _expiring_partitions(self) -> Partitions | None:
        return None if self.ttl is None or self.expires_by_itself else self.partitions

    def change_sql(self) -> str:
        """Returns the micro-batch's change, packed."""
        return packed_change(self.operator)

    def _stored_rows(self) -> str:
        """Returns all stored rows with the keys of their partitions."""
        items = (
            [] if self.ttl is None else generations.generation_items(self._expiring_partitions is not None)
        )
        columns = ", ".join([f"{self.row} as {ROW}", f"{self.times} as {TIMES}", *items])
        return self._with_keys(
            f"select {columns} from state where part = '{self.part}'", [item.split()[-1] for item in items]
        )

    def _with_keys(self, rows: str, also: Sequence[str] = ()) -> str:
        if self.partitions is None or not self.keys:
            return rows
        keys = [f"{sql(key)} as {name}" for key, name in zip(self.keys, self.partitions.names, strict=True)]
        columns = ", ".join([ROW, TIMES, *also])
        return (
            f"select {columns}, {', '.join(keys)}\n"
            f"from (\nselect {ROW}.*, {columns} from (\n{rows}\n)\n) as {quote(self.alias)}"
        )

    def touched_rows(self) -> str:
        """Returns the stored rows, of any generation, of the touched partitions."""
        assert self.partitions is not None
        return rows_of_keys(
            f"(\n{self._stored_rows()}\n)", self.partitions.names, self.partitions.touched_keys
        )

    def generations_of_partitions(self) -> str:
        """Returns the generations of the touched partitions that these rows have, with their expiry."""
        assert self.partitions is not None
        until = generations.UNTIL
        if self.partitions.held:
            until = f"if({generations.HELD}, {generations.FOR_EVER}, {until})"
        listed = [*self.partitions.names, f"{generations.GENERATION} as {SINCE}", f"{until} as {EXPIRES_AT}"]
        return f"select {', '.join(listed)} from (\n{self._with_held_column(self.touched_rows())}\n)"

    def _with_held_column(self, rows: str) -> str:
        """Adds the column `HELD` to stored rows, if some rows prevent their partitions from expiring."""
        if self._expiring_partitions is None or not self._expiring_partitions.held:
            return rows
        holds = "false"
        if self.holds:
            holds = f"sum({TIMES}) over (partition by {ROW}) > 0" if self._may_retract else "true"
        return f"select *, {holds} as {generations.HELD} from (\n{rows}\n)"

    def keys_stored_in_step(self) -> str:
        """Returns the keys of the partitions for which this step stored rows."""
        assert self.partitions is not None
        columns = f"{self.row} as {ROW}, {self.times} as {TIMES}"
        rows = f"select {columns} from state where part = '{self.part}' and {STEP} = {clock_sql(STEP)}"
        listed = ", ".join(self.partitions.names) or "true as anything"
        return f"select distinct {listed} from (\n{self._with_keys(rows)}\n)"

    def current_rows(self, touched: str) -> str:
        """Returns the current rows of the partitions in the relation `touched`; a row may be split over several changes."""
        assert self.partitions is not None
        names = self.partitions.names
        rows = rows_of_keys(f"(\n{self._stored_rows()}\n)", names, touched)
        if self._expiring_partitions is not None:
            by = f"partition by {', '.join(names)}" if names else ""
            last = f"select *, max({generations.GENERATION}) over ({by}) as __last from (\n{rows}\n)"
            rows = f"select * except (__last) from (\n{last}\n) where {generations.GENERATION} = __last"
            rows = self._net_rows(rows, [ROW]) if self._may_retract else rows
        return f"select {ROW}, {TIMES} from (\n{rows}\n)"

    def rows_before(self) -> str:
        """Returns the rows of the touched partitions before the micro-batch; a row may be split over several changes."""
        if self.partitions is None:
            return self.all_rows_before()
        if self.expires_by_itself:
            stored = generations.unexpired_rows(self._stored_rows(), None, "watermark_before")
            rows = rows_of_keys(f"(\n{stored}\n)", self.partitions.names, self.partitions.touched_keys)
        elif self._expiring_partitions is None or self.stays:
            rows = self.touched_rows()
        else:
            rows = self._rows_of_current_generation()
        return f"select {ROW}, {TIMES} from (\n{rows}\n)"

    def _rows_of_current_generation(self) -> str:
        """Returns the stored rows of the current generations of the touched partitions."""
        assert self._expiring_partitions is not None
        on = equal_keys_condition("own", "generations", self._expiring_partitions.names)
        rows = (
            f"select own.* from (\n{self._stored_rows()}\n) as own\n"
            f"left semi join {self._expiring_partitions.generations} as generations\n"
            f"on {on} and own.{generations.GENERATION} = generations.{SINCE}"
        )
        return self._net_rows(rows, [ROW]) if self._may_retract else rows

    @property
    def _key_columns(self) -> list[str] | None:
        """SQL of the key's columns, if rows may be replaced without a retraction; empty for a single row. None if rows
        have no key, or are always retracted."""
        key = self.operator.relation.key
        if self._expiring_partitions is None or self.stays or not self._may_retract or key is None:
            return None
        return [f"{ROW}.{quote(column)}" for column in sorted(key)]

    def _net_rows(self, rows: str, by: Sequence[str], also_by: Sequence[str] = ()) -> str:
        """Returns rows with their multiplicities, from insertions and retractions under a TTL."""
        if self._key_columns is not None:
            return generations.newest_rows(rows, by, TIMES, [*also_by, *self._key_columns])
        return generations.rows_with_multiplicity(rows, by, [TIMES])

    def rows_after(self) -> str:
        """Returns the rows of the touched partitions after the micro-batch."""
        both = f"{self.rows_before()}\nunion all\n{self.change_sql()}"
        if self._key_columns is None:
            return both
        changes = "\nunion all\n".join(
            f"select {ROW}, {TIMES}, {n} as {generations.ADDED_IN} from (\n{rows}\n)"
            for n, rows in enumerate((self.rows_before(), self.change_sql()))
        )
        return f"select {ROW}, {TIMES} from (\n{self._net_rows(changes, [ROW])}\n)"

    def all_rows_before(self) -> str:
        """Returns the rows before the micro-batch of all partitions that haven't expired."""
        return f"select {ROW}, {TIMES} from (\n{self._unexpired_rows('watermark_before')}\n)"

    def _unexpired_rows(self, watermark: str, of_same_partitions: Sequence[BufferedRows] = ()) -> str:
        rows = self._stored_rows()
        if self.ttl is None:
            return rows
        by = None if self._expiring_partitions is None else self._expiring_partitions.names
        held = self._expiring_partitions is not None and self._expiring_partitions.held
        others = [each._with_held_column(each._stored_rows()) for each in of_same_partitions]
        rows = generations.unexpired_rows(self._with_held_column(rows), by, watermark, others, held)
        if not self._may_retract:
            return rows
        assert self._expiring_partitions is not None
        of_generation = [*self._expiring_partitions.names, generations.GENERATION]
        return self._net_rows(rows, [ROW, *of_generation, generations.UNTIL], of_generation)

    def state(self, of_same_partitions: Sequence[BufferedRows] = ()) -> StatePart:
        """Returns the state table.

        Args:
            of_same_partitions: other rows that are stored by the same partitions.
        """
        items = [f"{clock_sql(STEP)} as {STEP}", f"own.{ROW} as {self.row}", f"own.{TIMES} as {self.times}"]
        if self.ttl is not None:
            items.append(generations.expiry_item(self.ttl, self._active_until))
        tables = "as own"
        if self._expiring_partitions is not None:
            items.append(f"generations.{SINCE}")
            on = equal_keys_condition("own", "generations", self._expiring_partitions.names)
            tables += f" join {self._expiring_partitions.generations} as generations on {on}"
        columns, change = ", ".join(items), self.change_sql()
        if self._expiring_partitions is not None:
            change = self._with_keys(change)
        append = initial = f"select {columns} from (\n{change}\n) {tables}"
        if self.top is not None:
            new = f"select *, true as __fresh from (\n{self.change_sql()}\n)"
            both = f"{new}\nunion all\nselect *, false as __fresh from (\n{self.rows_before()}\n)"
            append, initial = (
                f"select {columns} from (\n{self._with_keys(self._first_rows(rows, '__fresh'), ['__fresh'])}\n) {tables} "
                "where own.__fresh"
                for rows in (both, new)
            )
        return StatePart(
            self.part,
            append,
            self._fold(of_same_partitions),
            initial,
            closes=None,
            lasts=self.lasts,
            forgets=None if self.stays else self.ttl or None,
        )

    @property
    def _active_until(self) -> str | None:
        """SQL of the time until which a row's partition isn't idle; None for the row's arrival."""
        if self.ends is not None:
            return f"own.{ROW}.{quote(self.ends)}"
        return None if self.busy is None else self.busy.replace("own.`", f"own.{ROW}.`")

    def _first_rows(self, rows: str, also: str) -> str:
        """Returns the append-only rows that can still be among the first N, with the columns `also`."""
        assert self.top is not None
        where = f"\nwhere {sql(self.top.where)}" if self.top.where else ""
        listed = ", ".join(filter(None, [ROW, TIMES, also]))
        placed = (
            f"select {listed}, {sql(self.top.place)} as __place\n"
            f"from (\nselect {ROW}.*, {listed} from (\n{rows}\n)\n) as {quote(self.alias)}{where}"
        )
        return f"select * from (\n{placed}\n) where __place <= {self.top.rows}"

    def _fold(self, of_same_partitions: Sequence[BufferedRows]) -> str:
        others = [each for each in of_same_partitions if each.part != self.part]
        times, by = TIMES, ""
        rows = self._stored_rows() if self.stays else self._unexpired_rows("watermark_after", others)
        expiry = {} if self.ttl is None else {generations.UNTIL: EXPIRES_AT}
        if self._expiring_partitions is not None:
            expiry[generations.GENERATION] = SINCE
        if self.stays and self._may_retract:
            # Changes of a row are merged: the last one counts for the expiry of its partition.
            expiry = {f"max({name})": column for name, column in expiry.items()}
        if self.top is not None:
            rows = self._first_rows(rows, ", ".join(expiry))
        elif self._may_retract and (self.ttl is None or self.stays):
            times, by = f"sum({TIMES})", f"\ngroup by {ROW} having sum({TIMES}) <> 0"
        also = "".join(f", {name} as {column}" for name, column in expiry.items())
        return f"select {NO_STEP}, {ROW} as {self.row}, {times} as {self.times}{also} from (\n{rows}\n){by}"


def packed_change(operator: Operator) -> str:
    """Returns the change of an operator's result, with each row as a struct."""
    return packed_rows(operator.name, operator.relation.changes)


def packed_rows(relation: str, changes: bool) -> str:
    """Returns the rows of a relation, each as a struct. With `changes` they have weights."""
    if changes:
        return f"select struct(* except ({WEIGHT})) as {ROW}, {WEIGHT} as {TIMES} from {relation}"
    return f"select struct(*) as {ROW}, 1L as {TIMES} from {relation}"


def present_rows(rows: str, changes: bool) -> str:
    """Returns rows with their total multiplicities if there are `changes`; unchanged otherwise.

    >>> print(present_rows("select * from rows", changes=True))
    select __row, sum(__times) as __times from (
    select * from rows
    ) group by __row having sum(__times) > 0
    """
    return summed_rows(rows, "> 0") if changes else rows


def summed_rows(rows: str, having: str = "<> 0") -> str:
    """Returns rows with the sum of their multiplicities."""
    return (
        f"select {ROW}, sum({TIMES}) as {TIMES} from (\n{rows}\n) group by {ROW} having sum({TIMES}) {having}"
    )


def net_change(rows: str) -> str:
    """Returns the net change of rows, with their columns and weights, as operators return it."""
    summed = (
        f"select {ROW}, sum({TIMES}) as {WEIGHT} from (\n{rows}\n) group by {ROW} having sum({TIMES}) <> 0"
    )
    return f"select {ROW}.*, {WEIGHT} from (\n{summed}\n)"


def repeated_rows(rows: str, changes: bool, apart: bool = False) -> str:
    """Returns rows as a query reads them, each as often as its multiplicity says. `apart` prevents Spark from pushing the
    query's select list into a UNION ALL of these rows: with a correlated query its optimizer fails ("key not found").

    >>> print(repeated_rows("select * from rows", changes=False))
    select __row.* from (
    select * from rows
    )
    >>> print(repeated_rows("select * from rows", changes=True))
    select __row.* from (
    select * from rows
    ) lateral view explode(sequence(1L, __times)) each as __each
    """
    if not changes:
        once = " lateral view explode(array(1)) each as __each" if apart else ""
        return f"select {ROW}.* from (\n{rows}\n){once}"
    return f"select {ROW}.* from (\n{rows}\n) lateral view explode(sequence(1L, {TIMES})) each as __each"


@dataclass(frozen=True)
class TopRows:
    """The only rows of an append-only input that a ranking needs."""

    place: exp.Expr
    """The rank, over the input's alias."""
    rows: int
    where: exp.Expr | None
    """Condition that rows must meet to be ranked."""
