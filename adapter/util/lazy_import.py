"""Lazy import of modules.

The modules that plan queries and run streams take as long to import as dbt itself. `dbt parse`, `dbt ls` and
`dbt-stream status` don't need them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any


def import_lazily(namespace: dict[str, Any], modules: Mapping[str, Iterable[str]]) -> None:
    """Binds modules of this package in the namespace of another, as ``from … import`` does.

    Args:
        modules: package → names of its modules, with an alias where one is needed: ``table as iceberg``.
    """
    for package, names in modules.items():
        for name in names:
            module, _, alias = name.partition(" as ")
            namespace[alias or module] = LazyModule(f"{package}.{module}")


class LazyModule:
    """A module that is imported when one of its attributes is read."""

    def __init__(self, name: str) -> None:
        self._name = f"dbt.adapters.spark_streaming.{name}"

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # Python's own protocols, which concern this object
        return getattr(import_module(self._name), attribute)
