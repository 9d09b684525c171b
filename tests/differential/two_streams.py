"""Bids and asks, for queries written by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

from .duck import Laboratory
from .tables import Row
from .tree import TIME, Column

BIDS = (Column("ts", TIME), Column("bidder", "bigint"), Column("item", "string"), Column("price", "bigint"))
ASKS = (Column("ts", TIME), Column("item", "string"), Column("price", "bigint"))
PIECES = 6


def rows_of(name: str, number: int = 150) -> list[Row]:
    """The first rows of a stream, with NULLs, ties, and times up to 20 minutes ahead of others."""
    chance = Random(name)
    begin = datetime(2024, 3, 4, 8)
    rows: list[Row] = []
    for place in range(number):
        ts = begin + timedelta(seconds=40 * place + chance.choice((0, 30, 60, 90, 1200)))
        bidder, item = chance.choice((None, 1, 2, 3, 4)), chance.choice((None, "a", "b", "c"))
        price = chance.choice((None, *range(1, 90)))
        rows.append((ts, bidder, item, price) if name == "bids" else (ts, item, price))
    return rows


def put(made: Laboratory, rows: Callable[[str], list[Row]] = rows_of) -> None:
    """Give a laboratory the rows of both streams, in pieces."""
    for name, columns in (("bids", BIDS), ("asks", ASKS)):
        found = rows(name)
        size = len(found) // PIECES
        made.put(name, columns, [found[size * n : size * n + size] for n in range(PIECES)])
