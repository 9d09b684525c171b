"""Nodes of a project whose table would be one that another model keeps beside its own: refused when the project is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from ..stream.common.identifiers import joined, parts
from ..stream.common.model import CHANGES, STATE
from .stream_config import MATERIALIZATIONS

_TEMPORARY = "__dbt_tmp"
_KEPT: Mapping[str, str] = {STATE: "state", CHANGES: "changelog", _TEMPORARY: "new rows of a run"}


def check(nodes: Iterable[Any]) -> None:
    """Raises unless each node has a table of its own, and so have the state and the changelog of each streaming model.

    Args:
        nodes: dbt's, of all kinds.

    Raises:
        DbtRuntimeError: two of them would be one table; which, and what to write instead.
    """
    named = {_name(node): node for node in nodes if getattr(node, "relation_name", None)}
    for name, node in named.items():
        for suffix in _suffixes(node):
            other = named.get((*name[:-1], name[-1] + suffix))
            if other is not None and other is not node:
                kept = joined([*parts(node.relation_name)[:-1], parts(node.relation_name)[-1] + suffix])
                raise DbtRuntimeError(
                    f"{_called(other)} would be built as {other.relation_name}, and Model {node.name} keeps its "
                    f"{_KEPT[suffix]} in {kept}. Give one of the two another name, or another 'alias' or 'schema'."
                )


def _suffixes(node: Any) -> Iterator[str]:
    """The suffixes of the tables that a node keeps beside its own."""
    materialized = node.config.materialized
    if materialized in MATERIALIZATIONS:
        yield from (STATE, CHANGES)
    elif materialized == "incremental" and getattr(node, "language", None) == "python":
        yield _TEMPORARY


def _name(node: Any) -> tuple[str, ...]:
    """A relation's name, in which case counts for nothing: in most catalogs it doesn't."""
    return tuple(part.lower() for part in parts(node.relation_name))


def _called(node: Any) -> str:
    return f"{str(node.resource_type).capitalize()} {node.name}"
