"""Modules that are imported when something of them is asked for.

What plans queries and runs streams takes as long to import as dbt itself; `dbt parse`, `dbt ls` and `dbt-stream status` need
nothing of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazily:
    """A module of this package.

    Args:
        name: of the module, below the package.
    """

    def __init__(self, name: str) -> None:
        self._name = f"dbt.adapters.spark_streaming.{name}"

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # asked by Python itself, of this object
        return getattr(import_module(self._name), attribute)
