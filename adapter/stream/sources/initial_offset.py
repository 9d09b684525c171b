"""Where Iceberg's stream began: told where Iceberg finds no beginning, and moved along with the stream.

Iceberg notes in the checkpoint from which snapshot a stream began (its *initial offset*), and `availableNow` walks
from there to the newest one at each start, though the snapshots on the way were read long ago. With every run the walk
gets longer, and once the first snapshot has expired the stream doesn't start any more (apache/iceberg#18000). What
micro-batches take is in the checkpoint's log of offsets; after the first, nothing else reads that note. So before a
run it is set to the last snapshot that was read.

A table whose first snapshots have expired can't be read snapshot by snapshot, nor can one of which rows were changed or
deleted. There a stream begins with the newest one that added files, and its first micro-batch has the rows of the table as
it is where that micro-batch ends, or where the last change was made, read as in batch (`sources.as_a_whole`). Iceberg is
told to pass over changes then, and later ones are found by `upstream.check_continues`. Iceberg's own way to begin with all
files, *scan_all_files*, also reads those that were deleted or compacted away, as long as a manifest still lists them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dbt.adapters.events.logging import AdapterLogger

from ..common.failpoints import around
from ..common.model import StreamModel, StreamSource
from ..iceberg.table import IcebergTable, load
from ..storage.checkpoint import last_snapshot, read_checkpoint, read_offsets, read_whole, whole_file
from .upstream import FROM_TIMESTAMP, has_changed_rows, has_lost_its_beginning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Spark")

_NEVER = str(2**62)


def begin_with_all(spark: SparkSession, model: StreamModel) -> bool:
    """Have a stream that begins read tables as a whole where their first snapshots have expired, or rows were changed or
    deleted; whether there are any.

    What they hold has to be one micro-batch, whatever the limits of the sources.
    """
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is not None and checkpoint.planned is not None:
        return False
    found: dict[int, int | None] = {}
    for number, source in enumerate(model.sources):
        changed = has_changed_rows(spark, source)
        if not changed and not has_lost_its_beginning(spark, source):
            continue
        table = load(spark, source.location)
        snapshot = table.newest_append() if table is not None else None
        if table is not None and snapshot is not None:
            _note(model, number, snapshot, position=0)
            found[number] = table.snapshot_id if changed else None
    if found or model.storage.exists(whole_file(model.checkpoint)):
        model.storage.write_text(whole_file(model.checkpoint), json.dumps(found))
    return bool(found) or bootstrapped_from(model) is not None


def has_to_begin_again(spark: SparkSession, model: StreamModel) -> bool:
    """Whether the first micro-batch is planned, was never taken in, and lacks rows whose snapshots have expired since."""
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.done is not None:
        return False
    return lacks_rows(spark, model, 0, with_all=True) is not None


def begins_with_all(model: StreamModel) -> bool:
    """Whether the first micro-batch, which reads tables as a whole, is planned and not over."""
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None or checkpoint.done is not None:
        return False
    return bool(read_whole(model.storage, model.checkpoint)) or bootstrapped_from(model) is not None


class SnapshotRead(NamedTuple):
    """A table that a micro-batch reads as it is at a snapshot."""

    table: str
    snapshot: int
    beside: bool = False
    """Whether its rows come beside those of the micro-batch; else in their place."""


def whole_tables(spark: SparkSession, model: StreamModel) -> dict[str, SnapshotRead]:
    """The tables that the first micro-batch reads as a whole, by what the query calls their streams."""
    if (bootstrap := bootstrapped_from(model)) is not None:
        return {model.sources[0].relation: bootstrap}
    ends = read_offsets(model.storage, model.checkpoint, 0)
    found = {}
    for number, changed in read_whole(model.storage, model.checkpoint).items():
        end = last_snapshot(ends[number]) if number < len(ends) else None
        if end is not None:
            table = IcebergTable(spark, model.sources[number].location)
            # Spark ends with the last rows that were added, though rows may have been deleted since.
            is_past = changed is not None and table.between(end, changed) is not None
            found[model.sources[number].relation] = SnapshotRead(
                table.name, changed if is_past and changed else end
            )
    return found


def bootstrapped_from(model: StreamModel) -> SnapshotRead | None:
    """The table that the first micro-batch has in the place of what its source has had until then; None: there is none."""
    text = model.storage.read_text(_bootstrap(model))
    return None if text is None else SnapshotRead(**json.loads(text))


def wait_for_source(model: StreamModel) -> None:
    """Have a stream that begins with another table's rows take them in with the first rows of its source, where that has
    none yet: a micro-batch needs some."""
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    bootstrap = bootstrapped_from(model)
    if bootstrap is None or (checkpoint is not None and checkpoint.planned is not None):
        return
    model.storage.write_text(_bootstrap(model), json.dumps(bootstrap._replace(beside=True)._asdict()))
    logger.warning(
        f"Model {model.name}: its source {model.sources[0].relation} has no rows yet. Those of {bootstrap.table} are taken "
        "in together with its first."
    )


def note_bootstrap(model: StreamModel, table: str, snapshot: int) -> None:
    """Note the table that a stream begins with. To be called until its first micro-batch is planned."""
    model.storage.write_text(_bootstrap(model), json.dumps(SnapshotRead(table, snapshot)._asdict()))


def _bootstrap(model: StreamModel) -> str:
    return f"{model.checkpoint}/bootstrap.json"


def begin_again(model: StreamModel) -> None:
    """Forget what the first micro-batch was to be, but not in which order the sources are, nor which stream it is of."""
    for each in ("offsets", "commits", "sources"):
        model.storage.delete(f"{model.checkpoint}/{each}")


def lacks_rows(spark: SparkSession, model: StreamModel, number: int, with_all: bool) -> StreamSource | None:
    """A table of which a micro-batch is the first with rows, and lacks some, for its first snapshots expired while the
    stream began; None: there is none.

    Args:
        spark: a session.
        model: the model, its sources in the order of the checkpoint.
        number: the micro-batch, whose input is fixed.
        with_all: whether it has all rows of the tables that are to be read as a whole.
    """
    ends = read_offsets(model.storage, model.checkpoint, number)
    starts = read_offsets(model.storage, model.checkpoint, number - 1) if number else []
    known = [*read_whole(model.storage, model.checkpoint)] if with_all else []
    if with_all and bootstrapped_from(model) is not None:
        known = [0]
    for place, (source, end) in enumerate(zip(model.sources, ends, strict=False)):
        begins = source.is_table and last_snapshot(end) is not None and place not in known
        if not begins or (place < len(starts) and last_snapshot(starts[place]) is not None):
            continue
        if has_lost_its_beginning(spark, source):
            return source
    return None


def move_along(model: StreamModel, taken_in: int = -1) -> None:
    """Set the initial offset of each table to the last snapshot that was read of it.

    Args:
        model: the model, its sources in the order of the checkpoint.
        taken_in: the last micro-batch of which all rows are in, also where a crash came before Spark noted that.
    """
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None or checkpoint.planned is None:
        return
    done = max(-1 if checkpoint.done is None else checkpoint.done, min(taken_in, checkpoint.planned))
    if done < 0:
        return  # the first micro-batch begins at the initial offset
    offsets = read_offsets(model.storage, model.checkpoint, done)
    for number, offset in enumerate(offsets):
        snapshot = last_snapshot(offset)
        if snapshot is not None and model.storage.exists(_place(model, number)):
            # Before the snapshot's first file. At its end, Iceberg finds nothing newer and fails of having no offset.
            # The first micro-batch, which Spark will go through once more though it is in, begins where the note says.
            position = -1 if checkpoint.done is not None else 0
            with around("checkpoint.move", model.name):
                _note(model, number, snapshot, position)


def _place(model: StreamModel, number: int) -> str:
    return f"{model.checkpoint}/sources/{number}/offsets/0"


def _note(model: StreamModel, number: int, snapshot: int, position: int) -> None:
    note = {"version": 1, "snapshot_id": snapshot, "position": position, "scan_all_files": False}
    place = _place(model, number)
    # Hadoop's checksum of what was there before.
    model.storage.delete(f"{place.removesuffix('0')}.0.crc")
    model.storage.write_text(place, json.dumps(note))


def blank_tables(spark: SparkSession, model: StreamModel) -> list[IcebergTable]:
    """Returns the tables that a query which begins now never reads rows of, by `reading_options`."""
    tables = (load(spark, source.location) for source in model.sources if source.is_table)
    return [table for table in tables if table is not None and table.is_blank]


def reading_options(spark: SparkSession, model: StreamModel, source: StreamSource) -> Mapping[str, str]:
    """The options to read a table as a stream with.

    A table to which one commit was made, of no rows, has nothing to begin with yet, and Iceberg fails on it. So the query is
    told to wait for ever; it is started again once the table has rows.
    """
    table = load(spark, source.location)
    if source in model.sources:
        whole = read_whole(model.storage, model.checkpoint)
        if whole.get(model.sources.index(source)) is not None:
            return {
                **source.options,
                **{f"streaming-skip-{kind}-snapshots": "true" for kind in ("delete", "overwrite")},
            }
    if table is None or not table.is_blank:
        return source.options
    return {**source.options, FROM_TIMESTAMP: _NEVER}
