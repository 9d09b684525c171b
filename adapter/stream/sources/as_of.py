"""Creates batch views of exactly the rows that a stream has read from its sources, without later rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...query.program import CHANGES, Program
from ...sources.limits import without_limits
from ...util.text import counted, verb_form
from ..common.errors import StreamError
from ..common.identifiers import joined_name, parts, with_suffix
from ..common.model import StreamModel, StreamSource, plain_path
from ..iceberg.table import APPEND, REPLACE, IcebergTable, load_table
from ..progress.position import FOLLOWS, read_position
from ..storage.checkpoint import file_entries, last_snapshot, read_offsets, sources_read_whole
from ..storage.source_order import in_checkpoint_order, noted_sources
from .changed_files import ReadFiles
from .initial_offset import bootstrapped_from
from .upstream import FROM_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VIEW = "__read_so_far_"


@dataclass
class SourceSnapshot:
    """Views of the rows that a stream has read."""

    views: dict[str, str] = field(default_factory=dict)
    """Relation of a stream → view with its rows. Folders have none; the query reads them directly."""
    notes: list[str] = field(default_factory=list)
    """Sentences on known differences between the rows of the views and those that the stream read."""


def snapshot_sources(
    session: SparkSession, model: StreamModel, program: Program, batch: int
) -> SourceSnapshot:
    """Creates views of the rows that a stream has read, up to the end of a micro-batch."""
    if bootstrapped_from(model) is not None:
        raise StreamError(
            f"Model {model.name} began with the rows of another table (`dbt-stream state bootstrap`), so a batch run over "
            "its sources has other rows."
        )
    order = in_checkpoint_order(model, program.inputs)
    offsets = read_offsets(model.storage, model.checkpoint, batch)
    if len(offsets) != len(order.model.sources):
        raise StreamError(
            f"Model {model.name}: its checkpoint {model.checkpoint} doesn't say how far micro-batch {batch} has read. "
            f"{_run_first_advice(model)}"
        )
    feeds = {each.relation for each in program.inputs if each.feed}
    ReadFiles(session, order.model).check(batch)
    snapshot = SourceSnapshot()
    for place, (source, offset) in enumerate(zip(order.model.sources, offsets, strict=True)):
        if source.is_table and source.relation in feeds:
            rows = _upstream_rows_sql(session, model, source, offset)
            # `_upstream_rows_sql` raises unless all changes have been read.
            changes = f"{_VIEW}{place}_changes"
            session.table(source.location).createOrReplaceTempView(changes)
            snapshot.views[with_suffix(source.relation, CHANGES)] = changes
        elif source.is_table:
            rows = _rows_read_sql(session, model, source, offset, snapshot)
        elif source.is_files:
            _check_files(session, model, source, file_entries(model.storage, model.checkpoint, place))
            continue
        else:
            raise StreamError(
                f"Model {model.name}: its source {source.relation} is Kafka: a batch run reads the messages that are "
                "kept now, which the stream may not have read, or may have read before others expired. Write the topic to a "
                "table with a separate model, and verify a model that reads this table."
            )
        view = f"{_VIEW}{place}"
        session.sql(rows).createOrReplaceTempView(view)
        snapshot.views[source.relation] = view
    return snapshot


def _run_first_advice(model: StreamModel) -> str:
    return f"Run the model first: `dbt run --select {model.name}`."


def source_table(session: SparkSession, model: StreamModel, name: str) -> IcebergTable:
    """Returns a source's table. Raises `StreamError` if it is gone."""
    table = load_table(session, name)
    if table is None:
        raise StreamError(f"Model {model.name}: its source {name} is gone.")
    return table


def _rows_read_sql(
    session: SparkSession, model: StreamModel, source: StreamSource, offset: str, snapshot: SourceSnapshot
) -> str:
    """Returns SQL for the rows that were read from a table."""
    if source.option(FROM_TIMESTAMP) is not None:
        raise StreamError(
            f"Model {model.name}: its source {source.relation} is read from a time on ({FROM_TIMESTAMP}), and a batch run "
            "reads all of it."
        )
    table = source_table(session, model, source.location)
    at = _fully_read(model, source, table, offset)
    if at is None:
        return f"select * from {table.name}"
    unread = _unread_rows(table, at)
    operations = {each.operation for each in table.lineage()} - {APPEND, REPLACE}
    if operations:
        snapshot.notes.append(
            f"Rows of {source.relation} were updated or deleted ({', '.join(sorted(operations))} snapshots); a stream "
            "doesn't see that, a batch run does."
        )
    if unread:
        snapshot.notes.append(
            f"{counted(unread, 'row')} came to {source.relation} since the model's last run; a batch run leaves them out "
            "too."
        )
    return f"select * from {table.snapshot_sql(at)}"


def _fully_read(model: StreamModel, source: StreamSource, table: IcebergTable, offset: str) -> int | None:
    try:
        return fully_read(model, source, table, offset)
    except StreamError as problem:
        raise StreamError(f"{problem.msg} {_run_first_advice(model)}") from problem


def fully_read(model: StreamModel, source: StreamSource, table: IcebergTable, offset: str) -> int | None:
    """Returns the snapshot up to which a table was fully read; None if it never had rows. Raises `StreamError` if the table
    or a snapshot wasn't fully read, or the table no longer has the snapshot."""
    snapshot = last_snapshot(offset)
    if snapshot is None:
        if table.summary_count("total-records"):
            raise StreamError(
                f"Model {model.name} has read nothing of {source.relation} yet, which has rows."
            )
        return None
    if not table.has_ancestor(snapshot):
        raise StreamError(
            f"Model {model.name}: {source.relation} no longer has the snapshot {snapshot} up to which the model "
            "has read it: it has expired, or the table was rebuilt."
        )
    found = json.loads(offset)
    # The number of files that were read, of the snapshot or of those that it added.
    position = found["position"]
    summary = table.java.snapshot(snapshot).summary()
    files = int(summary.get("total-data-files" if found.get("scan_all_files") else "added-data-files") or 0)
    if 0 <= position < files:
        raise StreamError(
            f"Model {model.name} has read {position} of {files} files of the snapshot {snapshot} of "
            f"{source.relation}: its run ended in between."
        )
    if position < 0 < files:
        raise StreamError(
            f"Model {model.name} has not read the snapshot {snapshot} of {source.relation} yet."
        )
    return _first_snapshot_read(model, table, snapshot) or snapshot


def _first_snapshot_read(model: StreamModel, table: IcebergTable, snapshot: int) -> int | None:
    """Returns the snapshot at which the first micro-batch read a table as a whole, unless it is before `snapshot`."""
    whole = sources_read_whole(model.storage, model.checkpoint)
    for place, name in enumerate(noted_sources(model.storage, model.checkpoint)):
        began = whole.get(place)
        if began is not None and parts(name) == parts(table.name) and table.has_snapshot(began):
            return began if table.operations_between(snapshot, began) is not None else None
    return None


def _unread_rows(table: IcebergTable, at: int | None) -> int:
    """Returns the number of rows appended to a table after a snapshot; None counts all."""
    rows = 0
    for snapshot in table.snapshots():
        if int(snapshot.snapshotId()) == at:
            break
        if snapshot.operation() == APPEND:
            rows += int(snapshot.summary().get("added-records") or 0)
    return rows


def _upstream_rows_sql(session: SparkSession, model: StreamModel, source: StreamSource, offset: str) -> str:
    """Returns SQL for the rows of the table that a changelog belongs to. Raises unless the changelog was fully read and
    matches the table."""
    feed = source_table(session, model, source.location)
    at = _fully_read(model, source, feed, offset)
    *above, name = parts(source.location)
    upstream = source_table(session, model, joined_name([*above, name.removesuffix(CHANGES)]))
    changes, rows = (read_position(each.last_summary()) for each in (feed, upstream))
    # The changelog is written before the table.
    ahead = changes is not None and (rows is None or changes.step > rows.step)
    others = upstream.newest_change_by_others()
    if ahead or (others is not None and feed.last_summary().get(FOLLOWS) != str(others)):
        raise StreamError(
            f"Model {model.name}: the table and the changelog of {source.relation} disagree: its last run was interrupted, "
            f"or somebody changed the table since. Run both models first: `dbt run --select 1+{model.name}`."
        )
    if _unread_rows(feed, at):
        raise StreamError(
            f"Model {model.name} has not read all changes of {source.relation} yet, and only the present values of its "
            f"rows are known. {_run_first_advice(model)}"
        )
    if upstream.known is None:
        return f"select * from {upstream.name}"
    return f"select * from {upstream.snapshot_sql(upstream.known)}"


def _check_files(
    session: SparkSession, model: StreamModel, source: StreamSource, read: Iterable[str]
) -> None:
    """Raises unless the folder has exactly the files that were read."""
    reader = session.read.format(source.format).options(**without_limits(source.options))
    if source.schema is not None:
        reader = reader.schema(source.schema)
    there, known = (
        set(map(plain_path, files)) for files in (reader.load(source.location).inputFiles(), read)
    )
    if there - known:
        raise StreamError(
            f"Model {model.name} has not read {counted(len(there - known), 'file')} of {source.relation} yet. "
            f"{_run_first_advice(model)}"
        )
    if known - there:
        raise StreamError(
            f"Model {model.name}: {counted(len(known - there), 'file')} that it has read of {source.relation} "
            f"{verb_form(len(known - there), 'is', 'are')} gone, so a batch run has other rows."
        )
