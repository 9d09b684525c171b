"""Tables that batch nodes build: marks them as made by this package, limits their old metadata files, and removes leftovers
of a stream of their name.

A table that a node has made has the properties of `ownership`. Only the files of such a table are deleted, with old
snapshots or in a full refresh: another table of that name may be its owner's only copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from ..common.model import StreamModel
from ..iceberg.maintenance import PROPERTIES
from ..iceberg.ownership import ownership_properties, was_made_for
from ..iceberg.table import IcebergTable, find_table
from ..progress.position import PREFIX
from ..run import runner
from ..run.lock import model_lock
from ..storage.savepoints import TABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Spark")

BATCH = "batch"
"""Role of a table that a batch node makes."""


@dataclass(frozen=True)
class Before:
    """The table that had a node's name before the node was built."""

    model: StreamModel
    """The node, described as if it were a streaming model."""
    uuid: str | None = None
    """UUID of the table; None if there was none."""
    snapshot: int | None = None
    """Id of its current snapshot; None if nothing was ever written to it."""
    is_stream: bool = False
    """Whether it was the table of a streaming model."""

    def is_replaced(self, now: IcebergTable | None) -> bool:
        """Returns whether the table was replaced or dropped since. `now` is the table that has the name now."""
        if now is None or now.uuid != self.uuid:
            return True
        if self.snapshot is None:
            return now.known is not None
        return not now.has_ancestor(self.snapshot)


def was_made_by_package(table: IcebergTable, target: str) -> bool:
    """Returns whether this package made a table for the model of its name, streaming or batch."""
    return was_made_for(table, BATCH, target) or was_made_for(table, TABLE, target)


def existing_table(spark: SparkSession, model: StreamModel, replaces: bool) -> Before:
    """Returns the table that has the name of a node before the node is built. Raises if the node replaces that of a
    streaming model that is running."""
    table = find_table(spark, model.target)
    if table is None:
        return Before(model)
    is_stream = was_made_for(table, TABLE, model.target)
    if is_stream and replaces:
        with model_lock(spark, model):
            pass
    return Before(model, table.uuid, table.known, is_stream)


def mark_made_table(spark: SparkSession, was: Before) -> IcebergTable | None:
    """Marks the table that a node has made, and removes the leftovers of a stream whose table it replaced. Returns the
    node's table, or None if there is none or this package didn't make it."""
    model = was.model
    table = find_table(spark, model.target)
    replaces_stream = was.is_stream and was.is_replaced(table)
    if replaces_stream:
        runner.reset(spark, model)
        logger.info(
            f"Model {model.name} was a stream: what was left of it (state, changelog, checkpoint, savepoints) was dropped."
        )
    if table is not None and (replaces_stream or table.uuid != was.uuid):
        of_stream = {name: None for name in table.property_names() if name.startswith(PREFIX)}
        limits = {name: value for name, value in PROPERTIES.items() if table.property(name) is None}
        table.set_properties({**of_stream, **limits, **ownership_properties(BATCH, model.target)})
        table.refresh()
    return table if table is not None and was_made_for(table, BATCH, model.target) else None
