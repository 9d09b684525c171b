"""Collects a project's declarations of its relations. Several sources, or a source and a model, may be one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..query.frontend.streams import RelationInfo
from ..util.quoting import time_name, time_name_text
from ..util.settings import is_name


@dataclass(frozen=True)
class Declaration:
    """A node's or source's declarations of its table."""

    id: str
    name: str
    """``source.table``, or the name of the model."""
    is_source: bool
    known: RelationInfo


def declarations_by_relation(graph: Any) -> dict[str, list[Declaration]]:
    """Returns the declarations of all nodes and sources in dbt's graph, by relation."""
    found: dict[str, list[Declaration]] = {}
    for group in ("nodes", "sources"):
        for id, node in (graph or {}).get(group, {}).items():
            relation, config = node.get("relation_name"), node.get("config") or {}
            if not relation:
                continue
            is_source = group == "sources"
            meta = (config.get("meta") or {}) if is_source else {}
            stream = meta.get("stream")
            # An invalid key is reported to the models that read the source.
            key = stream.get("unique_key") if isinstance(stream, Mapping) else None
            columns = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, list) else ()
            time = config.get("event_time")
            name = f"{node.get('source_name')}.{node.get('name')}" if is_source else str(node.get("name"))
            if time is None or is_name(time):
                properties = RelationInfo(
                    event_time=time and time_name(time), key=columns, lookup="lookup" in meta
                )
            else:
                conflict = (
                    f"config 'event_time' of {name} is {time!r}; write the name of a column, or leave it out."
                )
                properties = RelationInfo(conflict=conflict)
            found.setdefault(relation, []).append(Declaration(id, name, is_source, properties))
    return found


def known_relations(
    declared: Mapping[str, Sequence[Declaration]], graph: Any, node: Mapping[str, Any] | None = None
) -> dict[str, RelationInfo]:
    """Returns the agreed properties of each relation.

    Args:
        node: the model that reads the relations. If several sources are one table, only those that it reads count.
    """
    reads = _upstream_ids(graph, node)
    return {relation: _common_declaration(relation, entries, reads) for relation, entries in declared.items()}


def _common_declaration(relation: str, entries: Sequence[Declaration], reads: set[str]) -> RelationInfo:
    """Returns what all declarations of a relation say, or a `RelationInfo` with the conflict between them."""
    entries = [each for each in entries if each.id in reads] or entries
    if not all(each.is_source for each in entries):
        # A source may exist only to declare what a model doesn't, or vice versa.
        entries = [each for each in entries if each.known != RelationInfo()] or entries
    first = entries[0]
    for other in entries:
        differ = [
            f"{what} {_value_text(one)} and {_value_text(two)}"
            for what, one, two in (
                (
                    "event_time",
                    *(
                        each and time_name_text(each)
                        for each in (first.known.event_time, other.known.event_time)
                    ),
                ),
                ("unique_key", first.known.key, other.known.key),
            )
            if one != two
        ]
        if differ:
            return RelationInfo(
                conflict=f"{first.name} and {other.name} are the same table {relation}, and the project says different "
                f"things of them ({'; '.join(differ)}). Say the same of both, or name one of them alone in this query."
            )
    return first.known


def _value_text(value: object) -> str:
    return "none" if not value else ", ".join(value) if isinstance(value, tuple) else str(value)


def _upstream_ids(graph: Any, node: Mapping[str, Any] | None) -> set[str]:
    """Returns the ids of the nodes and sources that a model reads, also through ephemeral models."""
    nodes = (graph or {}).get("nodes", {})
    found: set[str] = set()
    left = [node] if node is not None else []
    while left:
        for id in (left.pop().get("depends_on") or {}).get("nodes", ()):
            if id not in found:
                found.add(id)
                if (nodes.get(id, {}).get("config") or {}).get("materialized") == "ephemeral":
                    left.append(nodes[id])
    return found
