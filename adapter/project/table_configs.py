"""Checks the configs that any table has, streaming or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..query.errors import QueryError
from .stream_config import is_name


def _is_columns(value: Any) -> bool:
    return is_name(value) or (isinstance(value, list | tuple) and bool(value) and all(map(is_name, value)))


def _is_plain_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and not any(
        isinstance(each, Mapping | list | tuple) for each in value.values()
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_COLUMNS = "write a column or a list of columns, as in ['days(at)', 'city']"
_MAPPING = "write names with their values, as in {{'{}': '{}'}}"

_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "file_format": (is_name, "write the name of a format, as in 'iceberg'"),
    "location_root": (is_name, "write a path"),
    "partition_by": (_is_columns, _COLUMNS),
    "clustered_by": (_is_columns, "write a column or a list of columns"),
    "buckets": (_is_number, "write a whole number of at least 1"),
    "tblproperties": (_is_plain_mapping, _MAPPING.format("write.format.default", "orc")),
    "options": (_is_plain_mapping, _MAPPING.format("compression", "zstd")),
}


def check(config: Mapping[str, Any]) -> None:
    """Raises if a table config has an invalid value. None counts as not given."""
    for key, (is_right, instead) in _CHECKS.items():
        value = config.get(key)
        if value is not None and not is_right(value):
            raise QueryError(f"config '{key}' is {value!r}; {instead}, or leave it out.")
