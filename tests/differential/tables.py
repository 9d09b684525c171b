"""Random rows: NULLs, skew, duplicates, ties, decimals, NaN, extreme values, out of order within the watermark."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

from tests.differential.tree import ANY_TIME, TIME, Column, Watermarks

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
ODD = (
    *(column for column in CLICKS if column.name in ("ts", "k", "v")),
    Column("sums", "double"),
    Column("h", "float"),
    Column("tiny", "smallint"),
    Column("big", "decimal(38,10)"),
    Column("nt", "timestamp_ntz"),
    Column("old", ANY_TIME),
    Column("bin", "binary"),
    Column("arr", "array<bigint>"),
    Column("rec", "struct<a:bigint,b:string>"),
)
STREAMS: Mapping[str, tuple[Column, ...]] = {"clicks": CLICKS, "orders": ORDERS, "loose": LOOSE, "odd": ODD}
"""``loose`` has rows without an event time; ``odd`` has types that few think of, and begins before 1970."""
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


@cache
def make(seed: int) -> Tables:
    """Random tables; the same for the same seed."""
    return Tables({name: _stream(Random(f"{seed} {name}"), name) for name in STREAMS})


def _stream(chance: Random, name: str) -> tuple[tuple[Row, ...], ...]:
    count = chance.choice({"clicks": (90, 140), "orders": (40, 70), "loose": (20, 40), "odd": (40, 70)}[name])
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
    if name == "odd":
        rows[0] = (datetime(1969, 12, 31, 23, 59, 30, tzinfo=timezone.utc), *rows[0][1:])
        rows[1] = (datetime(1970, 1, 1, tzinfo=timezone.utc), *rows[0][1:])
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
    if name in _ODD_VALUES:
        return chance.choice(_ODD_VALUES[name])
    return date(2024, 3, 4) + timedelta(days=chance.choice((0, 0, 1, -800, 9000)))


_ODD_VALUES: Mapping[str, Sequence[Any]] = {
    # Sums of those that are finite are exact, in whatever order.
    "sums": (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 0.25, 0.25, -1.5, 2.75, 1024.5),
    "h": (0.5, -0.0, 0.0, 3.25, -2.0),
    "tiny": (-32768, -1, 0, 1, 1, 7, 32767),
    "big": tuple(
        map(Decimal, ("0.0000000001", "-1.5000000000", "99999999999999.9999999999", "2.0000000000", "0E-10"))
    ),
    "nt": (
        datetime(2024, 3, 4, 8),
        datetime(2024, 3, 4, 8, 0, 0, 1),
        datetime(2024, 3, 31, 2, 30),
        datetime(1582, 10, 4),
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59),
    ),
    "old": tuple(
        each.replace(tzinfo=timezone.utc)
        for each in (
            datetime(1582, 10, 4, 23, 59, 59),
            datetime(1582, 10, 15),
            datetime(1, 1, 2),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(2024, 3, 4, 8),
            datetime(9999, 12, 30),
        )
    ),
    "bin": (b"", b"\x00", b"a", b"\xff\xfe"),
    "arr": ([], [None], [1, 2], [1, 2, None], [2]),
    "rec": ((1, "a"), (1, None), (None, None), (2, "b")),
}


def watermarks(tables: Tables, streams: Sequence[str], count: int, behind: int) -> Watermarks:
    """What the clock of event time says in a run over some streams.

    Args:
        tables: the rows.
        streams: that a model reads.
        count: of the cuts in which they come.
        behind: as of `Program`.
    """

    def after(pieces: int) -> str | None:
        newest = [
            max((row[0] for piece in tables.streams[name][:pieces] for row in piece if row[0]), default=None)
            for name in streams
        ]
        if None in newest or not newest:
            return None
        slowest = min(each for each in newest if each is not None) - DELAY - timedelta(minutes=1)
        return f"timestamp'{slowest - timedelta(microseconds=behind):%Y-%m-%d %H:%M:%S.%f}'"

    return Watermarks(tuple((first, after(first)) for first, _ in cuts(count)), after(PIECES))


def cuts(count: int) -> list[tuple[int, int]]:
    """The pieces of each cut: from, up to.

    >>> cuts(2)
    [(0, 3), (3, 6)]
    """
    bounds = [PIECES * at // count for at in range(count + 1)]
    return list(itertools.pairwise(bounds))
