"""Columns of stored rows, and the rows that a ranking needs."""

from __future__ import annotations

from collections.abc import Sequence

from ....util.quoting import quote
from ...normalize.rankings.ranks import Top


def row_name(operator: str) -> str:
    """Name of the state column that holds the buffered rows."""
    return f"{operator}_row"


def row_column(operator: str) -> str:
    """SQL of the state column that holds the buffered rows."""
    return quote(row_name(operator))


def first_of(rows: str, top: Top, partition: Sequence[str], row: str) -> str:
    """Returns the rows that may be in a ranking, with their ranks.

    Args:
        row: column whose hash assigns buckets, if there are any.
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
