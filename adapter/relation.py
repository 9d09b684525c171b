"""dbt's relation: also a source that is files, which SQL reads as a table of the session catalog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dbt.adapters.contracts.relation import HasQuoting, RelationConfig, RelationType
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming import lookup_source
from dbt.adapters.spark_streaming.lookup_source import LookupSource
from dbt.adapters.spark_streaming.stream_source import StreamSource, register

Self = TypeVar("Self", bound="SparkStreamingRelation")


@dataclass(frozen=True, eq=False, repr=False)
class SparkStreamingRelation(SparkRelation):
    """A table, a view, or a declared source."""

    declared: bool = False
    """Whether ``sources.yml`` says what it is, so that there is no such table in the catalog of
    models: it is made in the built-in catalog of the session just before it is read."""

    @classmethod
    def create_from(
        cls: type[Self], quoting: HasQuoting, relation_config: RelationConfig, **kwargs: Any
    ) -> Self:
        """As dbt, and remember what a source says of itself under ``meta.stream`` or ``meta.lookup``.

        Raises:
            DbtRuntimeError: it says something that means nothing.
        """
        relation = super().create_from(quoting, relation_config, **kwargs)
        if (lookup := lookup_declaration(relation_config, relation)) is not None:
            relation = relation.replace(declared=True)
            lookup = replace(lookup, relation=relation.render())
            lookup_source.register(lookup)
            register(lookup.as_table)
            return relation
        source = declaration(relation_config, relation)
        if source is None:
            return relation
        if not source.is_table:
            relation = relation.replace(declared=True)
            source = declaration(relation_config, relation)
            assert source is not None
        register(source)
        return relation

    def __post_init__(self) -> None:
        super().__post_init__()
        # Macros make relations by name, put them into dbt's cache, and ask them again for their
        # format later in the run. What isn't found to be something else is Iceberg's.
        if self.is_iceberg is None and self.type in (None, RelationType.Table):
            object.__setattr__(self, "is_iceberg", not (self.is_delta or self.is_hudi))

    def render(self) -> str:
        """The name in SQL."""
        if self.declared:
            return f"`spark_catalog`.`{self.schema}`.`{self.identifier}`"
        return super().render()


def declaration(config: Any, relation: SparkRelation) -> StreamSource | None:
    """What a node of the manifest says under ``config.meta.stream`` (or the older ``meta.stream``)."""
    stream = _said(config, "stream")
    if stream is None:
        return None
    event_time = getattr(getattr(config, "config", None), "event_time", None)
    return StreamSource.from_config(_name(config), relation.render(), stream, event_time)


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
