"""Lazy import of modules.

The modules that plan queries and run streams take as long to import as dbt itself. `dbt parse`, `dbt ls` and
`dbt-stream status` don't need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """A module of this package that is imported when one of its attributes is read.

    Args:
        name: name of the module, relative to the package.
    """

    def __init__(self, name: str) -> None:
        self._name = f"dbt.adapters.spark_streaming.{name}"

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # Python's own protocols, which concern this object
        return getattr(import_module(self._name), attribute)
