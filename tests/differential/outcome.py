"""What became of a case: the rows are the same, or not, or the query was refused."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from tests.differential.tables import Row

EQUAL, REFUSED, DIFFERENT, CRASHED, NO_BATCH = "equal", "refused", "different", "crashed", "no batch"
Rows = Counter[Row]


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    kind: str
    """``no batch``: the text can't be run in batch, so there is nothing to compare with."""
    detail: str = ""
    batches: int = 0
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_wrong(self) -> bool:
        """Whether it is a bug."""
        return self.kind in (DIFFERENT, CRASHED)


def plain(value: Any) -> Any:
    """A value that is the same where it means the same.

    >>> plain(-0.0), plain(float("nan")), plain(1 / 3 + 1e-16), plain(Decimal("1.50"))
    (0.0, 'NaN', 0.333333333, '1.5')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        # Sums of squares depend on the order in which they are added up.
        return 0.0 if 5e-323 < abs(value) < 1e-9 else float(f"{value + 0.0:.9g}")
    if isinstance(value, datetime):
        return (value.astimezone(timezone.utc) if value.tzinfo else value).replace(tzinfo=None).isoformat()
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return tuple(map(plain, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return value


def compare(expected: Rows, found: Rows) -> str:
    """What is missing and what is too much; empty if the rows are the same."""
    missing, extra = expected - found, found - expected
    if not missing and not extra:
        return ""
    lines = [f"{sum(expected.values())} rows expected, {sum(found.values())} found"]
    for title, rows in (("missing", missing), ("too much", extra)):
        lines += [f"{title}: {sum(rows.values())}", *(f"  {row}" for row in sorted(rows, key=repr)[:4])]
    return "\n".join(lines)
