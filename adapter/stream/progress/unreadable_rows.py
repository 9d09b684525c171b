"""Counts rows with values that couldn't be read, by source and column. The column "" counts all such rows of a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...util.text import counted

Unreadable: TypeAlias = Mapping[str, Mapping[str, int]]

ROWS = ""


def sum_of_counts(first: Unreadable, then: Unreadable) -> dict[str, dict[str, int]]:
    """Returns the sum of two counts.

    >>> sum_of_counts({"raw.a": {"": 1, "n": 1}}, {"raw.a": {"": 2, "m": 2}, "raw.b": {"": 1}})
    {'raw.a': {'': 3, 'n': 1, 'm': 2}, 'raw.b': {'': 1}}
    """
    found = {source: dict(columns) for source, columns in first.items()}
    for source, columns in then.items():
        so_far = found.setdefault(source, {})
        for column, rows in columns.items():
            so_far[column] = so_far.get(column, 0) + rows
    return found


def total_rows(unreadable: Unreadable) -> int:
    """Returns the total number of rows."""
    return sum(columns.get(ROWS, 0) for columns in unreadable.values())


def describe(unreadable: Unreadable) -> str:
    """Returns the counts as a phrase; empty if there are none.

    >>> describe({"raw.a": {"": 3, "n": 1, "m": 2}, "raw.b": {"": 1, "k": 1}})
    'unreadable values in 3 rows of raw.a (m 2, n 1) and 1 row of raw.b (k 1)'
    """
    found = []
    for source, columns in unreadable.items():
        listed = ", ".join(f"{column} {count}" for column, count in sorted(columns.items()) if column != ROWS)
        found.append(f"{counted(columns.get(ROWS, 0), 'row')} of {source} ({listed})")
    return f"unreadable values in {' and '.join(found)}" if found else ""


def describe_progress(progress: Mapping[str, Any], of: str) -> str:
    """Returns the phrase of `describe` for a model's progress. `of`: ``total``, or ``last`` for the last micro-batch."""
    return describe(from_json((progress.get("unreadable") or {}).get(of, {})))


def as_json(unreadable: Unreadable) -> dict[str, object]:
    """Returns the counts as in run results and `dbt-stream status --json`.

    >>> as_json({"raw.a": {"": 3, "n": 1}})
    {'raw.a': {'rows': 3, 'columns': {'n': 1}}}
    """
    return {
        source: {
            "rows": columns.get(ROWS, 0),
            "columns": {column: count for column, count in columns.items() if column != ROWS},
        }
        for source, columns in unreadable.items()
    }


def from_json(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Parses a result of `as_json`.

    >>> from_json({"raw.a": {"rows": 3, "columns": {"n": 1}}})
    {'raw.a': {'': 3, 'n': 1}}
    """
    return {source: {ROWS: each["rows"], **each["columns"]} for source, each in found.items()}
