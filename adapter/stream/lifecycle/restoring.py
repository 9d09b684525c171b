"""Restores a model from a savepoint: checkpoint, state, changelog and table.

Each table is restored in a separate commit, so a process may be killed in between. The file `StreamModel.restoring` is
written before the first change and deleted after the last. A run that finds the file stops. Another restore of the same
savepoint repeats all steps, which are idempotent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...query.program import Program
from ...util.text import counted, verb_form
from ..common.errors import StreamError, cause, readable_errors
from ..common.failpoints import around, reached
from ..common.model import StreamModel, StreamSource
from ..common.session import jvm, working_session
from ..iceberg.branches import branches_with_prefix, has_schema, missing_files, restore_table, table_snapshot
from ..iceberg.ownership import check_no_foreign_tables, role_table_name
from ..iceberg.table import IcebergTable, load_table
from ..progress.position import read_position, with_output_counts
from ..progress.report import BatchMetrics, progress_report, write_progress
from ..run.evolve import effect_on_state
from ..run.lock import model_lock
from ..run.saving import delete_locked_savepoint, model_tables, save_before
from ..sink.upsert import sink_of
from ..sources.upstream import readers_beyond
from ..state.table import StateTable
from ..storage.checkpoint import copy_checkpoint, file_entries, next_snapshots, read_checkpoint
from ..storage.deployments import check_no_interrupted_swap
from ..storage.savepoints import (
    BRANCH,
    CHANGELOG,
    RESTORE,
    STATE,
    TABLE,
    Savepoint,
    TableSnapshot,
    checkpoint_copy,
    find_savepoint,
    restore_in_progress,
    stored_savepoints,
)
from ..storage.source_order import in_checkpoint_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Restored:
    """Result of a restore."""

    savepoint: Savepoint
    kept_as: str | None
    """Name of the savepoint from before the restore; None if there is none."""
    not_kept: str | None
    """Reason why no savepoint could be created before the restore; None otherwise."""
    next_run: str | None
    """Effect of the next run on the state in words, if the query was edited since; otherwise None."""
    readers: tuple[str, ...]
    """Streams that have read rows that the restored tables no longer contain."""


def restore(spark: SparkSession, model: StreamModel, program: Program, name: str) -> Restored:
    """Restores a model from a savepoint. Creates a savepoint of the current state first, if its tables match. Raises
    `StreamError` if there is no such savepoint, it can't be restored, or the model is running. Nothing was changed."""
    with readable_errors(model), model_lock(spark, model):
        check_no_interrupted_swap(model)
        return _restore_savepoint(
            working_session(spark), model, program, find_savepoint(model, name), keep=True
        )


def undo(spark: SparkSession, model: StreamModel, program: Program) -> Restored:
    """Restores a model from its newest automatic savepoint, and deletes that savepoint. Raises `StreamError` if there
    is no automatic savepoint, or as in `restore`."""
    with readable_errors(model), model_lock(spark, model):
        check_no_interrupted_swap(model)
        session = working_session(spark)
        found = [each for each in stored_savepoints(model.storage, model.savepoints) if each.is_automatic]
        if not found:
            raise StreamError(
                f"Model {model.name}: there is nothing to undo. A savepoint is taken before its state is continued "
                "with an edited query, edited or restored, and there is none."
            )
        done = _restore_savepoint(session, model, program, found[-1], keep=False)
        delete_locked_savepoint(session, model, found[-1].name)
        return done


def _restore_savepoint(
    spark: SparkSession, model: StreamModel, program: Program, saved: Savepoint, keep: bool
) -> Restored:
    begun = restore_in_progress(model)
    tables = model_tables(spark, model)
    snapshots = _snapshots_to_restore(spark, model, saved, tables)
    next_run = _effect_if_usable(spark, model, program, saved)
    for problem in _source_problems(spark, model, program, saved, begun is not None):
        raise StreamError(
            f"Model {model.name}: its savepoint '{saved.name}' can't be restored: {problem}, so the rows that came since "
            "can't be read again. Nothing was changed."
        )
    check_no_foreign_tables(spark, model, program.keeps_state)
    kept_as, not_kept = None, None
    if begun is not None and begun["kept_as"] != saved.name:
        kept_as = begun["kept_as"]
    if keep and begun is None:
        try:
            kept_as = save_before(spark, model, RESTORE, but=saved).name
        except StreamError as problem:
            not_kept = problem.without_name(model.name)
    storage = model.storage
    with around("restore.begin", model.name):
        storage.write_text(model.restoring, json.dumps({"name": saved.name, "kept_as": kept_as}))
    with around("restore.checkpoint", model.name):
        storage.delete(model.checkpoint)
        reached("restore.checkpoint:deleted", model.name)
        copy_checkpoint(storage, checkpoint_copy(model, saved.name), model.checkpoint)
    for kind, to in snapshots.items():
        table = tables[kind]
        assert table is not None
        with around(f"restore.{kind}", model.name):
            restore_table(spark, table, to)
    with around("restore.progress", model.name):
        storage.delete(model.attempt)
        _write_progress(spark, model, program, tables)
    with around("restore.end", model.name):
        storage.delete(model.restoring)
    readers = readers_beyond(storage, tables[TABLE], tables[CHANGELOG])
    return Restored(saved, kept_as, not_kept, next_run, readers)


def _snapshots_to_restore(
    spark: SparkSession, model: StreamModel, saved: Savepoint, tables: Mapping[str, IcebergTable | None]
) -> dict[str, TableSnapshot]:
    """Returns the snapshots to which tables are restored. Raises if a part of the savepoint is gone."""
    checkpoint = read_checkpoint(model.storage, checkpoint_copy(model, saved.name))
    if checkpoint is None or checkpoint.missing or checkpoint.query_id != saved.query_id:
        path = checkpoint_copy(model, saved.name)
        raise _restore_error(model, saved, f"its copy of the checkpoint, {path}, isn't whole")
    found = {}
    for kind, was in saved.tables.items():
        table = tables[kind]
        if table is not None and was is not None and table.uuid == was.uuid:
            if problem := missing_part_text(spark, model, saved, table, was):
                raise _restore_error(model, saved, f"{problem} of its {kind} {table.name}")
            found[kind] = was
        elif kind == CHANGELOG:
            # A changelog that was created or replaced since is emptied, and starts again with the table's rows.
            if table is not None:
                found[kind] = replace(table_snapshot(table), snapshot=None)
        elif was is not None:
            what = f"its {kind} {role_table_name(model, kind)} was dropped since (there is none now, or another one)"
            raise _restore_error(model, saved, what)
        elif table is not None:
            raise _restore_error(model, saved, f"it had no {kind} then, and {table.name} is there now")
    return found


def missing_part_text(
    spark: SparkSession, model: StreamModel, saved: Savepoint, table: IcebergTable, was: TableSnapshot
) -> str | None:
    """Returns what a table lacks of its snapshot in a savepoint, in words; None if nothing."""
    if not has_schema(table, was.schema):
        return "the columns that it had are no longer known"
    if was.snapshot is None:
        return None
    if branches_with_prefix(table, BRANCH).get(saved.branch) != was.snapshot:
        return "a snapshot has expired, or its branch was moved or dropped,"
    try:
        files = missing_files(spark, model.storage, table, was.snapshot)
    except Exception as problem:
        return f"the snapshot can't be read ({cause(problem)})"
    verb = verb_form(len(files), "is", "are")
    return f"{counted(len(files), 'file')} {verb} gone ({files[0]})" if files else None


def _restore_error(model: StreamModel, saved: Savepoint, what: str) -> StreamError:
    return StreamError(
        f"Model {model.name}: its savepoint '{saved.name}' can't be restored: {what}. Nothing was changed. To delete it: "
        f"`dbt-stream state savepoint {model.name} --delete {saved.name}`."
    )


def _effect_if_usable(
    spark: SparkSession, model: StreamModel, program: Program, saved: Savepoint
) -> str | None:
    """Raises unless the state of a savepoint can be used with the current query. Returns the effect of the next run on the
    state, if the query differs."""
    was = saved.tables[STATE]
    if (was is not None) != program.keeps_state:
        now, then = ("keeps state", "kept none") if program.keeps_state else ("keeps no state", "kept some")
        raise _other_query_error(model, saved, f"its query {now}, and {then} then.")
    if was is None:
        return None
    found, problem = effect_on_state(spark, model, program, was.properties, f"its savepoint '{saved.name}'")
    if problem is not None:
        raise _other_query_error(model, saved, problem)
    return found.sentence if found.is_migration else None


def _other_query_error(model: StreamModel, saved: Savepoint, problem: str) -> StreamError:
    return StreamError(
        f"Model {model.name}: its savepoint '{saved.name}' can't be continued with the query as it is now: {problem} "
        "Nothing was changed. Put the query back to what it was then, and restore again."
    )


def _source_problems(
    spark: SparkSession, model: StreamModel, program: Program, saved: Savepoint, again: bool
) -> Iterator[str]:
    """Yields reasons why the rows that arrived since a savepoint can't be read again."""
    path = checkpoint_copy(model, saved.name)
    ordered = in_checkpoint_order(model, program.inputs, path).model
    begins = next_snapshots(model.storage, path)
    for place, source in enumerate(ordered.sources):
        if source.is_table:
            yield from _table_problems(spark, source, begins.get(place))
        elif source.is_files and not again:
            read, kept = (file_entries(model.storage, each, place) for each in (model.checkpoint, path))
            if gone := [file for file in sorted(read.keys() - kept.keys()) if not _file_exists(spark, file)]:
                verb = verb_form(len(gone), "is gone or was", "are gone or were")
                yield f"{counted(len(gone), 'file')} of its source {source.relation} {verb} moved ({gone[0]})"


def _table_problems(spark: SparkSession, source: StreamSource, begins: int | None) -> Iterator[str]:
    table = load_table(spark, source.location)
    if table is None:
        yield f"the table {source.location} that it streams from doesn't exist"
    elif begins is None:
        if table.has_lost_rows:
            yield f"the first snapshots of the table {source.location} that it streams from have expired"
    elif not table.has_ancestor(begins):
        yield (
            f"the table {source.location} that it streams from was rebuilt or rolled back since, or its snapshots have "
            "expired"
        )


def _file_exists(spark: SparkSession, file: str) -> bool:
    """Returns whether a file exists, by its URI in Spark's logs."""
    java = jvm(spark)
    path = java.org.apache.hadoop.fs.Path(java.java.net.URI(file))
    return bool(path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path))


def _write_progress(
    spark: SparkSession, model: StreamModel, program: Program, tables: Mapping[str, IcebergTable | None]
) -> None:
    """Writes the progress file for the model's last epoch after the restore."""
    state, target = tables[STATE], sink_of(spark, model, program.upsert).position()
    position = target if state is None else read_position(state.last_summary())
    if position is not None:
        size = None if state is None else StateTable(spark, model).total_size()
        write_progress(model, progress_report(with_output_counts(position, target), BatchMetrics(), size))
