"""dbt's relation: also a source that is files, which SQL reads as a table of the session catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dbt.adapters.base.relation import EventTimeFilter
from dbt.adapters.contracts.relation import ComponentName, HasQuoting, RelationConfig, RelationType
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.sources.source_tables import schema_name, table_name
from dbt.adapters.spark_streaming.sources.stream_source import (
    StreamSource,
    at_project,
    project_root,
    register,
    source_of,
)
from dbt.adapters.spark_streaming.stream.common import lookup_source
from dbt.adapters.spark_streaming.stream.common.lookup_source import LookupSource
from dbt.adapters.spark_streaming.util import event_time
from dbt.adapters.spark_streaming.util.quoting import is_plain, quote, quote_configured, quote_time, time_name

Self = TypeVar("Self", bound="SparkStreamingRelation")


@dataclass(frozen=True, eq=False, repr=False)
class SparkStreamingRelation(SparkRelation):
    """A table, a view, or a declared source."""

    source_table: str = ""
    """The table through which SQL reads a source that ``sources.yml`` declares: it is none of the models' catalog, and is
    made in the built-in catalog of the session just before it is read."""

    @classmethod
    def create_from(
        cls: type[Self], quoting: HasQuoting, relation_config: RelationConfig, **kwargs: Any
    ) -> Self:
        """As dbt, and remember what a source says of itself under ``meta.stream`` or ``meta.lookup``.

        Raises:
            DbtRuntimeError: it says something that means nothing.
        """
        relation = super().create_from(quoting, relation_config, **kwargs)
        lookup = lookup_declaration(relation_config, relation)
        source = declaration(relation_config, relation) if lookup is None else lookup.as_table
        if source is None:
            stands_for = _stands_for(relation_config)
            return relation if stands_for is None else relation.replace(source_table=stands_for.relation)
        source = replace(source, identity=_identity(relation_config))
        if not source.is_table:
            source = _with_own_table(source, relation_config, str(relation.identifier))
            relation = relation.replace(source_table=source.relation)
        if lookup is not None:
            lookup_source.register(replace(lookup, relation=source.relation))
        register(source)
        return relation

    def __post_init__(self) -> None:
        super().__post_init__()
        # Macros make relations by name, put them into dbt's cache, and ask them again for their
        # format later in the run. What isn't found to be something else is Iceberg's.
        if self.is_iceberg is None and self.type in (None, RelationType.Table):
            object.__setattr__(self, "is_iceberg", not (self.is_delta or self.is_hudi))

    def _render_iterator(self) -> Iterator[tuple[ComponentName | None, str | None]]:
        """See dbt's. A name that SQL couldn't read otherwise is quoted, whatever the project says of quoting."""
        for component, part in super()._render_iterator():
            # A schema may be named together with its catalog.
            names = part.split(".") if part and component == ComponentName.Schema else [part or ""]
            plain = not part or part.startswith("`") or all(map(is_plain, names))
            yield component, part if plain or part is None else self.quoted(part)

    def _render_event_time_filtered(self, event_time_filter: EventTimeFilter) -> str:
        """The filter of a microbatch or a sample, in a text that is right for a DATE too."""
        found = event_time_filter
        name = found.field_name
        column = name if quote_configured(name) == name else quote_time(time_name(name))
        return event_time.condition(column, found.start, found.end)

    def quoted(self, identifier: str) -> str:
        """A name as SQL takes it, whatever is in it."""
        return quote(identifier)

    @staticmethod
    def add_ephemeral_prefix(name: str) -> str:
        """The name of the CTE that an ephemeral model becomes. dbt writes it as it is."""
        prefixed = SparkRelation.add_ephemeral_prefix(name)
        return prefixed if is_plain(prefixed) else quote(prefixed)

    def render(self) -> str:
        """The name in SQL."""
        if self.source_table and self.include_policy.identifier:
            return self.source_table
        return super().render()


def declaration(config: Any, relation: SparkRelation) -> StreamSource | None:
    """What a node of the manifest says under ``config.meta.stream`` (or the older ``meta.stream``)."""
    stream = _said(config, "stream")
    if stream is None:
        return None
    event_time = getattr(getattr(config, "config", None), "event_time", None)
    return StreamSource.from_config(_name(config), relation.render(), stream, event_time)


def _with_own_table(source: StreamSource, config: Any, table: str) -> StreamSource:
    """A source with the name of the table that is made for it, and with its path in full."""
    root = project_root()
    located = source if root is None else at_project(source, root)
    schema = schema_name(str(config.source_name), located.identity, located.reads)
    return replace(located, relation=table_name(schema, table))


def _stands_for(config: Any) -> StreamSource | None:
    """The declared source that a node stands for in a unit test: dbt makes a model of it, which has its names alone."""
    if getattr(config, "source_name", None) is None or getattr(config, "resource_type", None) != "model":
        return None
    return source_of(_identity(config))


def _identity(config: Any) -> str:
    return f"{getattr(config, 'package_name', '')}.{_name(config)}"


def lookup_declaration(config: Any, relation: SparkRelation) -> LookupSource | None:
    """What a node of the manifest says under ``config.meta.lookup``."""
    lookup = _said(config, "lookup")
    if lookup is None:
        return None
    if _said(config, "stream") is not None:
        raise DbtRuntimeError(
            f"Source {_name(config)} says both 'stream' and 'lookup'; it is read as a stream, or asked for keys."
        )
    return LookupSource.from_config(_name(config), relation.render(), lookup, str(relation.identifier))


def _name(config: Any) -> str:
    return f"{config.source_name}.{config.name}"


def _said(config: Any, key: str) -> Any:
    """What a source has under a key of its ``meta``; None: nothing, or it is no source."""
    if getattr(config, "source_name", None) is None:
        return None
    metas = (getattr(getattr(config, "config", None), "meta", None), getattr(config, "meta", None))
    return next((meta[key] for meta in metas if meta and key in meta), None)
