"""Finds columns that tables have got since a stream read them: in all rows that it has read they are NULL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..query.program import StreamInput
from .checkpoint import last_snapshot, read_offsets
from .iceberg import load
from .model import StreamModel
from .source_order import in_first_order
from .source_schemas import noted_schemas

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
    noted = noted_schemas(model.storage, model.checkpoint)
    found: dict[str, str] = {}
    for place, (source, offset) in enumerate(zip(order.model.sources, offsets, strict=False)):
        table = load(spark, source.location) if source.is_table else None
        if table is not None and place in noted and last_snapshot(offset) is not None:
            for name, kind in table.columns_but({number for number, _ in noted[place].values()}).items():
                if found.setdefault(name.lower(), kind.lower()) != kind.lower():
                    found[name.lower()] = ""  # of two types
    return found
