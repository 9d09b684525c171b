"""dbt's relation: also a source that is files, which SQL reads as a table of the session catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from dbt.adapters.contracts.relation import HasQuoting, RelationConfig, RelationType
from dbt.adapters.spark.relation import SparkRelation

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
        """As dbt, and remember what a source says of itself under ``meta.stream``.

        Raises:
            DbtRuntimeError: it says something that means nothing.
        """
        relation = super().create_from(quoting, relation_config, **kwargs)
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
    source_name = getattr(config, "source_name", None)
    if source_name is None:
        return None
    settings = getattr(config, "config", None)
    metas = (getattr(settings, "meta", None), getattr(config, "meta", None))
    stream = next((meta["stream"] for meta in metas if meta and "stream" in meta), None)
    if stream is None:
        return None
    return StreamSource.from_config(
        f"{source_name}.{config.name}", relation.render(), stream, getattr(settings, "event_time", None)
    )
