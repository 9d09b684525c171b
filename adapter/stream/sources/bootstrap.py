"""Bootstraps a stream: it starts with the rows of another table instead of its source's earlier rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...query.program import StreamInput
from ..common.errors import StreamError
from ..common.model import StreamModel
from ..iceberg.table import IcebergTable, find_table, load_table
from ..storage.checkpoint import read_checkpoint
from .initial_offset import bootstrapped_from, note_bootstrap
from .readers import read_streams, rows_with_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_bootstrap(
    spark: SparkSession, model: StreamModel, inputs: tuple[StreamInput, ...]
) -> IcebergTable | None:
    """Returns the table that a model is to start with; None if it starts with its sources. Changes nothing. Raises
    `StreamError` if the table doesn't exist or lacks columns, or the model can't start with one."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    if model.bootstrap is None:
        return None
    if len(model.sources) > 1:
        raise StreamError(
            f"Model {model.name}: only a model with one stream can begin with another table's rows, and it has "
            f"{len(model.sources)}. Leave bootstrap out."
        )
    try:
        table = load_table(spark, model.bootstrap)
    except (AnalysisException, IllegalArgumentException) as problem:
        raise StreamError(
            f"Model {model.name}: the table {model.bootstrap} to bootstrap it from isn't an Iceberg table. Copy its rows "
            "to one, and bootstrap from that."
        ) from problem
    for own in (model.target, model.changes, model.state):
        # Compares UUIDs, since a table may have another name.
        there = find_table(spark, own)
        if table is not None and there is not None and there.uuid == table.uuid:
            raise StreamError(
                f"Model {model.name}: {own} is a table of the model itself, which a rebuild drops. Copy it to another "
                "table, and bootstrap from that."
            )
    if table is None or table.known is None:
        raise StreamError(
            f"Model {model.name}: the table {model.bootstrap} to bootstrap it from doesn't exist, or has no rows."
        )
    rows_with_schema(read_streams(spark, model, inputs).schema, spark.table(table.name), model, table.name)
    return table


def begin_with_table(
    spark: SparkSession, model: StreamModel, inputs: tuple[StreamInput, ...], begun: bool
) -> None:
    """Records the table whose rows a stream starts with, if there is one. Raises `StreamError` if the stream has
    started already, or as in `check_bootstrap`."""
    if model.bootstrap is None:
        return
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    under_way = checkpoint is not None and checkpoint.planned is not None and checkpoint.done is None
    noted = bootstrapped_from(model)
    if under_way and noted is not None and noted.table == model.bootstrap:
        return  # after a crash the recorded snapshot is read again, without later rows
    table = None if begun or under_way else check_bootstrap(spark, model, inputs)
    if table is None:
        raise StreamError(
            f"Model {model.name}: it has begun already, so it can't begin with the rows of {model.bootstrap}. To "
            f"rebuild it with them: {model.rebuild}. Otherwise leave the variable bootstrap out."
        )
    if noted is not None and noted.table == table.name and table.java.snapshot(noted.snapshot) is not None:
        return  # an earlier run without source rows, or an interrupted one, has chosen the snapshot
    assert table.known is not None
    note_bootstrap(model, table.name, table.known)
