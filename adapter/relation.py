"""dbt's relation, extended by declared sources, which SQL reads as tables of the session catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dbt.adapters.base.relation import EventTimeFilter
from dbt.adapters.contracts.relation import ComponentName, HasQuoting, RelationConfig, RelationType
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.sources.source_tables import CATALOG, schema_name, table_name
from dbt.adapters.spark_streaming.sources.stream_source import (
    DeclaredSource,
    project_root,
    register,
    source_with_identity,
    with_absolute_path,
)
from dbt.adapters.spark_streaming.stream.common import lookup_source
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource
from dbt.adapters.spark_streaming.util import event_time
from dbt.adapters.spark_streaming.util.quoting import is_plain, quote, quote_configured, quote_time, time_name
from dbt.adapters.spark_streaming.util.types import quote_if_needed

Self = TypeVar("Self", bound="SparkStreamingRelation")


@dataclass(frozen=True, eq=False, repr=False)
class SparkStreamingRelation(SparkRelation):
    """A table, a view, or a declared source."""

    source_table: str = ""
    """The table through which SQL reads a source that ``sources.yml`` declares. It is created in the session's built-in
    catalog just before it is read."""

    @classmethod
    def create_from(
        cls: type[Self], quoting: HasQuoting, relation_config: RelationConfig, **kwargs: Any
    ) -> Self:
        """Creates a relation as dbt does, and registers what a source declares under ``meta.stream`` or ``meta.lookup``.

        Raises:
            DbtRuntimeError: the declaration is invalid.
        """
        relation = super().create_from(quoting, relation_config, **kwargs)
        lookup = lookup_declaration(relation_config, relation)
        source = stream_declaration(relation_config, relation) if lookup is None else lookup.as_table
        if source is None:
            replaced = _replaced_source(relation_config)
            return relation if replaced is None else relation.replace(source_table=replaced.relation)
        source = replace(source, identity=_source_identity(relation_config))
        if not source.is_table:
            source = _with_own_table(source, relation_config, str(relation.identifier))
            relation = relation.replace(source_table=source.relation)
        if lookup is not None:
            lookup_source.register(replace(lookup, relation=source.relation))
        register(source)
        return relation

    def __post_init__(self) -> None:
        if self.database and self.database != self.schema:
            raise DbtRuntimeError(
                f"{self.identifier or self.schema} has the database '{self.database}', and Spark's tables have only a "
                "schema. Leave out the config 'database' and a macro generate_database_name; the catalog of all tables is "
                "'catalog' in the profile."
            )
        super().__post_init__()
        # Macros create relations by name, cache them, and read their format later in the run. An unknown format counts as
        # Iceberg, except in Spark's own catalog.
        if self.is_iceberg is None and self.type in (None, RelationType.Table):
            others = self.is_delta or self.is_hudi or str(self.schema).startswith(f"{CATALOG}.")
            object.__setattr__(self, "is_iceberg", not others)

    def _render_iterator(self) -> Iterator[tuple[ComponentName | None, str | None]]:
        """Overrides dbt's method: a name that needs quotes is quoted, even if the project turns quoting off."""
        for component, part in super()._render_iterator():
            # A schema may be written as catalog.schema.
            names = part.split(".") if part and component == ComponentName.Schema else [part or ""]
            plain = not part or part.startswith("`") or all(map(is_plain, names))
            yield component, part if plain or part is None else self.quoted(part)

    def _render_event_time_filtered(self, event_time_filter: EventTimeFilter) -> str:
        """Returns the filter of a microbatch or a sample, which also fits a column of type DATE."""
        name = event_time_filter.field_name
        column = name if quote_configured(name) == name else quote_time(time_name(name))
        return event_time.condition(column, event_time_filter.start, event_time_filter.end)

    def quoted(self, identifier: str) -> str:
        return quote(identifier)

    @staticmethod
    def add_ephemeral_prefix(name: str) -> str:
        """Returns the name of an ephemeral model's CTE, quoted if needed: dbt inserts it as it is."""
        return quote_if_needed(SparkRelation.add_ephemeral_prefix(name))

    def render(self) -> str:
        """Returns the name in SQL."""
        if self.source_table and self.include_policy.identifier:
            return self.source_table
        return super().render()


def stream_declaration(config: Any, relation: SparkRelation) -> DeclaredSource | None:
    """Returns a source's declaration under ``config.meta.stream`` (or the older ``meta.stream``), or None."""
    stream = _meta_value(config, "stream")
    if stream is None:
        return None
    event_time = getattr(getattr(config, "config", None), "event_time", None)
    return DeclaredSource.from_config(_table_name(config), relation.render(), stream, event_time)


def _with_own_table(source: DeclaredSource, config: Any, table: str) -> DeclaredSource:
    """Returns a source with the name of its table in the session catalog, and with an absolute path."""
    root = project_root()
    located = source if root is None else with_absolute_path(source, root)
    schema = schema_name(str(config.source_name), located.identity, located.read_settings)
    return replace(located, relation=table_name(schema, table))


def _replaced_source(config: Any) -> DeclaredSource | None:
    """Returns the declared source that a node replaces in a unit test, or None.

    For a unit test dbt makes a model of each source. The model only has the source's name.
    """
    if getattr(config, "source_name", None) is None or getattr(config, "resource_type", None) != "model":
        return None
    return source_with_identity(_source_identity(config))


def _source_identity(config: Any) -> str:
    return f"{getattr(config, 'package_name', '')}.{_table_name(config)}"


def lookup_declaration(config: Any, relation: SparkRelation) -> LookupSource | None:
    """Returns a source's declaration under ``config.meta.lookup``, or None."""
    lookup = _meta_value(config, "lookup")
    if lookup is None:
        return None
    if _meta_value(config, "stream") is not None:
        raise DbtRuntimeError(
            f"Source {_table_name(config)} has both 'stream' and 'lookup'; it is either read as a stream, or looked up "
            "by keys."
        )
    return LookupSource.from_config(_table_name(config), relation.render(), lookup, str(relation.identifier))


def _table_name(config: Any) -> str:
    return f"{config.source_name}.{config.name}"


def _meta_value(config: Any, key: str) -> Any:
    """Returns the value of a key in a source's ``meta``, or None if there is none or the node isn't a source.

    Raises:
        DbtRuntimeError: the key is directly under ``config``, next to ``meta``.
    """
    if getattr(config, "source_name", None) is None:
        return None
    configs = getattr(config, "config", None)
    metas = (getattr(configs, "meta", None), getattr(config, "meta", None))
    value = next((meta[key] for meta in metas if meta and key in meta), None)
    if value is None and isinstance(getattr(configs, "_extra", {}).get(key), Mapping):
        raise DbtRuntimeError(
            f"Source {_table_name(config)}: '{key}' is directly under 'config', where nothing reads it; write it under "
            f"config.meta, as in config: {{meta: {{{key}: {{…}}}}}}."
        )
    return value
