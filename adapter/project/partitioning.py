"""Checks the config `partition_by` against a model's rows and its table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..query.errors import QueryError
from ..util.quoting import find_name, split_path, unquote


def check_partition_columns(partition_by: str | Sequence[str] | None, columns: Sequence[str]) -> None:
    """Raises unless a query has the columns that its table is partitioned by."""
    if name := _missing_column(partition_by, columns):
        raise QueryError(
            f"config 'partition_by' names {name}, which isn't a column of the query; its columns are {', '.join(columns)}."
        )


def _missing_column(partition_by: str | Sequence[str] | None, columns: Sequence[str]) -> str | None:
    """Returns the first column of `partition_by` that isn't among some columns; None if all are."""
    for each in _as_column_list(partition_by):
        within = each.rpartition("(")[2].rpartition(")")[0] if "(" in each else each
        # Skips a number, as in bucket(16, id). A name may be a field of a struct.
        names = [name.strip() for name in within.split(",") if not name.strip().isdigit()]
        known = [
            find_name(part, columns) for name in (each, *names) for part in (name, name.partition(".")[0])
        ]
        if not any(known):
            return " and ".join(map(unquote, names))
    return None


def check_table_partitioning(partition_by: str | Sequence[str] | None, fields: Sequence[str]) -> None:
    """Raises unless an Iceberg table is partitioned as the config says, which may have been edited since.

    Args:
        fields: names of the table's partition fields, as Iceberg makes them: ``ts_day`` for days(ts).
    """
    listed = [part for each in _as_column_list(partition_by) for part in _IN_LIST.findall(each)]
    expected = [_partition_field(each) for each in listed]
    if None not in expected and sorted(map(str.lower, filter(None, expected))) != sorted(
        name.lower() for name in fields
    ):
        raise QueryError(
            f"config 'partition_by' is {', '.join(listed) or 'not set'}, and the table is partitioned by "
            f"{', '.join(fields) or 'nothing'}, so its rows would replace others than you expect. Rebuild the table with "
            "--full-refresh, or put the config back."
        )


def _partition_field(text: str) -> str | None:
    """Returns the name that Iceberg gives a partition field, or None for an unknown function."""
    found = _TRANSFORM.fullmatch(text.strip())
    if found is None:
        return ".".join(split_path(text))
    kind = _TRANSFORMS.get(found["kind"].lower())
    return None if kind is None else f"{'.'.join(split_path(found['column']))}_{kind}"


def _as_column_list(partition_by: str | Sequence[str] | None) -> Sequence[str]:
    return [partition_by] if isinstance(partition_by, str) else partition_by or ()


_IN_LIST = re.compile(r"(?:`(?:[^`]|``)*`|\([^()]*\)|[^,`])+|`[^,]*")
"""One column of a comma-separated list, as in ``a, bucket(4, b)``."""
_TRANSFORM = re.compile(r"(?P<kind>\w+)\((?:\s*\d+\s*,)?(?P<column>.*?)(?:,\s*\d+\s*)?\)")
_TRANSFORMS = {
    **{f"{unit}{plural}": unit for unit in ("year", "month", "day", "hour") for plural in ("", "s")},
    **{"date": "day", "date_hour": "hour", "bucket": "bucket", "truncate": "trunc"},
}
"""Partition transform → the suffix that Iceberg gives the column's name."""
