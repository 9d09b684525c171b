"""The rewrites that a model's config asks for, by name. Nothing is rewritten in here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import QueryError

NAMES = ("enum_distinct", "split_distinct", "split_topn")
"""The rewrites, as macros and as configs are called, in the order they are made."""


def asked_for(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rewrites that a model's config switches on, in the order they are made, with their options.

    Raises:
        QueryError: a value that is wrong.
    """
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
