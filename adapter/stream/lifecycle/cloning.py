"""Clones a model, or one of its savepoints, into another model: its state, rows and progress.

Rows are copied, because two tables that each delete expired files can't share files. The checkpoint is copied last, and
its id at the very end: until then a run of the model finds a state without a checkpoint and stops.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...query.program import Program
from ...util.types import type_text
from ..common.errors import StreamError, readable_errors
from ..common.failpoints import around
from ..common.model import StreamModel
from ..common.session import working_session
from ..common.table_rows import converted_value
from ..evolution.output_schema import can_hold
from ..iceberg import owner
from ..iceberg.branches import table_snapshot
from ..iceberg.commit import append
from ..iceberg.ownership import owned_table
from ..iceberg.table import IcebergTable, load_table
from ..progress.position import Position, read_position, with_output_counts
from ..progress.report import BatchMetrics, progress_report, with_counts_of_progress, write_progress
from ..progress.watermark import to_text
from ..run.evolve import effect_on_state
from ..run.lock import model_lock
from ..run.recovery import StoredProgress, is_unfinished
from ..run.saving import current_tables, model_tables
from ..sink.upsert import sink_of
from ..state.table import StateTable
from ..storage.checkpoint import METADATA, Checkpoint, copy_checkpoint, next_snapshots, read_checkpoint
from ..storage.savepoints import (
    STATE,
    TABLE,
    Savepoint,
    TableSnapshot,
    check_not_interrupted,
    checkpoint_copy,
    find_savepoint,
    stored_savepoints,
)
from ..storage.source_order import Order, in_checkpoint_order, write_order
from .restoring import missing_part_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COPIED = (STATE, TABLE)


@dataclass(frozen=True)
class Cloned:
    """Result of a clone."""

    batch: int
    watermark: str | None
    state_rows: int | None
    """Number of rows in the state; None if the model has no state."""
    table_rows: int
    next_run: str | None = None
    """Effect of the next run on the state in words, if the clone's query differs; otherwise None."""


@dataclass(frozen=True)
class _Original:
    """The model or savepoint to copy."""

    model: StreamModel
    what: str
    """Description for messages."""
    path: str
    checkpoint: Checkpoint
    tables: Mapping[str, tuple[IcebergTable, TableSnapshot]]
    savepoint: Savepoint | None = None
    """The savepoint, or None if the current state is copied."""

    def check_still_there(self, clone: StreamModel) -> None:
        """Raises if the savepoint was deleted or replaced since it was found: copies of its files may not be whole. No lock
        prevents that, as a savepoint can be cloned while its model runs."""
        if self.savepoint is None:
            return
        check_not_interrupted(self.model)
        stored = stored_savepoints(self.model.storage, self.model.savepoints)
        if self.savepoint not in stored:
            raise StreamError(
                f"Model {clone.name}: {self.what} was deleted or replaced while it was copied, so the copy isn't whole. "
                f"`dbt-stream reset {clone.name}` forgets what was copied; clone another savepoint then."
            )

    def position(self, kind: str) -> Position | None:
        """Returns the last epoch in its table of a kind, or None."""
        if kind not in self.tables:
            return None
        table, was = self.tables[kind]
        table.known = was.snapshot
        return read_position(table.last_summary())

    def rows(self, spark: SparkSession, kind: str) -> DataFrame:
        """Returns the rows of its table of a kind, with the columns at that time."""
        table, was = self.tables[kind]
        if was.snapshot is None:
            return spark.sql(f"select * from {table.name} where false")
        columns = table.snapshot_select_list(was.snapshot, was.schema)
        return spark.sql(f"select {columns} from {table.name} version as of {was.snapshot}")


def check_clone(
    spark: SparkSession, model: StreamModel, program: Program, source: StreamModel, name: str | None
) -> None:
    """Raises unless a model can be a clone of `source`, or of its savepoint `name`. Changes nothing."""
    with readable_errors(model):
        session = working_session(spark)
        _check_model_is_empty(session, model, source)
        with _open_original(session, source, name) as original:
            _check_can_continue(session, model, program, original)


def clone(
    spark: SparkSession, model: StreamModel, program: Program, source: StreamModel, name: str | None
) -> Cloned:
    """Copies state, rows and progress of a model into another one.

    Args:
        model: the clone, with its sources. Its table exists and is empty.
        program: program of the clone's query.
        source: the original model, which is not changed.
        name: name of a savepoint of the original; None for its current state.

    Raises:
        StreamError: the model can't be a clone of the original, or one of them is running; nothing was changed.
    """
    with readable_errors(model), model_lock(spark, model):
        session = working_session(spark)
        _check_model_is_empty(session, model, source)
        with _open_original(session, source, name) as original:
            order, next_run = _check_can_continue(session, model, program, original)
            copied = _copy_model(session, model, program, original, order)
            return replace(copied, next_run=next_run)


def _check_model_is_empty(spark: SparkSession, model: StreamModel, source: StreamModel) -> None:
    """Raises unless the model is empty and is not the original itself."""
    if source.target == model.target:
        raise StreamError(
            f"Model {model.name}: it can't be a clone of itself. Name another model, or another target."
        )
    check_not_interrupted(model)
    table, state = load_table(spark, model.target), owned_table(spark, model, STATE)
    has = [
        what
        for what, there in (
            ("a state", state is not None and state.known is not None),
            ("a checkpoint", read_checkpoint(model.storage, model.checkpoint) is not None),
            ("rows (or had some)", table is not None and table.known is not None),
        )
        if there
    ]
    if has:
        raise StreamError(
            f"Model {model.name}: it has {has[0]} already, and a clone begins with another model's. `dbt-stream reset "
            f"{model.name}` forgets what it has."
        )


@contextmanager
def _open_original(spark: SparkSession, model: StreamModel, name: str | None) -> Iterator[_Original]:
    """Yields a savepoint of a model, by its name; without a name the model's current state, under the model's lock. Raises
    if a part of it is missing."""
    with ExitStack() as stack:
        if name is None:
            stack.enter_context(model_lock(spark, model))
            found = current_tables(spark, model)
            tables = {
                kind: (table, table_snapshot(table))
                for kind, table in found.tables.items()
                if kind in _COPIED and table is not None
            }
            yield _Original(model, f"model {model.name}", model.checkpoint, found.checkpoint, tables)
            return
        check_not_interrupted(model)
        saved = find_savepoint(model, name)
        what = f"the savepoint '{saved.name}' of model {model.name}"
        path = checkpoint_copy(model, saved.name)
        checkpoint = read_checkpoint(model.storage, path)
        if checkpoint is None or checkpoint.missing or checkpoint.query_id != saved.query_id:
            raise StreamError(
                f"Model {model.name}: the copy of the checkpoint of {what}, {path}, isn't whole."
            )
        there, tables = model_tables(spark, model), {}
        for kind in _COPIED:
            table, was = there[kind], saved.tables[kind]
            if was is None:
                continue
            if table is None or table.uuid != was.uuid:
                problem = f"its {kind} was dropped since (there is none now, or another one)"
            else:
                problem = missing_part_text(spark, model, saved, table, was) or ""
                problem = problem and f"{problem} of its {kind} {table.name}"
            if problem or table is None:
                raise StreamError(f"Model {model.name}: {what} can't be copied: {problem}.")
            tables[kind] = (table, was)
        yield _Original(model, what, path, checkpoint, tables, savepoint=saved)


def _check_can_continue(
    spark: SparkSession, model: StreamModel, program: Program, original: _Original
) -> tuple[Order, str | None]:
    """Raises unless the model can continue from the original. Returns the order of its sources in the checkpoint, and the
    effect of the next run on the state, if the query differs."""
    source, what = original.model, original.what
    found = StoredProgress(original.checkpoint, original.position(TABLE), original.position(STATE))
    if is_unfinished(found):
        raise StreamError(
            f"Model {model.name}: {what} has an unfinished epoch, because a run was interrupted. `dbt run --select "
            f"{source.name}` finishes it; clone it then."
        )
    if found.target is None and original.rows(spark, TABLE).limit(1).count():
        raise StreamError(
            f"Model {model.name}: no snapshot of {source.target} says which epoch its rows belong to; they were "
            "expired by hand."
        )
    next_run = _effect_if_usable(spark, model, program, original)
    order = in_checkpoint_order(model, program.inputs, original.path)
    begins = next_snapshots(source.storage, original.path)
    for place, each in enumerate(order.model.sources):
        snapshot = begins.get(place)
        if not each.is_table or snapshot is None:
            continue
        table = load_table(spark, each.location)
        if table is None or not table.has_ancestor(snapshot):
            raise StreamError(
                f"Model {model.name}: the table {each.location} that it streams from doesn't come from the snapshot "
                f"{snapshot}, up to which {what} has read: it is another table, was rebuilt, or its snapshots have "
                "expired. A clone continues where the original stopped reading."
            )
    return order, next_run


def _effect_if_usable(
    spark: SparkSession, model: StreamModel, program: Program, original: _Original
) -> str | None:
    """Raises unless the state of the original can be used with the model's query. Returns the effect of the next run on the
    state, if the query differs."""
    if (STATE in original.tables) != program.keeps_state:
        now, then = ("keeps state", "keeps none") if program.keeps_state else ("keeps no state", "keeps some")
        raise StreamError(
            f"Model {model.name}: its query {now}, and {original.what} {then}. Nothing was changed."
        )
    if STATE not in original.tables:
        return None
    properties = original.tables[STATE][1].properties
    becomes, problem = effect_on_state(spark, model, program, properties, original.what)
    if problem is not None:
        raise StreamError(
            f"Model {model.name}: the state of {original.what} isn't one of its query: {problem} Nothing was changed."
        )
    return becomes.sentence if becomes.is_migration else None


def _copy_model(
    spark: SparkSession, model: StreamModel, program: Program, original: _Original, order: Order
) -> Cloned:
    query_id = str(uuid.uuid4())
    state, out = original.position(STATE), original.position(TABLE)
    sink = sink_of(spark, model, program.upsert)
    made = StateTable(spark, model)
    made.drop_empty_table(spark)
    copied = _with_table_columns(spark, model, original.rows(spark, TABLE))
    rows = copied.count()
    if state is not None:
        position = replace(state, model=model.name, query_id=query_id)
        made.create_with_rows(
            spark, original.rows(spark, STATE), original.tables[STATE][1].properties, position
        )
    if out is not None:
        # The position in an append commit doesn't count that commit's rows (`own_rows`), so they are subtracted here.
        summary = original.tables[TABLE][0].last_summary()
        out = replace(out, rows_out=out.rows_out + sink.uncounted_rows(summary))
        own = sink.uncounted_rows({"added-records": str(rows)})
        position = replace(out, model=model.name, query_id=query_id, rows_out=out.rows_out - own)
        append("table.clone", model, sink.table, copied, position.properties())
    with around("clone.checkpoint", model.name):
        model.storage.delete(model.checkpoint)
        owner.claim(spark, model)
        copy_checkpoint(model.storage, original.path, model.checkpoint, but=[METADATA])
        write_order(order.model)
    # Its files are deleted after the savepoint, so the copy is whole if the savepoint is still there.
    original.check_still_there(model)
    with around("clone.metadata", model.name):
        model.storage.write_text(f"{model.checkpoint}/{METADATA}", json.dumps({"id": query_id}))
    # The progress file doesn't exist yet.
    last = with_counts_of_progress(original.model, out) if state is None and out is not None else state
    assert last is not None
    last = with_output_counts(last, out)
    size = made.total_size() if state is not None else None
    write_progress(
        model, progress_report(replace(last, model=model.name, query_id=query_id), BatchMetrics(), size)
    )
    return Cloned(last.batch, to_text(last.after), size["rows"] if size is not None else None, rows)


def _with_table_columns(spark: SparkSession, model: StreamModel, rows: DataFrame) -> DataFrame:
    """Returns rows with the columns of the model's table, whose types may be wider. Raises if values don't fit."""
    has = {field.name.lower(): field for field in rows.schema.fields}
    listed = []
    for field in spark.table(model.target).schema.fields:
        kind, own = type_text(field.dataType), has.get(field.name.lower())
        if own is not None and not can_hold(type_text(own.dataType).lower(), kind.lower()):
            raise StreamError(
                f"Model {model.name}: its table {model.target} has {field.name} as {kind.upper()}, and the original as "
                f"{type_text(own.dataType).upper()}, which doesn't fit. Let its query give {field.name} as the original "
                f"does, or build it from its sources: {model.rebuild}."
            )
        listed.append(converted_value(own, field))
    return rows.selectExpr(*listed)
