"""Rejects nodes whose table is also the state or the changelog of a model. Runs when the project is
parsed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from ..query.program import CHANGES
from ..stream.common.identifiers import joined_name, parts
from ..stream.common.model import STATE
from .model_configs import MATERIALIZATIONS

_OWN_TABLES: Mapping[str, str] = {STATE: "state", CHANGES: "changelog"}
"""Suffixes of the tables that a streaming model has in addition to its own."""


def check_name_clashes(nodes: Iterable[Any]) -> None:
    """Raises if a node's table is also the state or the changelog of a model."""
    named = {_lower_case_name(node): node for node in nodes if getattr(node, "relation_name", None)}
    for name, node in named.items():
        for suffix, what in _OWN_TABLES.items() if node.config.materialized in MATERIALIZATIONS else ():
            other = named.get((*name[:-1], name[-1] + suffix))
            if other is not None and other is not node:
                kept = joined_name([*parts(node.relation_name)[:-1], parts(node.relation_name)[-1] + suffix])
                raise DbtRuntimeError(
                    f"{_describe(other)} would be built as {other.relation_name}, and Model {node.name} keeps its "
                    f"{what} in {kept}. Give one of the two another name, or another 'alias' or 'schema'."
                )


def _lower_case_name(node: Any) -> tuple[str, ...]:
    """The parts of a relation's name in lower case, since most catalogs ignore case."""
    return tuple(part.lower() for part in parts(node.relation_name))


def _describe(node: Any) -> str:
    return f"{str(node.resource_type).capitalize()} {node.name}"
