"""Checks that the tables of a stream are what it can go on with, or begin with, before anything is written.

A checkpoint names the last snapshot that was read of each table. Rows that came since are those of the
snapshots after it. Where the table has come about in another way, it has none: `dbt run --full-refresh`
of a model upstream, or a table model that every run replaces. Iceberg notices that only when the table
has rows again, and in the words of its own classes.

A stream that begins reads what every snapshot of a table added, from the first one on. Where the first ones
have expired Iceberg leaves out their rows and says nothing, and where rows were changed or deleted it stops; there
`initial_offset` has it begin with the table as it is. Where no snapshot appends rows it can't be read at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..common.errors import StreamError, rows_changed
from ..common.identifiers import parts
from ..common.model import StreamModel, StreamSource
from ..iceberg.table import APPEND, EXPIRED, REPLACE, IcebergTable, load
from ..storage.checkpoint import last_snapshot, next_snapshots, read_checkpoint, read_offsets, read_whole
from ..storage.deployments import PROMOTED, Deployment, of_table
from ..storage.savepoints import checkpoint_of, listed
from ..storage.source_order import noted_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...environment.storage import Storage

FROM_TIMESTAMP = "stream-from-timestamp"


def check_sources(spark: SparkSession, model: StreamModel, taken_in: int = -1) -> None:
    """Return if each table goes on where the model stopped reading it, or can be read from its beginning.

    Args:
        spark: any session.
        model: the model.
        taken_in: the last micro-batch of which all rows are in, also where a crash came before Spark noted that.

    Raises:
        StreamError: one was built anew since, or has no beginning to read; and what to run.
    """
    check_versions(spark, model)
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None:
        check_beginnings(spark, model)
        return
    offsets = read_offsets(model.storage, model.checkpoint, checkpoint.planned)
    if len(offsets) != len(model.sources):
        return  # the checkpoint is of other sources, which the stream says when it starts
    tables = {
        place: table
        for place, source in enumerate(model.sources)
        if source.is_table and (table := load(spark, source.location)) is not None
    }
    if checkpoint.done is not None and checkpoint.planned > max(checkpoint.done, taken_in):
        # Planned by a run that saw the tables otherwise than they are.
        check_continues(
            model, tables, read_offsets(model.storage, model.checkpoint, checkpoint.done), offsets
        )
    whole = read_whole(model.storage, model.checkpoint)
    for place, table in tables.items():
        source, snapshot = model.sources[place], last_snapshot(offsets[place])
        if snapshot is None:
            # It had no rows when it was read last: Iceberg would begin with the oldest snapshot that is there.
            if has_lost_its_beginning(spark, source):
                raise StreamError(lost(spark, model, source))
        elif not table.follows(snapshot):
            raise broken_off(model, place, table, snapshot)
        elif place in whole and table.snapshot_id is not None:
            _check_unchanged(
                model, place, table, table.snapshot_id, table.between(snapshot, table.snapshot_id) or ()
            )


def check_continues(
    model: StreamModel, tables: Mapping[int, IcebergTable], starts: Sequence[str], ends: Sequence[str]
) -> None:
    """Return if each table came from the snapshot at which a micro-batch begins to that at which it ends by adding rows.

    Args:
        model: the model.
        tables: its tables as they are now, by the places of its sources.
        starts: the offsets at which the micro-batch begins; none: it is the first one.
        ends: the offsets at which it ends.

    Raises:
        StreamError: one didn't; and what to run.
    """
    for place, table in tables.items():
        start = last_snapshot(starts[place]) if place < len(starts) else None
        if start is None:
            continue  # nothing was read of it
        end = last_snapshot(ends[place])
        between = None if end is None else table.between(start, end)
        if between is None:
            raise broken_off(model, place, table, start)
        _check_unchanged(model, place, table, end, between)


def _check_unchanged(
    model: StreamModel, place: int, table: IcebergTable, end: int | None, past: Sequence[str]
) -> None:
    """Return if rows of a table were only added since it was read, but for changes that the first micro-batch has read.

    Args:
        model: the model.
        place: of the table among its sources.
        table: the table.
        end: the snapshot up to which rows come.
        past: what made the snapshots since it was read, the newest first.
    """
    changed = read_whole(model.storage, model.checkpoint).get(place)
    after = None if changed is None or end is None else table.between(changed, end)
    if after is not None and len(after) < len(past):
        past = after
    elif changed is not None and end is not None and table.between(end, changed) is not None:
        return
    source = model.sources[place]
    if changes := _changes(source, past):
        raise StreamError(rows_changed(model, changes[-1], [source.location]))


def broken_off(model: StreamModel, place: int, table: IcebergTable, snapshot: int) -> StreamError:
    """Returns what to say of a table that doesn't come from the snapshot up to which it was read."""
    if not table.follows(snapshot) and table.left(snapshot):
        return StreamError(put_back(model, place, table))
    return StreamError(replaced(model, table.name, can_begin(table)))


def can_begin(table: IcebergTable) -> bool:
    """Whether a stream can begin with a table as it is now."""
    return table.newest_append() is not None or {*table.past()} <= {APPEND, REPLACE}


def _changes(source: StreamSource, past: Iterable[str]) -> list[str]:
    """The operations that changed rows of a table, but those that the source's options pass over."""
    passed_over = {kind for kind in past if source.option(f"streaming-skip-{kind}-snapshots") == "true"}
    return [kind for kind in past if kind not in {APPEND, REPLACE, *passed_over}]


def check_versions(spark: SparkSession, model: StreamModel) -> None:
    """Return unless a table that the model has read belongs to another version of its model by now: its key may be another
    one, and then also what this model's query is taken for.

    Raises:
        StreamError: one does; and what to run.
    """
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None:
        return
    offsets = read_offsets(model.storage, model.checkpoint, checkpoint.planned)
    for name, offset in zip(noted_sources(model.storage, model.checkpoint), offsets, strict=False):
        snapshot = last_snapshot(offset)
        deployed = None if snapshot is None else of_table(model.storage, name)
        if snapshot is not None and deployed is not None:
            table = load(spark, name)
            if table is None or not table.has(snapshot):
                raise StreamError(swapped(model, name, deployed))


def check_beginnings(spark: SparkSession, model: StreamModel) -> None:
    """Return if each table can be read from its beginning, by a model that begins or begins anew.

    Args:
        spark: any session.
        model: the model.

    Raises:
        StreamError: one can't; and what to run.
    """
    for source in model.sources:
        if source.is_table:
            _check_beginning(spark, model, source)


def _check_beginning(spark: SparkSession, model: StreamModel, source: StreamSource) -> None:
    table = load(spark, source.location)
    if table is None or source.option(FROM_TIMESTAMP) is not None:
        return
    if table.has_lost_rows:
        if table.newest_append() is None:
            raise StreamError(lost(spark, model, source))
        return
    past = [kind for kind in table.past() if kind != EXPIRED]
    changes = [] if table.newest_append() is not None else _changes(source, past)
    if past and past[-1] in changes:
        raise StreamError(
            f"Model {model.name}: the table {source.location} that it streams from begins with an Iceberg {past[-1]} "
            "snapshot, as CREATE OR REPLACE TABLE … AS leaves it, and a stream takes in appended rows only. "
            f"{_WHO_APPENDS} To begin with the table made from scratch: {model.make_anew(source.location)}."
        )
    if changes:
        raise StreamError(rows_changed(model, changes[-1], [source.location]))


def has_lost_its_beginning(spark: SparkSession, source: StreamSource) -> bool:
    """Whether a source is a table that can't be read snapshot by snapshot, from the first one on."""
    if not source.is_table or FROM_TIMESTAMP in {name.lower() for name in source.options}:
        return False
    table = load(spark, source.location)
    return table is not None and table.has_lost_rows


def has_changed_rows(spark: SparkSession, source: StreamSource) -> bool:
    """Whether a source is a table of which rows were changed or deleted, so that its snapshots can't be read one by one."""
    if not source.is_table or FROM_TIMESTAMP in {name.lower() for name in source.options}:
        return False
    table = load(spark, source.location)
    return table is not None and bool(_changes(source, [kind for kind in table.past() if kind != EXPIRED]))


def readers_beyond(storage: Storage, table: IcebergTable) -> Iterator[str]:
    """The streams of a storage root that have read a snapshot of a table which no longer leads to its current one."""
    for name in storage.list(storage.checkpoints):
        path = f"{storage.checkpoints}/{name}"
        try:
            checkpoint, reads = read_checkpoint(storage, path), noted_sources(storage, path)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it is none, or can't be read
        if checkpoint is None or checkpoint.planned is None:
            continue
        offsets = read_offsets(storage, path, checkpoint.planned)
        for source, offset in zip(reads, offsets, strict=False):
            snapshot = last_snapshot(offset)
            if parts(source) == parts(table.name) and snapshot is not None and not table.follows(snapshot):
                yield name


def lost(spark: SparkSession, model: StreamModel, source: StreamSource) -> str:
    """What to do about a table that can't be read from its beginning."""
    table = load(spark, source.location)
    if table is not None and table.newest_append() is not None:
        remedy = f"Build this model anew, and it begins with all rows that the table holds: {model.rebuild}."
    else:
        remedy = (
            f"Have the table made anew ({model.make_anew(source.location)}), or begin the stream after a time, with its "
            f"option '{FROM_TIMESTAMP}' (in milliseconds since 1970)."
        )
    return (
        f"Model {model.name}: the first snapshots of the table {source.location} that it streams from have "
        f"expired, so a stream from the table's beginning would lack the rows they added. {remedy}"
    )


def overtaken(model: StreamModel, source: StreamSource) -> str:
    """What to do about a table that was written or maintained just when a stream began with it."""
    return (
        f"Model {model.name}: snapshots of the table {source.location} came or expired while its stream began. Nothing was "
        "taken in; run it again."
    )


def replaced(model: StreamModel, table: str, from_scratch: bool) -> str:
    """What to do about a table that was built anew.

    Args:
        model: who reads it.
        table: its name.
        from_scratch: whether a stream can begin with it as it is now.
    """
    is_seed = model.is_seed(table)
    if from_scratch:
        remedy = (
            f"Build this model anew too: {model.rebuild}; with all models that read the {'seed' if is_seed else 'table'} "
            f"in turn: {model.make_anew(table)}."
        )
    else:
        remedy = f"Build both anew, the table from scratch: {model.make_anew(table)}."
    if is_seed:
        return (
            f"Model {model.name}: the table {table} of the seed that it streams from was made anew, as it is where rows of "
            "the seed's file were changed or taken out, where its columns or their types are others, and with "
            f"--full-refresh. So new rows can't be told from those that are in already. {remedy} (Rows that are only added "
            "to the file come as new rows.)"
        )
    return (
        f"Model {model.name}: the table {table} that it streams from was built anew (or rolled back, or the last snapshot "
        f"read of it has expired), so new rows can't be told from those that are in already. {remedy} {_WHO_APPENDS}"
    )


def swapped(model: StreamModel, table: str, deployed: Deployment) -> str:
    """What to do about a table that is another version's than the one that was read.

    Args:
        model: who reads it.
        table: its name.
        deployed: what made it so.
    """
    is_new = deployed.phase == PROMOTED
    back = "rollback" if is_new else "promote"
    return (
        f"Model {model.name}: the table {table} that it streams from is of another version of {deployed.model} since "
        f"`dbt-stream deploy {'promote' if is_new else 'rollback'} {deployed.model}`, with rows of its own. Build this "
        f"model anew from them, beside the old one ({model.deploy}) or in its place ({model.rebuild}). To have it go on as "
        f"it was: `dbt-stream deploy {back} {deployed.model}`."
    )


def put_back(model: StreamModel, place: int, table: IcebergTable) -> str:
    """What to do about a table that is what it was before some of its rows were read.

    Args:
        model: who reads it.
        place: of the table among its sources.
        table: the table.
    """
    fitting = [
        each.name
        for each in listed(model.storage, model.savepoints)
        if (begins := next_snapshots(model.storage, checkpoint_of(model, each.name)).get(place)) is not None
        and table.follows(begins)
    ]
    if fitting:
        remedy = f"Put this model back as well: `dbt-stream state restore {model.name} {fitting[-1]}`. Or build it anew: "
    else:
        remedy = "Build this model anew too: "
    return (
        f"Model {model.name}: the table {table.name} that it streams from was put back (by `dbt-stream state restore`, or a "
        "rollback of Iceberg's) to before what this model has read last, so it has rows in that the table hasn't any more. "
        f"{remedy}{model.rebuild}."
    )


_WHO_APPENDS = (
    "(A model that is materialized as a table is built anew by every `dbt run`; an incremental one that appends, or a "
    "streaming one, is not.)"
)
