"""Tables as the docs show them: a header, a line of dashes, and rows of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any


def text_of(value: Any) -> str:
    """A value as the docs show it.

    >>> text_of(datetime(2025, 6, 1, 9, 30)), text_of(1 / 3), text_of(None), text_of([1, None])
    ('2025-06-01 09:30', '0.33', 'NULL', '[1, NULL]')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ").removesuffix(":00")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, timedelta | int | str):
        return str(value)
    return str(round(float(value), 2))


def table(text: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table that is shown.

    >>> table("shop | n\\\\n---|---\\\\nulm | 2\\\\n")
    (['shop', 'n'], [['ulm', '2']])
    """
    lines = [line for line in text.splitlines() if line.strip() and not re.fullmatch(r"[-+| ]+", line)]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return (cells[0], cells[1:]) if cells else ([], [])


def drawn(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as the docs show it."""
    widths = [max(len(row[n]) for row in (header, *rows)) for n in range(len(header))]
    numeric = [
        bool(rows) and all(re.fullmatch(r"-?[\d.]+|NULL", row[n]) for row in rows) for n in range(len(header))
    ]

    def line(row: Sequence[str]) -> str:
        put = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        return " | ".join(put).rstrip()

    return "\n".join([line(header), "-+-".join("-" * width for width in widths), *map(line, rows)]) + "\n"
