"""Whether the peers of `compare.py` have the same rows, and when these were there: files and printed lines, in DuckDB.

Rows are a bag: each with how often it is there. Times are microseconds since 1970, fractions have six digits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

import duckdb

_PRINTED = re.compile(r"^(?:\S+> )?([+-][IUD])\[(.*)\]$")
_TIME, _DATE = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+$"), re.compile(r"^\d{4}-\d\d-\d\d$")
_COMES = ("+I", "+U")


class Rows:
    """Bags of rows."""

    def __init__(self) -> None:
        self._duck = duckdb.connect()
        self._number = 0

    def read(self, path: str, changelog: bool = False) -> str:
        """The name of the bag that a folder's Parquet files hold; of what became of rows, where it is a changelog."""
        source = _files(path)
        described = self._duck.execute(f"describe select * from {source}").fetchall()
        columns = [_plain(name, kind) for name, kind, *_ in described if not (changelog and name == "op")]
        weight = "case when op in ('INSERT', 'UPDATE_AFTER') then 1 else -1 end" if changelog else "1"
        self._number += 1
        self._duck.execute(
            f"create table rows_{self._number} as select {', '.join(columns)}, sum({weight})::bigint as times "
            f"from {source} group by all having sum({weight}) <> 0"
        )
        return f"rows_{self._number}"

    def count(self, bag: str) -> int:
        """How many rows."""
        ((found,),) = self._duck.execute(f"select coalesce(sum(times), 0) from {bag}").fetchall()
        return int(found)

    def difference(self, one: str, other: str) -> str | None:
        """What another bag lacks and has beside one; None: nothing."""
        names = [name for name, *_ in self._duck.execute(f"describe {one}").fetchall()]
        others = [name for name, *_ in self._duck.execute(f"describe {other}").fetchall()]
        if names != others:
            return f"columns {others}, not {names}"
        lacks, more = (
            self._duck.execute(f"select * from {a} except select * from {b}").fetchall()
            for a, b in ((one, other), (other, one))
        )
        if not lacks and not more:
            return None
        return f"{len(lacks)} missing, like {lacks[:1]}; {len(more)} that ours hasn't, like {more[:1]}"

    def counted(self, path: str, moment: str, over: int | None) -> Counter[Any]:
        """The bag of a folder, in Python: rows up to a moment."""
        bag = self.read(path)
        where = "" if over is None else f"where {moment} <= {over}"
        rows = self._duck.execute(f"select * from {bag} {where}").fetchall()
        return Counter({row[:-1]: row[-1] for row in rows})


def _files(path: str) -> str:
    # Not what Spark and Flink leave beside them, whose names begin with a dot or an underscore.
    return f"read_parquet('{path}/[!._]*')"


def _plain(name: str, kind: str) -> str:
    """A column in the form in which engines agree."""
    if kind.startswith("TIMESTAMP"):
        return f"epoch_us({name}) as {name}"
    if kind.startswith(("DOUBLE", "FLOAT", "DECIMAL")):
        return f"round({name}::double, 6) as {name}"
    if kind == "DATE":
        return f"{name}::varchar as {name}"
    if kind.endswith("INT") or kind.endswith("INTEGER"):
        return f"{name}::bigint as {name}"
    return name


def moments(path: str) -> list[tuple[int, float]]:
    """Pairs of a row's moment and when it was there, out of a folder's Parquet files."""
    return duckdb.connect().execute(f"select moment, there from {_files(path)}").fetchall()


def from_print(
    lines: Iterable[tuple[float, str]],
    columns: Sequence[str],
    key: Sequence[str],
    moment: str,
    over: int | None,
) -> tuple[Counter[Any], list[tuple[int, float]]]:
    """The bag that comes of printed changes, of rows up to a moment, and the pairs of `moments`."""
    bag: Counter[Any] = Counter()
    first: dict[tuple[Any, ...], float] = {}
    told = [columns.index(name) for name in dict.fromkeys([*key, moment])]
    at = columns.index(moment)
    for there, line in lines:
        if not (found := _PRINTED.match(line.strip())):
            continue
        row = tuple(map(value, found[2].split(", ")))
        if over is None or row[at] <= over:
            bag[row] += 1 if found[1] in _COMES else -1
        if found[1] in _COMES:
            first.setdefault((row[at], *(row[place] for place in told)), there)
    return Counter({row: times for row, times in bag.items() if times}), [
        (each[0], there) for each, there in first.items()
    ]


def value(text: str) -> Any:
    """What a printed value is.

    >>> [value(each) for each in ("null", "2026-03-01T00:01", "12", "2.50", "2026-03-01", "p1")]
    [None, 1772323260000000, 12, 2.5, '2026-03-01', 'p1']
    """
    if text == "null":
        return None
    if _TIME.match(text):
        # Python 3.10 knows three or six digits of a second alone.
        whole, _, part = text.partition(".")
        seconds = int(datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp())
        return seconds * 1_000_000 + int(part.ljust(6, "0")[:6] or 0)
    if _DATE.match(text):
        return text
    for kind in (int, lambda number: round(float(number), 6)):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
