"""Number of buckets that the work of one key is split into."""

from __future__ import annotations

from ..errors import QueryError


def check_buckets(buckets: object) -> None:
    """Raises unless the value is a valid number of buckets."""
    if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 2:
        raise QueryError(f"buckets is {buckets!r}; write a whole number of at least 2, such as 128.")
