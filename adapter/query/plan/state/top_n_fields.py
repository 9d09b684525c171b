"""`TopNFields`: the ranking of a `TopN`, and the rows that a ranking needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...normalize.rankings.ranks import Top
from ..operator import Operator

BY, ORDER, ID = "__by_", "__order_", "__id_"
"""Prefixes of the columns of a `TopN`'s input: partition keys, order keys, and keys that identify a group."""


@dataclass(frozen=True, kw_only=True)
class TopNFields(Operator):
    """Fields of a `TopN`. Its input is append-only rows, or groups, or a row-by-row query over groups."""

    sql: str
    """SQL of the rows to rank: with the weight, if they have one, and columns whose names begin with `BY`,
    `ORDER` and `ID`."""
    top: Top
    """The ranking, partitioned by the columns that begin with `BY` and ordered by the row's column."""
    rank: str
    """Column of the rank."""
    query: exp.Select
    """SELECT with the ranking, over its input."""
    orders: int
    """Number of columns that begin with `ORDER`."""
    ids: tuple[str, ...]
    """Columns that begin with `ID`, which identify a group."""
    columns: tuple[str, ...] | None
    """Columns of the result in order; None if they aren't known by name, and the rank is the last one."""
    of_groups: tuple[str, ...] | None
    """Keys of the groups that it partitions by; None if it partitions by something else."""
    improves: bool
    """Whether a group's rank can only get better when rows of it are added."""
    descends: bool | None = None
    """Whether the first order key is descending; None if that key can't exclude rows from the first N."""
    of_ids: tuple[str, ...] = ()
    """Columns of the groups that `ids` are, where groups expire."""
    shown: tuple[str | None, ...] = ()
    """Columns of the result with the partition keys, in lower case; None for a key that isn't in the result."""
    final: bool = False
    """Whether a row is emitted once, when no other row can come before it any more: the first rows in order
    of event time."""
    has_few_partitions: bool = False
    """Whether the sets of values of the partition keys don't grow."""


def first_of(rows: str, top: Top, partition: Sequence[str], row: str) -> str:
    """Returns the rows that may be in a ranking, with their ranks.

    Args:
        row: column whose hash assigns buckets, if there are any.

    >>> print(first_of("select * from bids", Top("row_number", ("k",), "v", 3), ["k"], "v"))
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
