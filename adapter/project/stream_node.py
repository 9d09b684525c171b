"""Reads settings, names and locations of a streaming model from dbt's node, without planning its query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from ..environment import Environment
from ..query.errors import QueryError
from ..query.program import Lookup, Program, StreamInput
from ..query.sql.names import remove_marks
from ..sources.limits import with_row_limit
from ..sources.stream_source import ICEBERG, stream_source
from ..stream.common.identifiers import joined_name, parts, with_suffix
from ..stream.common.lookup_source import LookupSource, lookup_source
from ..stream.common.model import APPEND_NEW, STATE, StreamModel, StreamSource, changelog_name
from ..stream.iceberg.owner import catalog_identity
from . import contract, stream_config
from .model_configs import MATERIALIZATIONS
from .model_names import versioned_name


@contextmanager
def errors_with_model_name(node: Mapping[str, Any]) -> Iterator[None]:
    """Prefixes query errors with the model's name."""
    try:
        yield
    except QueryError as problem:
        raise QueryError(f"Model {node['name']}: {remove_marks(str(problem))}") from problem


def stream_settings(node: Mapping[str, Any]) -> stream_config.StreamConfig:
    """Returns the settings of a streaming model."""
    from dbt.artifacts.resources.v1.model import ModelConfig

    with errors_with_model_name(node):
        return stream_config.read_stream_config(
            node["config"], frozenset(field.name for field in fields(ModelConfig)) | {"pre-hook", "post-hook"}
        )


def stream_model(
    node: Mapping[str, Any],
    environment: Environment,
    program: Program | None = None,
    graph: Any = None,
) -> StreamModel:
    """Returns the runtime description of a streaming model.

    Args:
        program: its program. Without one the model has no sources: it can be inspected or reset, not run.
        graph: dbt's graph, which shows whether another model reads this model's changes.
    """
    settings = stream_settings(node)
    return replace(
        model_without_configs(node, environment),
        sources=_stream_sources(program, environment) if program else (),
        lookups=_lookup_sources(program) if program else (),
        watermark_delay=settings.watermark,
        changelog=settings.changelog
        or (program is not None and program.upsert is not None and is_read_downstream(node, graph)),
        idle_timeout=settings.idle_timeout,
        constraints=contract.enforced_constraints(node),
        retention=settings.retention,
        changelog_retention=settings.changelog_retention,
        on_state_change=settings.on_state_change,
        on_new_metric=settings.on_new_metric,
        on_schema_change=_schema_change_action(node),
        upstream=_upstream_names(node, graph),
        seeds=frozenset(_upstream_names(node, graph, type="seed") or ()),
        selector=_unambiguous_name(node, graph),
        # `dbt run` reads the available input and ends, whatever the trigger; `dbt-stream run` keeps running.
        trigger=None,
    )


def model_without_configs(node: Mapping[str, Any], environment: Environment) -> StreamModel:
    """Returns names and locations of a streaming model without reading its configs. It can be inspected, not run."""
    # The full name, because a declared source with the same schema and name is in another catalog.
    target, settings = name_with_catalog(node["relation_name"], environment), environment.settings
    return StreamModel(
        name=versioned_name(node),
        target=target,
        state=with_suffix(target, STATE),
        storage=environment.storage,
        sources=(),
        # With Spark Connect, only the server knows the settings of its catalogs.
        catalog=None if settings is None else catalog_identity(settings, environment.storage, target),
    )


def _upstream_names(node: Mapping[str, Any], graph: Any, type: str | None = None) -> dict[str, str] | None:
    """Returns relation in lower case → name for ``--select`` of the nodes that a model reads; None if that is unknown.

    Args:
        type: the resource type of the nodes; None for all but sources.

    >>> graph = {"nodes": {"model.shop.pages.v2": {"name": "pages", "version": 2, "relation_name": "`web`.`Pages`"}}}
    >>> _upstream_names({"depends_on": {"nodes": ["model.shop.pages.v2", "seed.shop.hosts", "source.shop.raw.x"]}}, graph)
    {'`web`.`pages`': 'pages.v2', 'hosts': 'hosts'}
    """
    if "depends_on" not in node:
        return None
    known: Mapping[str, Mapping[str, Any]] = (graph or {}).get("nodes", {})
    found = {}
    for name in (node["depends_on"] or {}).get("nodes", ()):
        kind, _, own = name.split(".", 2)
        if kind != "source" and type in (None, kind):
            parent = known.get(name, {})
            relation = parent.get("relation_name") or parent.get("alias") or own
            found[str(relation).lower()] = _unambiguous_name(parent, graph) if "name" in parent else own
    return found


def _unambiguous_name(node: Mapping[str, Any], graph: Any) -> str:
    """Returns a name that selects only this node: with its package if another package has a model of the same name.

    >>> graph = {"nodes": {f"model.{each}.m": {"name": "m", "package_name": each} for each in ("shop", "lake")}}
    >>> _unambiguous_name(graph["nodes"]["model.shop.m"], graph), _unambiguous_name({"name": "m"}, None)
    ('shop.m', 'm')
    """
    name = versioned_name(node)
    nodes: Mapping[str, Mapping[str, Any]] = (graph or {}).get("nodes", {})
    alike = [
        other for id, other in nodes.items() if id.startswith("model.") and versioned_name(other) == name
    ]
    return f"{node['package_name']}.{name}" if len(alike) > 1 else name


def is_read_downstream(node: Mapping[str, Any], graph: Any) -> bool:
    """Returns whether a streaming model reads this model, which then needs a changelog.

    >>> stream = {"materialized": "streaming_table"}
    >>> totals = {"config": stream, "depends_on": {"nodes": ["model.shop.orders"]}}
    >>> graph = {"nodes": {"model.shop.totals": totals}}
    >>> is_read_downstream({"unique_id": "model.shop.orders"}, graph)
    True
    >>> is_read_downstream({"unique_id": "model.shop.totals"}, graph)
    False
    """
    nodes: Iterable[Mapping[str, Any]] = (graph or {}).get("nodes", {}).values()
    return any(
        (other.get("config") or {}).get("materialized") in MATERIALIZATIONS
        and node["unique_id"] in (other.get("depends_on") or {}).get("nodes", ())
        for other in nodes
    )


def _schema_change_action(node: Mapping[str, Any]) -> str:
    """Returns how a table follows new columns of its query. dbt's default ignores them, which suits models that can
    be rebuilt at any time; a column that a stream ignored first would lack the earlier values, so the default here
    adds it."""
    value, is_set = (
        configs.get("on_schema_change") for configs in (node["config"], node.get("unrendered_config") or {})
    )
    return str(value) if value and is_set else APPEND_NEW


def name_with_catalog(name: str, environment: Environment) -> str:
    """Returns a table's full name. A name without a catalog gets the models' catalog."""
    named = parts(name)
    return joined_name(named if len(named) > 2 else [environment.credentials.catalog, *named])


def _lookup_sources(program: Program) -> tuple[LookupSource, ...]:
    found = {
        each.relation: lookup_source(each.relation)
        for each in (*program.lookups, *program.items_of_kind(Lookup))
    }
    return tuple(source for source in found.values() if source is not None)


def _stream_sources(program: Program, environment: Environment) -> tuple[StreamSource, ...]:
    rows = program.mini_batch.rows if program.mini_batch else None
    # A micro-batch reads all its streams at once, so they share its rows.
    share = None if rows is None else max(1, rows // len(program.inputs))
    return tuple(_stream_source(stream, environment, share) for stream in program.inputs)


def _stream_source(stream: StreamInput, environment: Environment, rows: int | None) -> StreamSource:
    relation = stream.relation
    declared = stream_source(relation)
    given = declared.options if declared else {}
    options = {key: value for key, value in given.items() if key != "path"}
    if rows is not None:
        options = with_row_limit(declared.format if declared else ICEBERG, options, rows)
    if declared is None or declared.is_table:
        table = name_with_catalog(relation, environment)
        return StreamSource(relation, changelog_name(table) if stream.feed else table, options=options)
    return StreamSource(
        relation,
        declared.options.get("path", ""),
        declared.format,
        declared.schema,
        options,
        name=declared.name,
        on_error=declared.on_error,
    )
