"""Checks the configs that any table has, streaming or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..query.errors import QueryError
from .model_configs import TABLES


def check(config: Mapping[str, Any]) -> None:
    """Raises if a table config has an invalid value. None counts as not given."""
    for each in TABLES:
        if problem := each.kind.problem(config.get(each.name)):
            raise QueryError(f"config '{each.name}' {problem}, or leave it out.")
