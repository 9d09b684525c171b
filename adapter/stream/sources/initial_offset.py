"""Sets the initial offset of Iceberg streams: where Iceberg finds none, and again as the stream advances.

Iceberg stores in the checkpoint the snapshot that a stream began with (its *initial offset*), and `availableNow`
walks from there to the newest one at each start, though the stream has read the snapshots in between. The walk gets
longer with every run, and once the first snapshot has expired the stream fails to start (apache/iceberg#18000). The
checkpoint's offset log has the input of micro-batches, so only the first one reads the initial offset. Before each
run it is set to the last snapshot that was read.

A table can't be read snapshot by snapshot if its first snapshots have expired, or if rows were updated or deleted.
Its stream begins with the newest snapshot that added files, and the first micro-batch reads the whole table in batch
(`readers.with_rows_of_tables`), at its end offset or at the last update. Iceberg then skips updates, and
`upstream.check_continues` detects later ones. Iceberg's own option, *scan_all_files*, also reads files that were
deleted or compacted, as long as a manifest lists them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dbt.adapters.events.logging import AdapterLogger

from ..common.failpoints import around
from ..common.model import StreamModel, StreamSource
from ..iceberg.table import IcebergTable, load_table
from ..storage.checkpoint import (
    last_snapshot,
    planned_batch,
    read_checkpoint,
    read_offsets,
    read_values_by_source,
    sources_read_whole,
    whole_sources_file,
)
from .changed_files import FILES
from .upstream import FROM_TIMESTAMP, has_changed_rows, has_lost_its_beginning, table_from_beginning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...environment.storage import Storage

logger = AdapterLogger("Spark")

_NEVER = str(2**62)
_EARLIEST = {"startingoffsets": "earliest"}
_OF_KAFKA = "\0v"
"""Spark's connector for Kafka begins the file of an initial offset with this; the log of read files begins with v."""


def prepare_initial_load(spark: SparkSession, model: StreamModel) -> bool:
    """Sets up a new stream to read tables as a whole if their first snapshots have expired, or rows were updated or
    deleted. Returns whether there are such tables, or a bootstrap table.

    The first micro-batch has to contain all their rows, whatever the limits of the sources.
    """
    if planned_batch(model.storage, model.checkpoint) is not None:
        return False
    _delete_outdated_offsets(model)
    found: dict[int, int | None] = {}
    for number, source in enumerate(model.sources):
        if (table := table_from_beginning(spark, source)) is None:
            continue
        changed = has_changed_rows(source, table)
        snapshot = table.newest_append() if changed or table.has_lost_rows else None
        if snapshot is not None:
            _write_offset(model, number, snapshot, position=0)
            found[number] = table.snapshot_id if changed else None
    if found or model.storage.exists(whole_sources_file(model.checkpoint)):
        model.storage.write_text(whole_sources_file(model.checkpoint), json.dumps(found))
    return bool(found) or bootstrapped_from(model) is not None


def _delete_outdated_offsets(model: StreamModel) -> None:
    """Deletes initial offsets that an earlier attempt left, with other options of the sources: rows before them would be
    skipped. Offsets of the same options stay: each run would begin with newer messages than the one before."""
    storage, file = model.storage, f"{model.checkpoint}/starts.json"
    known, starts = read_values_by_source(storage, file), {}
    for number, source in enumerate(model.sources):
        if source.is_table:
            storage.delete(_offset_path(model, number))
        if source.format != "kafka":
            continue
        given = {name.lower(): value for name, value in source.options.items()}
        start = {name: value for name, value in given.items() if name.startswith("starting")} or _EARLIEST
        starts[number] = start
        path = f"{model.checkpoint}/sources/{number}/0"
        is_other = start == _EARLIEST or start != known.get(number, start)
        if is_other and (storage.read_text(path) or "").startswith(_OF_KAFKA):
            _delete_checksum(storage, path)
            storage.delete(path)
    if starts and starts != known:
        storage.write_text(file, json.dumps(starts))


def has_to_begin_again(spark: SparkSession, model: StreamModel) -> bool:
    """Returns whether the first micro-batch has to be planned again: it isn't ingested, and lacks rows whose snapshots have
    expired."""
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.done is not None:
        return False
    return source_lacking_rows(spark, model, 0, with_all=True) is not None


def is_initial_load_planned(model: StreamModel) -> bool:
    """Returns whether the first micro-batch, which reads tables as a whole, is planned and not finished."""
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None or checkpoint.done is not None:
        return False
    return bool(sources_read_whole(model.storage, model.checkpoint)) or bootstrapped_from(model) is not None


class SnapshotRead(NamedTuple):
    """A table that a micro-batch reads at a snapshot."""

    table: str
    snapshot: int
    beside: bool = False
    """Whether the table's rows are added to the rows of the micro-batch, instead of replacing them."""


def whole_tables(spark: SparkSession, model: StreamModel) -> dict[str, SnapshotRead]:
    """Returns the tables that the first micro-batch reads as a whole, by the relation of their streams."""
    if (bootstrap := bootstrapped_from(model)) is not None:
        return {model.sources[0].relation: bootstrap}
    ends = read_offsets(model.storage, model.checkpoint, 0)
    found = {}
    for number, changed in sources_read_whole(model.storage, model.checkpoint).items():
        end = last_snapshot(ends[number]) if number < len(ends) else None
        if end is not None:
            table = IcebergTable(spark, model.sources[number].location)
            # Spark's offset is the last append, and rows may have been deleted since.
            is_past = changed is not None and table.operations_between(end, changed) is not None
            read = SnapshotRead(table.name, changed if is_past and changed else end)
            found[model.sources[number].relation] = read
    return found


def bootstrapped_from(model: StreamModel) -> SnapshotRead | None:
    """Returns the table that replaces the source's earlier rows in the first micro-batch; None if there is none."""
    text = model.storage.read_text(_bootstrap_file(model))
    return None if text is None else SnapshotRead(**json.loads(text))


def defer_bootstrap_rows(model: StreamModel) -> None:
    """Records that the bootstrap table's rows are ingested with the source's first rows, if no micro-batch could be planned
    because the source has none yet."""
    bootstrap = bootstrapped_from(model)
    if bootstrap is None or planned_batch(model.storage, model.checkpoint) is not None:
        return
    model.storage.write_text(_bootstrap_file(model), json.dumps(bootstrap._replace(beside=True)._asdict()))
    logger.warning(
        f"Model {model.name}: its source {model.sources[0].relation} has no rows yet. The rows of {bootstrap.table} are "
        "ingested together with the source's first rows."
    )


def note_bootstrap(model: StreamModel, table: str, snapshot: int) -> None:
    """Records the table that a stream begins with. Called before the first micro-batch is planned."""
    model.storage.write_text(_bootstrap_file(model), json.dumps(SnapshotRead(table, snapshot)._asdict()))


def _bootstrap_file(model: StreamModel) -> str:
    return f"{model.checkpoint}/bootstrap.json"


def discard_first_batch(model: StreamModel) -> None:
    """Discards the planned first micro-batch, and the times at which its files were changed. Keeps the order of the sources
    and the id of the query."""
    # The times first: without a plan, they would be taken for those of the files that are planned next.
    for each in (FILES, "offsets", "commits", "sources"):
        model.storage.delete(f"{model.checkpoint}/{each}")


def source_lacking_rows(
    spark: SparkSession, model: StreamModel, number: int, with_all: bool
) -> StreamSource | None:
    """Returns a source whose first rows are in this micro-batch, but not all of them, because the table's first snapshots
    expired while the stream began; None if there is none.

    Args:
        with_all: whether the micro-batch has all rows of the tables that are read as a whole.
    """
    ends = read_offsets(model.storage, model.checkpoint, number)
    starts = read_offsets(model.storage, model.checkpoint, number - 1) if number else []
    known = [*sources_read_whole(model.storage, model.checkpoint)] if with_all else []
    if with_all and bootstrapped_from(model) is not None:
        known = [0]
    for place, (source, end) in enumerate(zip(model.sources, ends, strict=False)):
        begins = source.is_table and last_snapshot(end) is not None and place not in known
        if not begins or (place < len(starts) and last_snapshot(starts[place]) is not None):
            continue
        if has_lost_its_beginning(spark, source):
            return source
    return None


def advance_offsets(model: StreamModel, ingested: int = -1) -> None:
    """Sets the initial offset of each table to the last snapshot that was read.

    Args:
        model: the model, its sources in the order of the checkpoint.
        ingested: number of the last fully ingested micro-batch, even if a crash came before Spark recorded it.
    """
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None:
        return
    done = max(-1 if checkpoint.done is None else checkpoint.done, min(ingested, checkpoint.planned))
    if done < 0:
        return  # the first micro-batch begins at the initial offset
    offsets = read_offsets(model.storage, model.checkpoint, done)
    for number, offset in enumerate(offsets):
        snapshot = last_snapshot(offset)
        if snapshot is not None and model.storage.exists(_offset_path(model, number)):
            # Position -1 is before the snapshot's first file; at its end, Iceberg finds no newer offset and fails.
            # Position 0 if Spark will replay the first micro-batch, which begins at the initial offset.
            position = -1 if checkpoint.done is not None else 0
            with around("checkpoint.move", model.name):
                _write_offset(model, number, snapshot, position)


def _offset_path(model: StreamModel, number: int) -> str:
    return f"{model.checkpoint}/sources/{number}/offsets/0"


def _write_offset(model: StreamModel, number: int, snapshot: int, position: int) -> None:
    note = {"version": 1, "snapshot_id": snapshot, "position": position, "scan_all_files": False}
    place = _offset_path(model, number)
    _delete_checksum(model.storage, place)
    model.storage.write_text(place, json.dumps(note))


def _delete_checksum(storage: Storage, path: str) -> None:
    """Deletes Hadoop's checksum of a file that is replaced or deleted. With an old checksum there, Hadoop can't read the new
    file, nor rename a file to its name."""
    folder, _, name = path.rpartition("/")
    storage.delete(f"{folder}/.{name}.crc")


def blank_tables(spark: SparkSession, model: StreamModel) -> list[IcebergTable]:
    """Returns the tables from which a query that starts now reads no rows, because of `reading_options`."""
    tables = (load_table(spark, source.location) for source in model.sources if source.is_table)
    return [table for table in tables if table is not None and table.is_blank]


def reading_options(spark: SparkSession, model: StreamModel, source: StreamSource) -> Mapping[str, str]:
    """Returns the options to read a table as a stream. Iceberg fails on a table with a single commit of no rows. So the
    query starts far in the future, and is restarted once the table has rows."""
    table = load_table(spark, source.location)
    if source in model.sources:
        whole = sources_read_whole(model.storage, model.checkpoint)
        if whole.get(model.sources.index(source)) is not None:
            skipped = {f"streaming-skip-{kind}-snapshots": "true" for kind in ("delete", "overwrite")}
            return {**source.options, **skipped}
    if table is None or not table.is_blank:
        return source.options
    return {**source.options, FROM_TIMESTAMP: _NEVER}
