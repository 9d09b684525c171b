"""Recomputes closed windows of a stream's table in batch, and replaces them in one commit.

The commit is not an epoch of the stream: it carries no position, so the stream continues from the last commit that has
one. Windows that are still open are left to the state. The commit's changes go into the changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...query.batch.replace_rows import replace_files_sql, replace_where_sql
from ...query.program import Program
from ...util.types import column_types
from ..common.errors import StreamError
from ..common.failpoints import around
from ..common.model import StreamModel
from ..iceberg import commit
from ..run.runner import open_stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Windows:
    """Recomputed windows."""

    sql: str
    """Query for their rows."""
    condition: str
    """SQL condition for the rows of the table that they replace."""
    divided: str | None
    """Query that counts the table's files with both rows that meet the condition and others; None if there is none."""
    notes: Mapping[str, str]
    """Properties for the summary of the snapshot."""


def backfill(
    spark: SparkSession, model: StreamModel, program: Program, find: Callable[[SparkSession, int], Windows]
) -> int:
    """Recomputes closed windows, and replaces them in the table. Returns the number of their rows afterwards.

    Args:
        find: returns the windows, from a session and the instant up to which windows have closed.

    Raises:
        StreamError: the query has no windows or none has closed, or the stream is running.
    """
    if not program.keeps_state:
        raise StreamError(
            f"Model {model.name} emits its rows as they arrive, so it has no windows to close. To rebuild it: "
            f"{model.rebuild}."
        )
    with open_stopped(spark, model, program) as stream:
        session, position = stream.session, stream.position
        if position.after is None:
            raise StreamError(f"Model {model.name} has no closed windows yet: it has no watermark.")
        # Unlike a micro-batch, a backfill may read many rows.
        session.conf.set("spark.sql.adaptive.enabled", "true")
        windows = find(session, position.after - program.allowed_lateness)
        types = column_types(session.table(model.target).schema)
        for name, value in windows.notes.items():
            session.conf.set(f"spark.sql.iceberg.snapshot-property.backfill.{name}", value)
        rows = stream.sink.checked_sql(session, windows.sql)
        counted = session.sql(windows.divided).first() if windows.divided else None
        statement = replace_files_sql if counted is not None and counted[0] == 0 else replace_where_sql
        commit.rebase(model, stream.sink.table)  # a run on another machine may have written meanwhile
        with around("table.backfill", model.name):
            session.sql(statement(model.target, f"(\n{rows}\n)", types, windows.condition))
        stream.sink.table.advance_to_newest()
        stream.sink.prepare_for_run(session)
        counted = session.sql(f"select count(*) from {model.target} where {windows.condition}").first()
        return int(counted[0]) if counted else 0
