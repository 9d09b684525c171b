"""Columns that tables have got since a stream read them last: in all rows that it has read they are NULL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..query.program import StreamInput
from .checkpoint import last_snapshot, read_offsets
from .iceberg import load
from .model import StreamModel
from .source_order import in_first_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def later_columns(
    spark: SparkSession, model: StreamModel, inputs: Sequence[StreamInput], batch: int
) -> dict[str, str]:
    """The columns, in lower case, with their types. What files and messages had isn't known, so of these there are none.

    Args:
        spark: a session.
        model: the model.
        inputs: its streams.
        batch: the last micro-batch whose rows are in.
    """
    order = in_first_order(model, inputs)
    offsets = read_offsets(model.storage, model.checkpoint, batch)
    found: dict[str, str] = {}
    for source, offset in zip(order.model.sources, offsets, strict=False):
        table = load(spark, source.location) if source.is_table else None
        snapshot = last_snapshot(offset)
        if table is not None and snapshot is not None and table.has(snapshot):
            for name, kind in table.later_than(snapshot).items():
                if found.setdefault(name.lower(), kind.lower()) != kind.lower():
                    found[name.lower()] = ""  # of two types
    return found
