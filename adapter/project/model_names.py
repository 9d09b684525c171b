"""Names of models on the command line: `m`, `m.v2`, `package.m`, `package.m.v2`, as in dbt's own selectors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any


def versioned_name(node: Mapping[str, Any]) -> str:
    """Returns the name of a model as commands select it, with its version if it has one.

    >>> versioned_name({"name": "m", "version": 2}), versioned_name({"name": "m"})
    ('m.v2', 'm')
    """
    return str(node["name"]) if node.get("version") is None else f"{node['name']}.v{node['version']}"


def selecting_names(node: Mapping[str, Any]) -> set[str]:
    """Returns all names that select a model.

    >>> sorted(selecting_names({"name": "m", "version": 2, "package_name": "shop", "unique_id": "model.shop.m.v2"}))
    ['m', 'm.v2', 'model.shop.m.v2', 'shop.m', 'shop.m.v2']
    """
    own = {str(node["name"]), versioned_name(node)}
    return {*own, *(f"{node['package_name']}.{each}" for each in own), str(node["unique_id"])}


def unambiguous_names(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns by unique id a name of each model that selects no other one: with its package if another package has a model
    of the same name."""
    uses = Counter(name for node in nodes for name in selecting_names(node))
    return {
        str(node["unique_id"]): next(
            (name for name in (versioned_name(node), _name_with_package(node)) if uses[name] == 1),
            str(node["unique_id"]),
        )
        for node in nodes
    }


def _name_with_package(node: Mapping[str, Any]) -> str:
    return f"{node['package_name']}.{versioned_name(node)}"


def models_named(name: str, nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the models that a name selects, sorted by package, name and version."""
    found = [node for node in nodes if name in selecting_names(node)]
    return sorted(found, key=lambda node: str(node["unique_id"]))


def ambiguous_name_message(name: str, nodes: Sequence[Mapping[str, Any]]) -> str:
    """Returns the message for a name that selects several models, with the name and the table of each."""
    same_package = len({node["package_name"] for node in nodes}) == 1
    listed = [
        f"{versioned_name(node) if same_package else _name_with_package(node)} (table {node['relation_name']})"
        for node in nodes
    ]
    return f"'{name}' is the name of {len(nodes)} models: {', '.join(listed)}. Name one of them."


def exact_selector(node: Mapping[str, Any]) -> str:
    """Returns the selector of exactly this model in dbt's commands.

    The model's path alone also selects the models in a folder of its name, and the same version in other packages.
    """
    file = _selector_pattern(PurePath(node["original_file_path"]).name)
    return f"{path_selector(node)},file:{file},package:{node['package_name']}"


def path_selector(node: Mapping[str, Any]) -> str:
    """Returns dbt's selector of a model by its path, which also selects the models in a folder of its name.

    >>> path_selector({"fqn": ["shop", "daily reports", "m"]})
    'fqn:shop.daily?reports.m'
    """
    return f"fqn:{_selector_pattern('.'.join(map(str, node['fqn'])))}"


def _selector_pattern(name: str) -> str:
    """Returns a name with ``?`` in the place of each character that dbt's selectors read as their own."""
    return re.sub(r"[^\w.-]", "?", name)
