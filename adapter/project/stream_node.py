"""A streaming model as dbt's node says it: its settings, names and places. Nothing is planned for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from ..environment import Environment
from ..query.errors import QueryError
from ..query.program import Program, StreamInput
from ..query.sql.names import unmarked
from ..sources.limits import limited
from ..sources.stream_source import at_project, stream_source
from ..stream.common.identifiers import joined, parts, with_suffix
from ..stream.common.lookup_source import LookupSource, lookup_source
from ..stream.common.model import APPEND_NEW, STATE, StreamModel, StreamSource, feed_of
from ..stream.iceberg.owner import catalog_of
from . import contract, stream_config
from .model_names import label


@contextmanager
def named(node: Mapping[str, Any]) -> Iterator[None]:
    """Errors name the model."""
    try:
        yield
    except QueryError as problem:
        raise QueryError(f"Model {node['name']}: {unmarked(str(problem))}") from problem


def config(node: Mapping[str, Any]) -> stream_config.StreamConfig:
    """The settings of a streaming model.

    Raises:
        QueryError: as in `stream_config.read`, with the model's name.
    """
    from dbt.artifacts.resources.v1.model import ModelConfig

    with named(node):
        return stream_config.read(
            node["config"], frozenset(field.name for field in fields(ModelConfig)) | {"pre-hook", "post-hook"}
        )


def model(
    node: Mapping[str, Any],
    environment: Environment,
    made: Program | None = None,
    project_root: str = ".",
    graph: Any = None,
) -> StreamModel:
    """Names and places of a streaming model. Without a program it has no sources, which is enough
    to look at it or forget it. Projects may share an environment, so it can't know the `project_root`
    at which the sources' paths start. By dbt's `graph` it knows whether another model needs its changes."""
    settings = config(node)
    # Named in full: a declared source of the same schema and name lies in another catalog.
    target = in_catalog(node["relation_name"], environment)
    return StreamModel(
        name=label(node),
        target=target,
        state=with_suffix(target, STATE),
        storage=environment.storage,
        sources=_sources(made, environment, project_root) if made else (),
        lookups=_lookups(made) if made else (),
        watermark_delay=settings.watermark,
        changelog=settings.changelog
        or (made is not None and made.upsert is not None and is_read_downstream(node, graph)),
        idle_timeout=settings.idle_timeout,
        constraints=contract.constraints(node),
        retention=settings.retention,
        changelog_retention=settings.changelog_retention,
        on_state_change=settings.on_state_change,
        on_new_metric=settings.on_new_metric,
        on_schema_change=_on_schema_change(node),
        upstream=_upstream(node, graph),
        seeds=frozenset(_upstream(node, graph, of="seed") or ()),
        catalog=_catalog(target, environment),
        # `dbt run` takes what is there and ends, whatever the trigger; `dbt-stream run` keeps going.
        trigger=None,
    )


def place(node: Mapping[str, Any], environment: Environment) -> StreamModel:
    """Returns names and places of a streaming model, whatever its configs are. It can be looked at, not run."""
    target = in_catalog(node["relation_name"], environment)
    return StreamModel(
        name=label(node),
        target=target,
        state=with_suffix(target, STATE),
        storage=environment.storage,
        sources=(),
        catalog=_catalog(target, environment),
    )


def _catalog(target: str, environment: Environment) -> dict[str, str] | None:
    """Returns what the target's settings say of the catalog that a table is in; None if they are a server's."""
    settings = environment.settings
    return None if settings is None else catalog_of(settings, environment.storage, target)


def _upstream(node: Mapping[str, Any], graph: Any, of: str | None = None) -> dict[str, str] | None:
    """Returns the nodes that a model reads, by the names of their tables; None if the node doesn't say.

    Args:
        node: the model.
        graph: dbt's graph.
        of: the kind of nodes, as dbt calls it; None: all but sources.
    """
    if "depends_on" not in node:
        return None
    known: Mapping[str, Mapping[str, Any]] = (graph or {}).get("nodes", {})
    found = {}
    for name in (node["depends_on"] or {}).get("nodes", ()):
        kind, _, own = name.split(".", 2)
        if kind != "source" and of in (None, kind):
            there = known.get(name, {})
            found[str(there.get("alias") or own).lower()] = str(there.get("name") or own)
    return found


def is_read_downstream(node: Mapping[str, Any], graph: Any) -> bool:
    """Whether a streaming model reads a model, so that it has to say what changes in it."""
    nodes: Iterable[Mapping[str, Any]] = (graph or {}).get("nodes", {}).values()
    return any(
        (other.get("config") or {}).get("materialized") in stream_config.MATERIALIZATIONS
        and node["unique_id"] in (other.get("depends_on") or {}).get("nodes", ())
        for other in nodes
    )


def _on_schema_change(node: Mapping[str, Any]) -> str:
    """What becomes of a table whose query gives other columns. dbt's own default, to ignore them, is for models that are
    built from their rows at any time; here a column that comes later would have lost what came before."""
    asked = node["config"].get("on_schema_change")
    return (
        str(asked) if asked and (node.get("unrendered_config") or {}).get("on_schema_change") else APPEND_NEW
    )


def in_catalog(name: str, environment: Environment) -> str:
    """A table's name in full: where it names no catalog, in the models'."""
    named = parts(name)
    return joined(named if len(named) > 2 else [environment.credentials.catalog, *named])


def _lookups(made: Program) -> tuple[LookupSource, ...]:
    every = [*made.lookups, *(each for level in made.levels for each in level.all_lookups)]
    found = {each.relation: lookup_source(each.relation) for each in every}
    return tuple(source for source in found.values() if source is not None)


def _sources(made: Program, environment: Environment, project_root: str) -> tuple[StreamSource, ...]:
    rows = made.mini_batch.rows if made.mini_batch else None
    # The streams of a micro-batch are read at once, and share its rows.
    share = None if rows is None else max(1, rows // len(made.inputs))
    return tuple(_source(stream, environment, project_root, share) for stream in made.inputs)


def _source(
    stream: StreamInput, environment: Environment, project_root: str, rows: int | None
) -> StreamSource:
    relation = stream.relation
    declared = stream_source(relation)
    if declared is None or declared.is_table:
        options = declared.options if declared else {}
        if rows is not None:
            options = limited(declared.format if declared else "iceberg", options, rows)
        table = in_catalog(relation, environment)
        return StreamSource(relation, feed_of(table) if stream.feed else table, options=options)
    located = at_project(declared, project_root)
    options = {key: value for key, value in located.options.items() if key != "path"}
    if rows is not None:
        options = limited(located.format, options, rows)
    return StreamSource(
        relation,
        located.options.get("path", ""),
        located.format,
        located.schema,
        options,
        name=located.name,
        on_error=located.on_error,
    )
