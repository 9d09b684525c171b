"""Creates and deletes savepoints: branches at the snapshots of one epoch, and a copy of the checkpoint's last entries.

No data file is read or written, so the cost doesn't depend on the size of the state. The order of writing is: the copy of
the checkpoint, the branches, the metadata file that completes the savepoint. Leftovers of a killed process are removed by
the next process that creates a savepoint of the model (on remote storage, once they are old enough to be of no process that
still runs), and by `dbt-stream clean`.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from ...query.state_signature import Signature
from ..common.errors import StreamError, readable_errors
from ..common.failpoints import around
from ..common.model import StreamModel
from ..common.session import working_session
from ..iceberg.branches import branches_with_prefix, remove_branch, retain_snapshot, table_snapshot
from ..iceberg.ownership import owned_table
from ..iceberg.table import IcebergTable, load_table
from ..progress.position import Position
from ..progress.watermark import to_text
from ..sink.append import AppendSink
from ..state.table import StateTable
from ..storage import savepoints
from ..storage.checkpoint import Checkpoint, copy_checkpoint, read_checkpoint
from ..storage.deployments import check_no_interrupted_swap
from ..storage.savepoints import BRANCH, CHANGELOG, RESTORE, STATE, TABLE, Savepoint
from .lock import model_lock
from .recovery import check_can_continue, progress_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Spark")

AUTOMATIC = 3
"""Number of automatic savepoints to keep."""
_AGE = 7 * 86_400_000
"""Milliseconds for which an automatic savepoint is kept."""


@dataclass(frozen=True)
class CurrentTables:
    """The current tables and progress of a model."""

    tables: dict[str, IcebergTable | None]
    """Tables by `STATE`, `CHANGELOG` and `TABLE`; None if there is none."""
    checkpoint: Checkpoint
    position: Position
    """The last epoch that was ingested."""


def save(spark: SparkSession, model: StreamModel, name: str) -> Savepoint:
    """Creates a savepoint on request. Raises `StreamError` if the name is invalid or exists already, or the model is
    running, has ingested nothing, or has tables that don't match."""
    savepoints.check_name(model, name)
    with readable_errors(model), model_lock(spark, model):
        if savepoints.read_savepoint(model.storage, model.savepoints, name) is not None:
            raise StreamError(
                f"Model {model.name}: there is a savepoint '{name}' of it already. Choose another name, or delete that one "
                f"with `dbt-stream state savepoint {model.name} --delete {name}`."
            )
        session = working_session(spark)
        savepoint_leftovers(session, model, remove=True)
        if name in savepoints.savepoint_names(model):
            raise StreamError(
                f"Model {model.name}: another process is making a savepoint '{name}' of it, or was killed meanwhile. Choose "
                f"another name, or delete that one with `dbt-stream state savepoint {model.name} --delete {name}`."
            )
        return _make_savepoint(session, model, name, None, current_tables(session, model))


def save_before(
    spark: SparkSession, model: StreamModel, cause: str, but: Savepoint | None = None
) -> Savepoint:
    """Creates an automatic savepoint before a change that can be undone, and deletes the oldest automatic ones except `but`.
    The caller holds the model's lock."""
    # The branch of an incomplete savepoint may have the next name.
    savepoint_leftovers(spark, model, remove=True)
    found = savepoints.stored_savepoints(model.storage, model.savepoints)
    old = [each for each in found if each.is_automatic]
    now = current_tables(spark, model)
    if old and old[-1].cause == cause != RESTORE and _is_current(old[-1], now):
        return old[-1]  # a failed attempt created it; another one would displace the oldest
    taken = {name.removeprefix(BRANCH) for name in _savepoint_branches(spark, model)}
    name = savepoints.next_name([*savepoints.savepoint_names(model), *taken], cause)
    made = _make_savepoint(spark, model, name, cause, now)
    for each in old[: max(0, len(old) + 1 - AUTOMATIC)]:
        if each != but:
            delete_locked_savepoint(spark, model, each.name)
    return made


def delete(spark: SparkSession, model: StreamModel, name: str) -> None:
    """Deletes a savepoint. Raises if there is none, or an interrupted restore needs it. Maintenance later removes the
    snapshots that only it retained."""
    with readable_errors(model), model_lock(spark, model):
        if name in (savepoints.restore_in_progress(model) or {}).values():
            savepoints.check_not_interrupted(model)
        if name not in savepoints.savepoint_names(model):  # an incomplete one is deleted, too
            savepoints.find_savepoint(model, name)
        delete_locked_savepoint(working_session(spark), model, name)


def delete_locked_savepoint(spark: SparkSession, model: StreamModel, name: str) -> None:
    """Deletes a savepoint. The caller holds the model's lock."""
    with around("savepoint.delete", model.name):
        savepoints.mark_incomplete(model, name)
    savepoint_leftovers(spark, model, remove=True, deleted=[name])


def savepoint_leftovers(
    spark: SparkSession, model: StreamModel, remove: bool, deleted: Collection[str] = ()
) -> list[str]:
    """Returns what is left of a model's incomplete and deleted savepoints, and removes it if `remove`: their folders, and
    the branches listed there. Other branches and files are not touched. The caller holds the model's lock. `deleted`: see
    `savepoints.incomplete_savepoints`."""
    check_no_interrupted_swap(model)
    found: list[str] = []
    for name in savepoints.incomplete_savepoints(model, deleted):
        noted, branch = savepoints.noted_branches(model, name), f"{BRANCH}{name}"
        for table in model_tables(spark, model).values() if noted else ():
            if table is None or branches_with_prefix(table, BRANCH).get(branch) != noted.get(table.uuid, -1):
                continue
            found.append(f"{table.name}: branch {branch}")
            if remove:
                remove_branch(table, branch)
        # The files are deleted last, because they list the branches.
        found.append(savepoints.savepoint_folder(model, name))
        if remove:
            savepoints.delete_files(model.storage, model.savepoints, name)
    return found


def delete_all_savepoints(spark: SparkSession, model: StreamModel) -> None:
    """Deletes all savepoints of a model that is reset, after its state and changelog. Other files stay. The caller holds the
    model's lock."""
    names = savepoints.savepoint_names(model)
    by_users = [name for name in names if savepoints.is_user_savepoint(name)]
    if by_users:
        logger.warning(
            f"Model {model.name}: its savepoints are deleted with its state: {', '.join(by_users)}."
        )
    with around("savepoints.delete", model.name):
        for name in names:
            savepoints.mark_incomplete(model, name)
        savepoint_leftovers(spark, model, remove=True, deleted=names)
        savepoints.delete_files(model.storage, model.savepoints)


def model_tables(spark: SparkSession, model: StreamModel) -> dict[str, IcebergTable | None]:
    """Returns the tables of a model by `STATE`, `CHANGELOG` and `TABLE`. None means that the table doesn't
    exist, or that another's table has the name of the state or the changelog."""
    return {kind: owned_table(spark, model, kind) for kind in (STATE, CHANGELOG)} | {
        TABLE: load_table(spark, model.target)
    }


def current_tables(spark: SparkSession, model: StreamModel) -> CurrentTables:
    """Returns the current tables and progress of a model. Raises if they don't match, or nothing was ingested yet."""
    savepoints.check_not_interrupted(model)
    tables = model_tables(spark, model)
    state, sink = StateTable(spark, model), AppendSink(spark, model)
    found = progress_of(model, state, sink)
    check_can_continue(model, state.exists, found.signature or Signature(), found)
    checkpoint = found.checkpoint
    position = found.state or found.target
    if checkpoint is None or position is None:
        raise StreamError(
            f"Model {model.name}: it has read nothing yet, so there is nothing to keep. `dbt run --select "
            f"{model.name}` comes first."
        )
    return CurrentTables(tables, checkpoint, position)


def _is_current(savepoint: Savepoint, now: CurrentTables) -> bool:
    """Returns whether a savepoint has the current snapshots and epoch, and stays for at least half of `_AGE`."""
    has = {kind: each and (each.uuid, each.snapshot_id) for kind, each in now.tables.items()}
    kept = {kind: each and (each.uuid, each.snapshot) for kind, each in savepoint.tables.items()}
    step = (savepoint.query_id, savepoint.batch, savepoint.flush)
    is_same = has == kept and step == (now.position.query_id, *now.position.step)
    return is_same and (savepoint.until or 0) - int(time.time() * 1000) > _AGE // 2


def _make_savepoint(
    spark: SparkSession, model: StreamModel, name: str, cause: str | None, found: CurrentTables
) -> Savepoint:
    if (taken := _savepoint_branches(spark, model).get(f"{BRANCH}{name}")) is not None:
        raise StreamError(
            f"Model {model.name}: the table {taken} has a branch or a tag {BRANCH}{name}, which no savepoint made, so there "
            f"can't be a savepoint '{name}'. Choose another name, or drop the branch: ALTER TABLE {taken} DROP BRANCH "
            f"`{BRANCH}{name}`."
        )
    now, position = int(time.time() * 1000), found.position
    tables = {kind: None if each is None else table_snapshot(each) for kind, each in found.tables.items()}
    savepoint = Savepoint(
        name=name,
        made=now,
        cause=cause,
        until=None if cause is None else now + _AGE,
        query_id=position.query_id,
        batch=position.batch,
        flush=position.flush,
        watermark=to_text(position.after),
        tables=tables,
    )
    written = {each.uuid: each.snapshot for each in tables.values() if each and each.snapshot is not None}
    with around("savepoint.checkpoint", model.name):
        copy_checkpoint(model.storage, model.checkpoint, savepoints.checkpoint_copy(model, name))
        savepoints.note_branches(model, name, written)
    for table in found.tables.values():
        snapshot = None if table is None else table.snapshot_id
        if table is None or snapshot is None:
            continue
        # Iceberg measures the age of a branch from the time of its snapshot, which may be long ago.
        age = None if savepoint.until is None else savepoint.until - int(table.time_of(snapshot))
        with around("savepoint.branch", model.name):
            retain_snapshot(table, savepoint.branch, snapshot, age)
    if _has_advanced(model, found, savepoint):
        delete_locked_savepoint(spark, model, name)
        raise StreamError(
            f"Model {model.name}: another run of it wrote its tables while the savepoint was taken, so there is none. Let "
            f"it end, or stop it with `dbt-stream stop {model.name}`."
        )
    with around("savepoint.note", model.name):
        savepoints.write_savepoint(model, savepoint)
    return savepoint


def _savepoint_branches(spark: SparkSession, model: StreamModel) -> dict[str, str]:
    """Returns the branches and tags whose names begin with `BRANCH`, each with the name of its table."""
    return {
        name: table.name
        for table in model_tables(spark, model).values()
        if table is not None
        for name in branches_with_prefix(table, BRANCH)
    }


def _has_advanced(model: StreamModel, found: CurrentTables, savepoint: Savepoint) -> bool:
    """Returns whether another run has written since `found`: on remote storage the lock doesn't exclude it."""
    for kind, table in found.tables.items():
        was = savepoint.tables[kind]
        if table is not None and was is not None:
            table.refresh()
            if table.snapshot_id != was.snapshot:
                return True
    copied = read_checkpoint(model.storage, savepoints.checkpoint_copy(model, savepoint.name))
    return not found.checkpoint == copied == read_checkpoint(model.storage, model.checkpoint)
