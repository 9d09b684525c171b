"""Reads the rewrites that a model's config requests. Rewrites nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import QueryError

NAMES = ("enum_distinct", "split_distinct", "split_topn")
"""Names of the rewrites, as macros and configs, in the order they are applied."""


def requested_rewrites(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the rewrites that a model's config switches on, in the order they are applied, with their
    options."""
    found: dict[str, dict[str, Any]] = {}
    for name in NAMES:
        value = config.get(name)
        if value is None or value is False:
            continue
        if name == "enum_distinct":
            if value is not True:
                raise QueryError(f"config '{name}' is {value!r}; write true or false.")
            found[name] = {}
        else:
            if isinstance(value, bool) or not isinstance(value, int):
                raise QueryError(
                    f"config '{name}' is {value!r}; write the number of buckets, as in {name}: 128, or false."
                )
            found[name] = {"buckets": value}
    return found
