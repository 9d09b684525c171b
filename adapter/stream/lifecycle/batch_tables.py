"""The tables that batch nodes build: which of them this package made, and what was left of a stream of their name.

A table that a node has made carries the properties of `ownership`. Only such a table's files are deleted, with old snapshots
or in a full refresh: what was there before under the node's name may be all that somebody has of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from ..common.model import StreamModel
from ..iceberg.ownership import is_made_as, properties
from ..iceberg.table import IcebergTable, find
from ..progress.position import PREFIX
from ..run import runner
from ..run.lock import locked
from ..storage.savepoints import TABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Spark")

BATCH = "batch"
"""As what a table is made that is no stream's."""


@dataclass(frozen=True)
class Before:
    """What had a node's name before it was built."""

    model: StreamModel
    """The node, as if it were a stream."""
    uuid: str | None = None
    """Of the table; None: there was none."""
    snapshot: int | None = None
    """Its newest; None: nothing was ever written to it."""
    is_stream: bool = False
    """Whether it was a streaming model's."""

    def is_replaced(self, now: IcebergTable | None) -> bool:
        """Returns whether another table, or none, has the name now."""
        if now is None or now.uuid != self.uuid:
            return True
        if self.snapshot is None:
            return now.known is not None
        return not now.follows(self.snapshot)


def is_ours(table: IcebergTable, target: str) -> bool:
    """Returns whether a table was made by this package for the model of its name, a stream or not."""
    return is_made_as(table, BATCH, target) or is_made_as(table, TABLE, target)


def before(spark: SparkSession, model: StreamModel, replaces: bool) -> Before:
    """Looks at what has the name of a node that is going to be built.

    Args:
        spark: a session.
        model: the node, as if it were a stream.
        replaces: whether it puts another table in the place of one that is there.

    Raises:
        StreamError: it is a streaming model's table, and a run of that is going on.
    """
    table = find(spark, model.target)
    if table is None:
        return Before(model)
    is_stream = is_made_as(table, TABLE, model.target)
    if is_stream and replaces:
        with locked(spark, model):
            pass
    return Before(model, table.uuid, table.known, is_stream)


def settle(spark: SparkSession, was: Before) -> IcebergTable | None:
    """Notes that a table is ours if a node has made it, and forgets what is left of a stream in whose place it was made.

    Args:
        spark: a session.
        was: what had the node's name before.

    Returns:
        The node's table; None: there is none, or somebody else made it.

    Raises:
        StreamError: what is left of the stream can't be removed.
    """
    model = was.model
    table = find(spark, model.target)
    ends = was.is_stream and was.is_replaced(table)
    if ends:
        runner.reset(spark, model)
        logger.info(
            f"Model {model.name} was a stream: what was left of it (state, changelog, checkpoint, savepoints) was dropped."
        )
    if table is not None and (ends or table.uuid != was.uuid):
        of_stream = {name: None for name in table.property_names() if name.startswith(PREFIX)}
        table.set_properties({**of_stream, **properties(BATCH, model.target)})
        table.refresh()
    return table if table is not None and is_made_as(table, BATCH, model.target) else None
