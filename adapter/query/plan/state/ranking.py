"""The ranking of a `TopN`: its fields, and what rankings of rows and of groups have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ....util.quoting import quote
from ...normalize.rankings.ranks import Top
from ...program import Step
from ..operator import PrintedOperator
from ..relation import WEIGHT

BY, ORDER, ID = "__by_", "__order_", "__id_"
"""Prefixes of columns of `TopNFields.rows`: partition keys, order keys, and keys that identify a group."""
ROW, PLACE = "__ranked", "place"
"""Columns: a row with its partition and order columns, and its rank as in `first_rows`."""
LAST = "__last_first"
_FIRST = f"{ROW}.`{ORDER}0`"


@dataclass(frozen=True, kw_only=True)
class TopNFields(PrintedOperator):
    """Fields of a `TopN`. Its input is append-only rows, or groups, or a row-by-row query over groups."""

    rows: exp.Select
    """SELECT over the input with the rows to rank, their weight if they have one, and columns whose names begin with
    `BY`, `ORDER` and `ID`."""
    top: Top
    """The ranking, by columns of these rows: partitioned by those of `BY`, ordered by those of `ORDER`."""
    rank: str
    """Column of the rank."""
    query: exp.Select
    """The author's SELECT with the ranking, over the input."""
    orders: int
    """Number of columns that begin with `ORDER`."""
    ids: tuple[str, ...]
    """Columns that begin with `ID`, which identify a group."""
    columns: tuple[str, ...] | None
    """Columns of the result in order; None if they aren't known by name, in which case the rank is the last."""
    of_groups: tuple[str, ...] | None
    """Keys of the groups that it partitions by; None if it partitions by something else."""
    improves: bool
    """Whether a group's rank can only get better when rows of it are added."""
    descends: bool | None = None
    """Whether the first order key is descending; None if that key can't exclude rows from the first N."""
    of_ids: tuple[str, ...] = ()
    """Columns of the groups that `ids` hold, if groups expire; empty otherwise."""
    shown: tuple[str | None, ...] = ()
    """Columns of the result with the partition keys, in lower case; None for a key that isn't in the result."""
    final: bool = False
    """Whether rows are ordered by event time, so that a row is emitted once, when none can arrive before it any more."""
    has_few_partitions: bool = False
    """Whether the set of values of each partition key doesn't grow."""

    @property
    def tree(self) -> exp.Select:
        """Returns the rows."""
        return self.rows


def first_rows(rows: str, top: Top, partition: Sequence[str], row: str) -> str:
    """Returns the rows that may be in a ranking, with their ranks.

    Args:
        row: column whose hash assigns buckets, if there are any.

    >>> print(first_rows("select * from bids", Top("row_number", ("k",), "v", 3), ["k"], "v"))
    select * from (
    select *, row_number() over (partition by k order by v) as place from (
    select * from bids
    )
    ) where place <= 3
    """

    def ranked(rows: str, partition: Sequence[str], place: str) -> str:
        within = f"partition by {', '.join(partition)} " if partition else ""
        over = f"over ({within}order by {top.order})"
        return f"select *, {top.function}() {over} as {place} from (\n{rows}\n)"

    if top.buckets is not None:
        # A row that isn't among the first of a bucket isn't among the first of all.
        parts = ranked(rows, [*partition, f"pmod(hash({row}), {top.buckets})"], "bucket_place")
        rows = f"select * except (bucket_place) from (\n{parts}\n) where bucket_place <= {top.rows}"
    return f"select * from (\n{ranked(rows, partition, 'place')}\n) where place <= {top.rows}"


def members_table(operator: TopNFields) -> str:
    """Name of the state table of members in a new state."""
    return f"{operator.name}_members"


class Ranking:
    """Steps and state of a `TopN`.

    Args:
        part: name of the state table.
        keys: partition columns.
    """

    def __init__(self, operator: TopNFields, part: str, keys: Sequence[str]) -> None:
        self.operator, self.name, self.part, self.keys = operator, operator.name, part, keys
        # Named after the state table, whose name stays the same if the query is rewritten.
        self.stored_row = quote(f"{self.part}_row")
        self.listed_keys = ", ".join(keys) or "true as anything"
        self.by = f" group by {', '.join(keys)}" if keys else ""
        self.now, self.touched, self.output = (
            f"{self.name}_{suffix}" for suffix in ("now", "touched", "result")
        )

    def last_places(self, members: str) -> str:
        """Returns the first order column of each full ranking's last member, as `LAST`. NULL if the ranking isn't full
        or the column has NULLs.

        Args:
            members: a relation with the partition columns and the members' rows.
        """
        # Where NULL sorts depends on the ranking, so with NULLs no row is known to be behind.
        is_full = f"count(*) >= {self.operator.top.rows} and count({_FIRST}) = count(*)"
        place = (
            f"case when {is_full} then {'min' if self.operator.descends else 'max'}({_FIRST}) end as {LAST}"
        )
        return f"select {', '.join([place, *self.keys])} from {members}{self.by}"

    @property
    def behind_condition(self) -> str:
        """SQL predicate: a row of `own` can't be in its ranking, given the row ``last`` of `last_places`."""
        return f"coalesce(own.{_FIRST} {'<' if self.operator.descends else '>'} last.{LAST}, false)"

    def changed_ranks_step(self, before: str) -> Step:
        """Returns the step with the change of the result.

        Args:
            before: SQL of the ranks before the batch.
        """
        after = f"select {ROW}, {PLACE}, 1L as {WEIGHT} from {self.now}"
        net = (
            f"select {ROW}, {PLACE}, sum({WEIGHT}) as {WEIGHT} from (\n"
            f"{after}\nunion all\nselect {ROW}, {PLACE}, -1L as {WEIGHT} from (\n{before}\n)\n)\n"
            f"group by {ROW}, {PLACE} having sum({WEIGHT}) <> 0"
        )
        return Step(self.name, self.output_rows(net), persist=True, initial=self.output_rows(after))

    def output_rows(self, rows: str) -> str:
        """Returns the query's columns of ranked rows, with ranks and weights."""
        operator = self.operator
        rows = f"select {ROW}.*, {PLACE} as {quote(operator.rank)}, {WEIGHT} from (\n{rows}\n)"
        if operator.columns is not None:
            return f"select {', '.join(map(quote, operator.columns))}, {WEIGHT} from (\n{rows}\n)"
        order = [f"`{ORDER}{number}`" for number in range(operator.orders)]
        generated = [*operator.top.partition, *operator.ids, *order]
        return f"select * except ({', '.join(generated)}) from (\n{rows}\n)" if generated else rows

    def current_output_rows(self, rows: str) -> str:
        """Returns the query's columns of current rankings, whose rows have no weights yet."""
        return self.output_rows(f"select {ROW}, {PLACE}, 1L as {WEIGHT} from (\n{rows}\n)")
