"""Checks that a stream can continue or begin with its tables, before anything is written.

A checkpoint has the last snapshot that was read of each table; new rows are those of later snapshots. A table rebuilt
by `dbt run --full-refresh` upstream, or by each run of a table model, no longer has that snapshot. Iceberg detects
that only when the table has rows again, with an internal error.

A new stream reads the rows that each snapshot of a table added, from the first one on. Iceberg silently omits the
rows of expired snapshots, and fails where rows were updated or deleted; `initial_offset` has such a stream begin with
the whole table. A table without any append can't be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..common.errors import StreamError, rows_changed_message
from ..common.identifiers import parts
from ..common.model import StreamModel, StreamSource
from ..iceberg import owner
from ..iceberg.table import APPEND, EXPIRED, REPLACE, IcebergTable, load_table
from ..storage.checkpoint import (
    last_snapshot,
    next_snapshots,
    planned_batch,
    read_checkpoint,
    read_offsets,
    sources_read_whole,
)
from ..storage.deployments import PROMOTED, Deployment, deployment_of_table
from ..storage.savepoints import checkpoint_copy, stored_savepoints
from ..storage.source_order import noted_sources, snapshots_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...environment.storage import Storage

FROM_TIMESTAMP = "stream-from-timestamp"


def check_sources(spark: SparkSession, model: StreamModel, ingested: int = -1) -> None:
    """Raises unless the model can continue each table at its last snapshot, or read it from the beginning. `ingested`:
    number of the last fully ingested micro-batch, even if a crash came before Spark recorded it."""
    check_versions(spark, model)
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None:
        check_beginnings(spark, model)
        return
    offsets = read_offsets(model.storage, model.checkpoint, checkpoint.planned)
    if len(offsets) != len(model.sources):
        return  # the checkpoint is of other sources; the stream reports that when it starts
    tables = {
        place: table
        for place, source in enumerate(model.sources)
        if source.is_table and (table := load_table(spark, source.location)) is not None
    }
    if checkpoint.done is not None and checkpoint.planned > max(checkpoint.done, ingested):
        # The run that planned it may have seen the tables in another state.
        check_continues(
            model, tables, read_offsets(model.storage, model.checkpoint, checkpoint.done), offsets
        )
    whole = sources_read_whole(model.storage, model.checkpoint)
    for place, table in tables.items():
        source, snapshot = model.sources[place], last_snapshot(offsets[place])
        if snapshot is None:
            # The table had no rows at the last read: Iceberg would begin with the oldest existing snapshot.
            if has_lost_its_beginning(spark, source):
                raise StreamError(lost_beginning_message(spark, model, source))
        elif not table.has_ancestor(snapshot):
            raise lost_history_error(model, place, table, snapshot)
        elif place in whole and table.snapshot_id is not None:
            past = table.operations_between(snapshot, table.snapshot_id)
            _check_only_appends(model, place, table, table.snapshot_id, past or ())


def check_continues(
    model: StreamModel, tables: Mapping[int, IcebergTable], starts: Sequence[str], ends: Sequence[str]
) -> None:
    """Raises unless each table only had appends between the snapshots where a micro-batch begins and ends. `tables`:
    place of a source → table as it is now."""
    for place, table in tables.items():
        start = last_snapshot(starts[place]) if place < len(starts) else None
        if start is None:
            continue  # nothing of it was read
        end = last_snapshot(ends[place])
        between = None if end is None else table.operations_between(start, end)
        if between is None:
            raise lost_history_error(model, place, table, start)
        _check_only_appends(model, place, table, end, between)


def _check_only_appends(
    model: StreamModel, place: int, table: IcebergTable, end: int | None, past: Sequence[str]
) -> None:
    """Raises unless a table only had appends since it was read, or updates that the first micro-batch includes.

    Args:
        end: the last snapshot to read.
        past: operations of the snapshots since the last read, the newest first.
    """
    changed = sources_read_whole(model.storage, model.checkpoint).get(place)
    after = None if changed is None or end is None else table.operations_between(changed, end)
    if after is not None and len(after) < len(past):
        past = after
    elif changed is not None and end is not None and table.operations_between(end, changed) is not None:
        return
    source = model.sources[place]
    if changes := _unskipped_changes(source, past):
        raise StreamError(rows_changed_message(model, changes[-1], [source.location]))


def lost_history_error(model: StreamModel, place: int, table: IcebergTable, snapshot: int) -> StreamError:
    """Returns the error for a table whose history no longer includes the last snapshot that was read."""
    if not table.has_ancestor(snapshot) and table.was_rolled_back_from(snapshot):
        return StreamError(restored_message(model, place, table))
    return StreamError(replaced_message(model, table.name, can_begin(table)))


def can_begin(table: IcebergTable) -> bool:
    """Returns whether a stream can begin with the table as it is now."""
    return table.newest_append() is not None or {*table.past_operations()} <= {APPEND, REPLACE}


def _unskipped_changes(source: StreamSource, past: Iterable[str]) -> list[str]:
    """Returns the operations that changed rows of a table, without those that the source's options skip."""
    return [
        kind
        for kind in past
        if kind not in (APPEND, REPLACE, EXPIRED)
        and not source.option_is(f"streaming-skip-{kind}-snapshots", "true")
    ]


def check_versions(spark: SparkSession, model: StreamModel) -> None:
    """Raises if a table that the model has read now belongs to another version of the upstream model. The table's key may
    have changed, and with it the plan of this model's query."""
    for name, snapshot in snapshots_read(model.storage, model.checkpoint):
        if snapshot is not None and (deployed := deployment_of_table(model.storage, name)) is not None:
            table = load_table(spark, name)
            if table is None or not table.has_snapshot(snapshot):
                raise StreamError(swapped_message(model, name, deployed))


def check_beginnings(spark: SparkSession, model: StreamModel) -> None:
    """Raises unless each table can be read from its beginning, for a new or rebuilt model."""
    for source in model.sources:
        table = table_from_beginning(spark, source)
        if table is None or table.newest_append() is not None:
            continue
        if table.has_lost_rows:
            raise StreamError(lost_beginning_message(spark, model, source))
        past = [kind for kind in table.past_operations() if kind != EXPIRED]
        changes = _unskipped_changes(source, past)
        if past and past[-1] in changes:
            raise StreamError(
                f"Model {model.name}: the table {source.location} that it streams from begins with an Iceberg {past[-1]} "
                "snapshot, as CREATE OR REPLACE TABLE … AS leaves it, and a stream reads only appended rows. "
                f"{_WHO_APPENDS} To begin with the table made from scratch: {model.rebuild_command(source.location)}."
            )
        if changes:
            raise StreamError(rows_changed_message(model, changes[-1], [source.location]))


def table_from_beginning(spark: SparkSession, source: StreamSource) -> IcebergTable | None:
    """Returns the table of a source that a new stream reads from its first snapshot on; None for another source."""
    is_whole = source.is_table and source.option(FROM_TIMESTAMP) is None
    return load_table(spark, source.location) if is_whole else None


def has_lost_its_beginning(spark: SparkSession, source: StreamSource) -> bool:
    """Returns whether a source is a table that can't be read snapshot by snapshot, because the first ones have expired."""
    table = table_from_beginning(spark, source)
    return table is not None and table.has_lost_rows


def has_changed_rows(source: StreamSource, table: IcebergTable) -> bool:
    """Returns whether rows of a table were updated or deleted by snapshots that the source's options don't skip. The table
    then can't be read snapshot by snapshot."""
    return bool(_unskipped_changes(source, table.past_operations()))


def readers_beyond(storage: Storage, *tables: IcebergTable | None) -> tuple[str, ...]:
    """Returns the streams that have read a snapshot that one of `tables` no longer has in its history, as after a rollback.
    They are named as in `readers`."""

    def has_read_more(path: str) -> bool:
        read = snapshots_read(storage, path)
        found = [
            (table, snapshot)
            for name, snapshot in read
            for table in tables
            if table is not None and parts(name) == parts(table.name)
        ]
        batch = planned_batch(storage, path) if found else None
        if batch is not None and len(read_offsets(storage, path, batch)) < len(read):
            raise ValueError(f"the offsets of micro-batch {batch} are incomplete")
        return any(snapshot is not None and not table.has_ancestor(snapshot) for table, snapshot in found)

    return _streams_where(storage, has_read_more)


def readers(storage: Storage, table: str) -> tuple[str, ...]:
    """Returns the tables, sorted, of the streams of a storage root that read a table. A stream with an unreadable checkpoint
    may read it, so it is included, with a remark."""
    return _streams_where(storage, lambda path: parts(table) in map(parts, noted_sources(storage, path)))


def _streams_where(storage: Storage, holds: Callable[[str], bool]) -> tuple[str, ...]:
    """Returns the tables, sorted, of the streams for whose checkpoints a condition holds or is unknown. A stream whose
    table is unknown is named by its files."""
    found = set()
    for key in storage.list(storage.checkpoints):
        unread = ""
        try:
            if not holds(f"{storage.checkpoints}/{key}"):
                continue
        except (OSError, ValueError, KeyError, TypeError):
            unread = " (its checkpoint can't be read)"
        try:
            noted = owner.read_owner(storage, key)
        except StreamError:
            noted = None
        found.add(f"{key if noted is None else noted.table}{unread}")
    return tuple(sorted(found))


def lost_beginning_message(spark: SparkSession, model: StreamModel, source: StreamSource) -> str:
    """Returns the message on a table that can't be read from its beginning, with what to do."""
    table = load_table(spark, source.location)
    if table is not None and table.newest_append() is not None:
        remedy = f"Rebuild this model, and it begins with all rows that the table holds: {model.rebuild}."
    else:
        remedy = (
            f"Rebuild the table ({model.rebuild_command(source.location)}), or begin the stream after a time, with its "
            f"option '{FROM_TIMESTAMP}' (in milliseconds since 1970)."
        )
    return (
        f"Model {model.name}: the first snapshots of the table {source.location} that it streams from have "
        f"expired, so a stream from the table's beginning would lack the rows they added. {remedy}"
    )


def overtaken_message(model: StreamModel, source: StreamSource) -> str:
    """Returns the message on a table that was written or maintained while a stream began with it, with what to do."""
    return (
        f"Model {model.name}: snapshots of the table {source.location} came or expired while its stream began. Nothing "
        "was ingested; run it again."
    )


def replaced_message(model: StreamModel, table: str, from_scratch: bool) -> str:
    """Returns the message on a rebuilt table. `from_scratch`: whether a stream can begin with it as it is now."""
    is_seed = model.is_seed(table)
    if from_scratch:
        remedy = (
            f"Rebuild this model too: {model.rebuild}; with all models that read the {'seed' if is_seed else 'table'} "
            f"in turn: {model.rebuild_command(table)}."
        )
    else:
        remedy = f"Rebuild both, the table from scratch: {model.rebuild_command(table)}."
    if is_seed:
        return (
            f"Model {model.name}: the table {table} of the seed that it streams from was recreated, as happens when "
            "rows of the seed's file were changed or removed, when its columns or their types have changed, and with "
            f"--full-refresh. So new rows can't be distinguished from those already read. {remedy} (Rows that are only "
            "added to the file come as new rows.)"
        )
    return (
        f"Model {model.name}: the table {table} that it streams from was rebuilt (or rolled back, or the last snapshot "
        f"read of it has expired), so new rows can't be distinguished from those already read. {remedy} {_WHO_APPENDS}"
    )


def swapped_message(model: StreamModel, table: str, deployed: Deployment) -> str:
    """Returns the message on a table that now belongs to another version than the one that was read."""
    is_new = deployed.phase == PROMOTED
    back = "rollback" if is_new else "promote"
    return (
        f"Model {model.name}: the table {table} that it streams from belongs to another version of {deployed.model} "
        f"since `dbt-stream deploy {'promote' if is_new else 'rollback'} {deployed.model}`, with different rows. "
        f"Rebuild this model from them, next to the old one ({model.deploy}) or instead of it ({model.rebuild}). To "
        f"have it continue as it was: `dbt-stream deploy {back} {deployed.model}`."
    )


def restored_message(model: StreamModel, place: int, table: IcebergTable) -> str:
    """Returns the message on a table that was restored to before its last read rows, with what to do."""
    remedy = "Rebuild this model too: "
    for each in stored_savepoints(model.storage, model.savepoints):
        begins = next_snapshots(model.storage, checkpoint_copy(model, each.name)).get(place)
        if begins is not None and table.has_ancestor(begins):
            remedy = f"Put this model back as well: `dbt-stream state restore {model.name} {each.name}`. Or rebuild it: "
    return (
        f"Model {model.name}: the table {table.name} that it streams from was put back (by `dbt-stream state restore`, or "
        "a rollback of Iceberg's) to before what this model has read last, so it has ingested rows that the table no "
        f"longer has. {remedy}{model.rebuild}."
    )


_WHO_APPENDS = (
    "(A model that is materialized as a table is rebuilt by every `dbt run`; an incremental one that appends, or a "
    "streaming one, is not.)"
)
