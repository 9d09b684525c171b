"""Are these the rows Flink gives? Both sides as multisets, and a difference a person can read."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

NULL = "\\N"
# Flink's window_time is window_end - 1 ms, ours window_end - 1 microsecond.
NOT_COMPARED = frozenset({"window_time"})
SHOWN = 8

Row = tuple[Any, ...]


def read_expected(path: Path) -> tuple[list[str], list[list[str]]]:
    """The column names and the rows of a golden file, as text."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader)
        return header, list(reader)


def difference(
    columns: Sequence[str],
    actual: Iterable[Sequence[Any]],
    header: Sequence[str],
    expected: Iterable[Sequence[str]],
) -> str | None:
    """What is missing and what is too much, or None when the rows are the same.

    `actual` are values of the table's `columns`; `expected` are texts under `header`.
    """
    if sorted(columns) != sorted(header):
        return f"columns are {', '.join(columns)}; Flink's are {', '.join(header)}"
    compared = [name for name in header if name not in NOT_COMPARED]
    ours_at = [list(columns).index(name) for name in compared]
    theirs_at = [list(header).index(name) for name in compared]
    ours = Counter(tuple(_text(row[at]) for at in ours_at) for row in actual)
    theirs = Counter(tuple(_expected_text(row[at]) for at in theirs_at) for row in expected)
    missing, extra = theirs - ours, ours - theirs
    if not missing and not extra:
        return None
    return "\n".join(
        [
            f"{sum(ours.values())} rows, Flink has {sum(theirs.values())}",
            "  " + " | ".join(compared),
            *_listing("missing", missing),
            *_listing("too much", extra),
        ]
    )


def _listing(title: str, rows: Counter[Row]) -> list[str]:
    if not rows:
        return []
    count = sum(rows.values())
    lines = [f"{title}: {count}"]
    shown = sorted(rows.elements())[:SHOWN]
    lines += ["  " + " | ".join(row) for row in shown]
    if count > len(shown):
        lines.append(f"  … and {count - len(shown)} more")
    return lines


def _text(value: Any) -> str:
    """A value of ours as the golden files would have it, with instants written the one way."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="microseconds")
    if isinstance(value, float):
        # Only AVG of a BIGINT is one, and Flink cuts it towards zero.
        return str(int(value))
    if isinstance(value, (int, str, Decimal)):
        return str(value)
    raise TypeError(f"No case has a value like {value!r}")


def _expected_text(value: str) -> str:
    """A golden value likewise."""
    try:
        return _text(datetime.strptime(value, "%Y-%m-%d %H:%M:%S.%f"))
    except ValueError:
        return value
