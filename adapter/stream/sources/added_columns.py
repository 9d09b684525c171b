"""Finds columns added to tables and folders since a stream read them. All rows that the stream has read lack them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...query.program import StreamInput
from ..common.model import StreamModel, StreamSource
from ..iceberg.table import load_table
from ..storage.checkpoint import last_snapshot, read_offsets
from ..storage.source_order import in_checkpoint_order
from . import static_tables
from .file_columns import column_types_of, finds_columns, noted_columns
from .readers import schema_of_files
from .source_schemas import noted_schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def later_columns(
    spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput], tables: Sequence[str], batch: int
) -> dict[str, str]:
    """Returns the added columns: name in lower case → type, empty if sources differ. Omits Kafka sources and files with a
    declared schema, whose earlier columns are unknown."""
    order = in_checkpoint_order(model, inputs)
    offsets = read_offsets(model.storage, model.checkpoint, batch)
    noted = noted_schemas(model.storage, model.checkpoint)
    of_files = noted_columns(model.storage, model.checkpoint)
    every = list(static_tables.later_columns(spark, model, tables))
    for place, (source, offset) in enumerate(zip(order.model.sources, offsets, strict=False)):
        table = load_table(spark, source.location) if source.is_table else None
        later: Mapping[str, str] = {}
        if table is not None and place in noted and last_snapshot(offset) is not None:
            later = table.columns_added_since({number for number, _ in noted[place].values()})
        elif place in of_files and finds_columns(source):
            later = _types_of_file_columns(spark, order.model, source, of_files[place])
        every += later.items()
    found: dict[str, str] = {}
    for name, kind in every:
        if found.setdefault(name.lower(), kind.lower()) != kind.lower():
            found[name.lower()] = ""  # of two types
    return found


def _types_of_file_columns(
    spark: SparkSession, model: StreamModel, source: StreamSource, known: Mapping[str, str]
) -> dict[str, str]:
    if spark.catalog.tableExists(source.relation):
        # The columns were inferred for this run.
        schema: Any = spark.table(source.relation).schema
    else:
        schema = schema_of_files(spark, model, source)
    return {name: kind for name, kind in column_types_of(schema).items() if name not in known}
