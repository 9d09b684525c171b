"""The macros that dbt lists below an error, without those of dbt and of the adapters."""

from __future__ import annotations

from typing import Any

_PACKAGES = ("dbt", "dbt_spark", "dbt_spark_streaming")


class AuthorsMacros(list[Any]):
    """A stack that leaves out the macros of dbt and of the adapter.

    >>> from types import SimpleNamespace
    >>> stack = AuthorsMacros()
    >>> for package in ("dbt", "shop"):
    ...     stack.append(SimpleNamespace(package_name=package))
    >>> [each.package_name for each in stack]
    ['shop']
    """

    def append(self, item: Any) -> None:
        """Adds a macro, or a node."""
        if getattr(item, "resource_type", "macro") != "macro" or item.package_name not in _PACKAGES:
            super().append(item)
