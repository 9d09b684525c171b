"""What a stream has read of its sources so far, as views for batch: the same rows, whatever came since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...query.program import Program
from ...sources.limits import without_limits
from ...util.text import agreeing, counted
from ..common.errors import StreamError
from ..common.identifiers import joined, parts
from ..common.model import CHANGES, StreamModel, StreamSource, plain_path
from ..iceberg.table import APPEND, REPLACE, IcebergTable, load
from ..progress.position import FOLLOWS, read_position
from ..storage.checkpoint import files_read, read_offsets, read_whole
from ..storage.source_order import in_first_order, noted_sources
from .changed_files import ReadFiles
from .initial_offset import bootstrapped_from
from .upstream import FROM_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VIEW = "__read_so_far_"


@dataclass
class Pinned:
    """What a stream has read."""

    views: dict[str, str] = field(default_factory=dict)
    """By what the query calls a stream, the view with its rows. Those of folders are read as they are."""
    notes: list[str] = field(default_factory=list)
    """What is to be known of it, as sentences."""


def pin(session: SparkSession, model: StreamModel, program: Program, batch: int) -> Pinned:
    """Make views of what a stream has read, up to the end of a micro-batch.

    Args:
        session: to make them in.
        model: the model.
        program: what a micro-batch does.
        batch: the last one that is in the table.

    Raises:
        StreamError: that can't be read in batch.
    """
    if bootstrapped_from(model) is not None:
        raise StreamError(
            f"Model {model.name} began with the rows of another table (`dbt-stream state bootstrap`), so a batch run over "
            "its sources has others."
        )
    order = in_first_order(model, program.inputs)
    offsets = read_offsets(model.storage, model.checkpoint, batch)
    if len(offsets) != len(order.model.sources):
        raise StreamError(
            f"Model {model.name}: its checkpoint {model.checkpoint} doesn't say how far micro-batch {batch} has read. "
            f"{_first(model)}"
        )
    feeds = {each.relation for each in program.inputs if each.feed}
    ReadFiles(session, order.model).check(batch)
    pinned = Pinned()
    for place, (source, offset) in enumerate(zip(order.model.sources, offsets, strict=True)):
        if source.is_table and source.relation in feeds:
            rows = _upstream(session, model, source, offset)
        elif source.is_table:
            rows = _table(session, model, source, offset, pinned)
        elif source.is_files:
            _check_files(session, model, source, files_read(model.storage, model.checkpoint, place))
            continue
        else:
            raise StreamError(
                f"Model {model.name}: its source {source.relation} is Kafka, which a batch run reads from whatever is kept "
                "until now, and the stream has read until another time. Write the topic to a table with a model of its own, "
                "and verify what reads that."
            )
        view = f"{_VIEW}{place}"
        session.sql(rows).createOrReplaceTempView(view)
        pinned.views[source.relation] = view
    return pinned


def _first(model: StreamModel) -> str:
    return f"Run the model first: `dbt run --select {model.name}`."


def _loaded(session: SparkSession, model: StreamModel, name: str) -> IcebergTable:
    table = load(session, name)
    if table is None:
        raise StreamError(f"Model {model.name}: its source {name} is gone.")
    return table


def _table(
    session: SparkSession, model: StreamModel, source: StreamSource, offset: str, pinned: Pinned
) -> str:
    """A query for what was read of a table."""
    if FROM_TIMESTAMP in {name.lower() for name in source.options}:
        raise StreamError(
            f"Model {model.name}: its source {source.relation} is read from a time on ({FROM_TIMESTAMP}), and a batch run "
            "reads all of it."
        )
    table = _loaded(session, model, source.location)
    at = _fully_read(model, source, table, offset)
    if at is None:
        return f"select * from {table.name}"
    unread = _unread(table, at)
    operations = {each.operation for each in table.lineage()} - {APPEND, REPLACE}
    if operations:
        pinned.notes.append(
            f"Rows of {source.relation} were changed by others than by appending ({', '.join(sorted(operations))} snapshots)"
            "; a stream doesn't see that, a batch run does."
        )
    if unread:
        pinned.notes.append(
            f"{counted(unread, 'row')} came to {source.relation} since the model's last run; a batch run leaves them out "
            "too."
        )
    return f"select * from {table.at(at)}"


def _fully_read(model: StreamModel, source: StreamSource, table: IcebergTable, offset: str) -> int | None:
    try:
        return fully_read(model, source, table, offset)
    except StreamError as problem:
        raise StreamError(f"{problem.msg} {_first(model)}") from problem


def fully_read(model: StreamModel, source: StreamSource, table: IcebergTable, offset: str) -> int | None:
    """The snapshot up to which, and with which, a table was read; None: it had no rows, and has none.

    Raises:
        StreamError: it was read up to the middle of one, or the table doesn't have it any more.
    """
    found = _Offset.read(offset)
    if found is None:
        if table.count("total-records"):
            raise StreamError(
                f"Model {model.name} has read nothing of {source.relation} yet, which has rows."
            )
        return None
    if not table.follows(found.snapshot):
        raise StreamError(
            f"Model {model.name}: {source.relation} no longer has the snapshot {found.snapshot} up to which the model has "
            "read it: it has expired, or the table was built anew."
        )
    summary = table.java.snapshot(found.snapshot).summary()
    files = int(summary.get("total-data-files" if found.all_files else "added-data-files") or 0)
    if 0 <= found.position < files:
        raise StreamError(
            f"Model {model.name} has read {found.position} of {files} files of the snapshot {found.snapshot} of "
            f"{source.relation}: its run ended in between."
        )
    if found.position < 0 < files:
        raise StreamError(
            f"Model {model.name} has not read the snapshot {found.snapshot} of {source.relation} yet."
        )
    return _began_with(model, table, found.snapshot) or found.snapshot


def _began_with(model: StreamModel, table: IcebergTable, snapshot: int) -> int | None:
    """The snapshot as of which a stream began with a table, if that is later than one; None: it isn't."""
    whole = read_whole(model.storage, model.checkpoint)
    for place, name in enumerate(noted_sources(model.storage, model.checkpoint)):
        began = whole.get(place)
        if began is not None and parts(name) == parts(table.name) and table.has(began):
            return began if table.between(snapshot, began) is not None else None
    return None


def _unread(table: IcebergTable, at: int | None) -> int:
    """How many rows came to a table after one of its snapshots; None: ever."""
    rows = 0
    for snapshot in table.snapshots():
        if int(snapshot.snapshotId()) == at:
            break
        if snapshot.operation() == APPEND:
            rows += int(snapshot.summary().get("added-records") or 0)
    return rows


@dataclass(frozen=True)
class _Offset:
    """How far a table was read."""

    snapshot: int
    position: int
    """So many of its files."""
    all_files: bool
    """Whether these are all files of the table then; else those that came with the snapshot."""

    @staticmethod
    def read(text: str) -> _Offset | None:
        """From a checkpoint; None: nothing was read.

        >>> _Offset.read('{"version":1,"snapshot_id":17,"position":2,"scan_all_files":false}')
        _Offset(snapshot=17, position=2, all_files=False)
        >>> _Offset.read('{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}')
        >>> _Offset.read('-')
        """
        try:
            found = json.loads(text)
        except ValueError:
            return None
        if not isinstance(found, dict) or found.get("snapshot_id", -1) < 0:
            return None
        return _Offset(found["snapshot_id"], found["position"], found.get("scan_all_files", False))


def _upstream(session: SparkSession, model: StreamModel, source: StreamSource, offset: str) -> str:
    """A query for the table whose changes were read, if all of them were."""
    feed = _loaded(session, model, source.location)
    at = _fully_read(model, source, feed, offset)
    *above, name = parts(source.location)
    upstream = _loaded(session, model, joined([*above, name.removesuffix(CHANGES)]))
    changes, rows = (read_position(each.last_summary()) for each in (feed, upstream))
    # A step is in the feed before it is in the table.
    ahead = changes is not None and (rows is None or changes.step > rows.step)
    others = upstream.changed_by_others()
    if ahead or (others is not None and feed.last_summary().get(FOLLOWS) != str(others)):
        raise StreamError(
            f"Model {model.name}: the table and the changelog of {source.relation} don't say the same: its last run was cut "
            f"short, or somebody changed the table since. Run both models first: `dbt run --select 1+{model.name}`."
        )
    if _unread(feed, at):
        raise StreamError(
            f"Model {model.name} has not read all changes of {source.relation} yet, whose rows are only known as they are "
            f"now. {_first(model)}"
        )
    if upstream.known is None:
        return f"select * from {upstream.name}"
    return f"select * from {upstream.at(upstream.known)}"


def _check_files(session: SparkSession, model: StreamModel, source: StreamSource, read: set[str]) -> None:
    """Passes a folder whose files are those that were read."""
    reader = session.read.format(source.format).options(**without_limits(source.options))
    if source.schema is not None:
        reader = reader.schema(source.schema)
    there = set(_plain(reader.load(source.location).inputFiles()))
    known = set(_plain(read))
    if there - known:
        raise StreamError(
            f"Model {model.name} has not read {counted(len(there - known), 'file')} of {source.relation} yet. "
            f"{_first(model)}"
        )
    if known - there:
        raise StreamError(
            f"Model {model.name}: {counted(len(known - there), 'file')} that it has read of {source.relation} "
            f"{agreeing(len(known - there), 'is', 'are')} gone, so a batch run "
            "has other rows."
        )


def _plain(files: Iterable[str]) -> Iterator[str]:
    return map(plain_path, files)
