"""Checks that a stream can continue or begin with its tables, before anything is written.

A checkpoint has the last snapshot that was read of each table; new rows are those of later snapshots. A table rebuilt
by `dbt run --full-refresh` upstream, or by each run of a table model, no longer has that snapshot. Iceberg detects
that only when the table has rows again, with an internal error.

A new stream reads the rows that each snapshot of a table added, from the first one on. Iceberg silently omits the
rows of expired snapshots, and fails where rows were updated or deleted; `initial_offset` has such a stream begin with
the whole table. A table without any append can't be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..common.errors import StreamError, rows_changed
from ..common.identifiers import parts
from ..common.model import StreamModel, StreamSource
from ..iceberg import owner
from ..iceberg.table import APPEND, EXPIRED, REPLACE, IcebergTable, load
from ..storage.checkpoint import last_snapshot, next_snapshots, read_checkpoint, read_offsets, read_whole
from ..storage.deployments import PROMOTED, Deployment, of_table
from ..storage.savepoints import checkpoint_of, listed
from ..storage.source_order import noted_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...environment.storage import Storage

FROM_TIMESTAMP = "stream-from-timestamp"


def check_sources(spark: SparkSession, model: StreamModel, ingested: int = -1) -> None:
    """Raises unless the model can continue each table at its last snapshot, or read it from the beginning.

    Args:
        ingested: number of the last fully ingested micro-batch, even if a crash came before Spark recorded it.

    Raises:
        StreamError: a table was rebuilt, or has no beginning to read. The message says what to run.
    """
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
        if source.is_table and (table := load(spark, source.location)) is not None
    }
    if checkpoint.done is not None and checkpoint.planned > max(checkpoint.done, ingested):
        # The run that planned it may have seen the tables in another state.
        check_continues(
            model, tables, read_offsets(model.storage, model.checkpoint, checkpoint.done), offsets
        )
    whole = read_whole(model.storage, model.checkpoint)
    for place, table in tables.items():
        source, snapshot = model.sources[place], last_snapshot(offsets[place])
        if snapshot is None:
            # The table had no rows at the last read: Iceberg would begin with the oldest existing snapshot.
            if has_lost_its_beginning(spark, source):
                raise StreamError(lost_beginning_message(spark, model, source))
        elif not table.has_ancestor(snapshot):
            raise lost_history_error(model, place, table, snapshot)
        elif place in whole and table.snapshot_id is not None:
            _check_unchanged(
                model,
                place,
                table,
                table.snapshot_id,
                table.operations_between(snapshot, table.snapshot_id) or (),
            )


def check_continues(
    model: StreamModel, tables: Mapping[int, IcebergTable], starts: Sequence[str], ends: Sequence[str]
) -> None:
    """Raises unless each table only had appends between the snapshots where a micro-batch begins and ends.

    Args:
        tables: place of a source → table as it is now.
        starts: start offsets of the micro-batch; empty for the first one.
        ends: its end offsets.
    """
    for place, table in tables.items():
        start = last_snapshot(starts[place]) if place < len(starts) else None
        if start is None:
            continue  # nothing of it was read
        end = last_snapshot(ends[place])
        between = None if end is None else table.operations_between(start, end)
        if between is None:
            raise lost_history_error(model, place, table, start)
        _check_unchanged(model, place, table, end, between)


def _check_unchanged(
    model: StreamModel, place: int, table: IcebergTable, end: int | None, past: Sequence[str]
) -> None:
    """Raises unless a table only had appends since it was read, apart from updates that the first micro-batch
    includes.

    Args:
        place: place of the table among its sources.
        end: the last snapshot to read.
        past: operations of the snapshots since the last read, the newest first.
    """
    changed = read_whole(model.storage, model.checkpoint).get(place)
    after = None if changed is None or end is None else table.operations_between(changed, end)
    if after is not None and len(after) < len(past):
        past = after
    elif changed is not None and end is not None and table.operations_between(end, changed) is not None:
        return
    source = model.sources[place]
    if changes := _changes(source, past):
        raise StreamError(rows_changed(model, changes[-1], [source.location]))


def lost_history_error(model: StreamModel, place: int, table: IcebergTable, snapshot: int) -> StreamError:
    """Returns the error for a table whose history no longer includes the last snapshot that was read."""
    if not table.has_ancestor(snapshot) and table.was_rolled_back_from(snapshot):
        return StreamError(restored_message(model, place, table))
    return StreamError(replaced_message(model, table.name, can_begin(table)))


def can_begin(table: IcebergTable) -> bool:
    """Whether a stream can begin with the table as it is now."""
    return table.newest_append() is not None or {*table.past_operations()} <= {APPEND, REPLACE}


def _changes(source: StreamSource, past: Iterable[str]) -> list[str]:
    """The operations that changed rows of a table, without those that the source's options skip."""
    passed_over = {kind for kind in past if source.option(f"streaming-skip-{kind}-snapshots") == "true"}
    return [kind for kind in past if kind not in {APPEND, REPLACE, *passed_over}]


def check_versions(spark: SparkSession, model: StreamModel) -> None:
    """Raises if a table that the model has read now belongs to another version of its model. Its key may have
    changed, and so the plan of this model's query."""
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None:
        return
    offsets = read_offsets(model.storage, model.checkpoint, checkpoint.planned)
    for name, offset in zip(noted_sources(model.storage, model.checkpoint), offsets, strict=False):
        snapshot = last_snapshot(offset)
        deployed = None if snapshot is None else of_table(model.storage, name)
        if snapshot is not None and deployed is not None:
            table = load(spark, name)
            if table is None or not table.has_snapshot(snapshot):
                raise StreamError(swapped_message(model, name, deployed))


def check_beginnings(spark: SparkSession, model: StreamModel) -> None:
    """Raises unless each table can be read from its beginning, for a new or rebuilt model."""
    for source in model.sources:
        if source.is_table:
            _check_beginning(spark, model, source)


def _check_beginning(spark: SparkSession, model: StreamModel, source: StreamSource) -> None:
    table = load(spark, source.location)
    if table is None or source.option(FROM_TIMESTAMP) is not None:
        return
    if table.has_lost_rows:
        if table.newest_append() is None:
            raise StreamError(lost_beginning_message(spark, model, source))
        return
    past = [kind for kind in table.past_operations() if kind != EXPIRED]
    changes = [] if table.newest_append() is not None else _changes(source, past)
    if past and past[-1] in changes:
        raise StreamError(
            f"Model {model.name}: the table {source.location} that it streams from begins with an Iceberg {past[-1]} "
            "snapshot, as CREATE OR REPLACE TABLE … AS leaves it, and a stream reads only appended rows. "
            f"{_WHO_APPENDS} To begin with the table made from scratch: {model.make_anew(source.location)}."
        )
    if changes:
        raise StreamError(rows_changed(model, changes[-1], [source.location]))


def has_lost_its_beginning(spark: SparkSession, source: StreamSource) -> bool:
    """Whether a source is a table that can't be read snapshot by snapshot, because the first ones have expired."""
    if not source.is_table or FROM_TIMESTAMP in {name.lower() for name in source.options}:
        return False
    table = load(spark, source.location)
    return table is not None and table.has_lost_rows


def has_changed_rows(spark: SparkSession, source: StreamSource) -> bool:
    """Whether a source is a table whose rows were updated or deleted, so that it can't be read snapshot by snapshot."""
    if not source.is_table or FROM_TIMESTAMP in {name.lower() for name in source.options}:
        return False
    table = load(spark, source.location)
    return table is not None and bool(
        _changes(source, [kind for kind in table.past_operations() if kind != EXPIRED])
    )


def readers_beyond(storage: Storage, *tables: IcebergTable | None) -> tuple[str, ...]:
    """Returns the names of the tables, sorted, whose streams have read a snapshot of `tables` that is no longer in the
    history of its table, as after a rollback."""
    found = {name for table in tables if table is not None for name in _readers_beyond(storage, table)}
    return tuple(sorted(found))


def readers(storage: Storage, table: str) -> tuple[str, ...]:
    """Returns the tables of the streams of a storage root that read a table, sorted."""
    return tuple(sorted(_readers(storage, table)))


def _readers(storage: Storage, table: str) -> Iterator[str]:
    for name in storage.list(storage.checkpoints):
        try:
            reads = noted_sources(storage, f"{storage.checkpoints}/{name}")
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no checkpoint, or an unreadable one
        if parts(table) in map(parts, reads):
            yield _written_by(storage, name)


def _readers_beyond(storage: Storage, table: IcebergTable) -> Iterator[str]:
    for name in storage.list(storage.checkpoints):
        path = f"{storage.checkpoints}/{name}"
        try:
            checkpoint, reads = read_checkpoint(storage, path), noted_sources(storage, path)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no checkpoint, or an unreadable one
        if checkpoint is None or checkpoint.planned is None:
            continue
        offsets = read_offsets(storage, path, checkpoint.planned)
        for source, offset in zip(reads, offsets, strict=False):
            snapshot = last_snapshot(offset)
            if (
                parts(source) == parts(table.name)
                and snapshot is not None
                and not table.has_ancestor(snapshot)
            ):
                yield _written_by(storage, name)


def _written_by(storage: Storage, key: str) -> str:
    """Returns the table of a stream, or the name of its files if nothing says which table that is."""
    try:
        noted = owner.read(storage, key)
    except StreamError:
        return key
    return key if noted is None else noted.table


def lost_beginning_message(spark: SparkSession, model: StreamModel, source: StreamSource) -> str:
    """Returns the message on a table that can't be read from its beginning, with what to do."""
    table = load(spark, source.location)
    if table is not None and table.newest_append() is not None:
        remedy = f"Rebuild this model, and it begins with all rows that the table holds: {model.rebuild}."
    else:
        remedy = (
            f"Rebuild the table ({model.make_anew(source.location)}), or begin the stream after a time, with its "
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
    """Returns the message on a rebuilt table, with what to do.

    Args:
        from_scratch: whether a stream can begin with the table as it is now.
    """
    is_seed = model.is_seed(table)
    if from_scratch:
        remedy = (
            f"Rebuild this model too: {model.rebuild}; with all models that read the {'seed' if is_seed else 'table'} "
            f"in turn: {model.make_anew(table)}."
        )
    else:
        remedy = f"Rebuild both, the table from scratch: {model.make_anew(table)}."
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
    """Returns the message on a table that now belongs to another version than the one that was read, with
    what to do."""
    is_new = deployed.phase == PROMOTED
    back = "rollback" if is_new else "promote"
    return (
        f"Model {model.name}: the table {table} that it streams from belongs to another version of {deployed.model} "
        f"since `dbt-stream deploy {'promote' if is_new else 'rollback'} {deployed.model}`, with different rows. "
        f"Rebuild this model from them, next to the old one ({model.deploy}) or instead of it ({model.rebuild}). To "
        f"have it continue as it was: `dbt-stream deploy {back} {deployed.model}`."
    )


def restored_message(model: StreamModel, place: int, table: IcebergTable) -> str:
    """Returns the message on a table that was restored to before its last read rows, with what to do.

    Args:
        place: place of the table among its sources.
    """
    fitting = [
        each.name
        for each in listed(model.storage, model.savepoints)
        if (begins := next_snapshots(model.storage, checkpoint_of(model, each.name)).get(place)) is not None
        and table.has_ancestor(begins)
    ]
    if fitting:
        remedy = f"Put this model back as well: `dbt-stream state restore {model.name} {fitting[-1]}`. Or rebuild it: "
    else:
        remedy = "Rebuild this model too: "
    return (
        f"Model {model.name}: the table {table.name} that it streams from was put back (by `dbt-stream state restore`, or "
        "a rollback of Iceberg's) to before what this model has read last, so it has ingested rows that the table no "
        f"longer has. {remedy}{model.rebuild}."
    )


_WHO_APPENDS = (
    "(A model that is materialized as a table is rebuilt by every `dbt run`; an incremental one that appends, or a "
    "streaming one, is not.)"
)
