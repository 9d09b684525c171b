"""Random rows: NULLs, skew, duplicates, ties, decimals, NaN, extreme values, out of order within the watermark."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

from tests.differential.tree import TIME, Column

PIECES = 6
"""Into so many pieces each stream is cut; a micro-batch has one or more of them."""
DELAY = timedelta(minutes=10)
"""How far rows are out of order."""
WATERMARK = "11 minutes"
"""With it none is late."""
START = datetime(2024, 3, 4, 7, 55, tzinfo=timezone.utc)
HOURS = 3
Row = tuple[Any, ...]

CLICKS = (
    Column("ts", TIME, event_time=True),
    Column("k", "string"),
    Column("u", "bigint"),
    Column("v", "bigint"),
    Column("d", "decimal(10,2)"),
    Column("e", "decimal(18,5)"),
    Column("f", "double"),
    Column("z", "double"),
    Column("w", "bigint"),
    Column("g", "boolean"),
    Column("day", "date"),
)
ORDERS = tuple(column for column in CLICKS if column.name in ("ts", "k", "u", "v", "d", "f"))
LOOSE = tuple(column for column in CLICKS if column.name in ("ts", "k", "v", "d", "g"))
STREAMS: Mapping[str, tuple[Column, ...]] = {"clicks": CLICKS, "orders": ORDERS, "loose": LOOSE}
"""``loose`` has rows without an event time."""
STATIC: Mapping[str, tuple[Column, ...]] = {
    "dims": (Column("k", "string"), Column("name", "string"), Column("factor", "bigint")),
    "levels": (Column("u", "bigint"), Column("label", "string"), Column("least", "decimal(10,2)")),
}
ROWS_OF_STATIC: Mapping[str, Sequence[Row]] = {
    "dims": [("a", "x", 1), ("a", "y", 2), ("b", "x", 3), (None, "n", 4), ("zz", None, 5)],
    "levels": [
        (1, "low", Decimal("1.50")),
        (2, "low", None),
        (3, "high", Decimal("0.05")),
        (None, "none", None),
    ],
}


@dataclass(frozen=True)
class Tables:
    """The rows of each stream, piece by piece."""

    streams: Mapping[str, tuple[tuple[Row, ...], ...]]

    def rows(self) -> int:
        """How many there are in all."""
        return sum(len(piece) for pieces in self.streams.values() for piece in pieces)


def make(seed: int) -> Tables:
    """Random tables; the same for the same seed."""
    return Tables({name: _stream(Random(f"{seed} {name}"), name) for name in STREAMS})


def _stream(chance: Random, name: str) -> tuple[tuple[Row, ...], ...]:
    count = chance.choice({"clicks": (90, 140), "orders": (40, 70), "loose": (20, 40)}[name])
    length = timedelta(hours=HOURS)
    rows: list[Row] = []
    for number in range(count):
        arrived = START + DELAY + length * number / count
        late = DELAY * chance.random() ** 2
        # Whole half minutes, so that some are the same; never more out of order than the watermark allows.
        seconds = -(-(arrived - late - START).total_seconds() // 30) * 30
        moment = START + timedelta(seconds=seconds)
        before = rows[-1] if rows and rows[-1][0] is not None else None
        if before is not None and before[0] >= arrived - DELAY and chance.random() < 0.1:
            rows.append(before)
            continue
        rows.append(tuple(_value(chance, column, moment, name) for column in STREAMS[name]))
    pieces = [rows[count * at // PIECES : count * (at + 1) // PIECES] for at in range(PIECES)]
    if name != "clicks" and chance.random() < 0.3:
        at = chance.randrange(1, PIECES)
        pieces[at - 1] += pieces[at]
        pieces[at] = []
    return tuple(tuple(piece) for piece in pieces)


def _value(chance: Random, column: Column, moment: datetime, stream: str) -> Any:
    name = column.name
    if name == "ts":
        return None if stream == "loose" and chance.random() < 0.1 else moment
    if chance.random() < 0.1:
        return None
    if name == "k":
        return chance.choices(("a", "b", "c", "d", "", "É"), (10, 5, 3, 2, 1, 1))[0]
    if name == "u":
        return chance.choices(range(1, 8), (9, 6, 4, 2, 1, 1, 1))[0]
    if name == "v":
        return chance.choice((-5, -3, -1, 0, 0, 1, 1, 2, 3, 7, 100))
    if name == "d":
        return Decimal(chance.choice(("0.00", "-1.10", "0.05", "3.33", "3.33", "12.50", "99999999.99")))
    if name == "e":
        return Decimal(chance.choice(("0.00001", "-2.50000", "1.33333", "1234567.00000", "0.66667")))
    if name == "f":
        # Sums of these are exact, in whatever order.
        return chance.choice((0.0, -0.0, 0.25, -1.5, 2.75, 1024.5, 3.0))
    if name == "z":
        return chance.choice((float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 5e-324, 0.0, 1.5))
    if name == "w":
        # More than a double can tell apart; their sums still fit.
        return chance.choice((2**53 + 1, 2**53, -(2**53) - 1, 10**15, -1, 0, 1))
    if name == "g":
        return chance.random() < 0.6
    return date(2024, 3, 4) + timedelta(days=chance.choice((0, 0, 1, -800, 9000)))


def cuts(count: int) -> list[tuple[int, int]]:
    """The pieces of each cut: from, up to.

    >>> cuts(2)
    [(0, 3), (3, 6)]
    """
    bounds = [PIECES * at // count for at in range(count + 1)]
    return list(itertools.pairwise(bounds))
