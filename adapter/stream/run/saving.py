"""Savepoints taken and deleted: branches at the snapshots of one step, and a copy of the last entries of the checkpoint.

No file of rows is read or written, so what it costs doesn't follow the size of the state. What is noted is written in
this order: the copy of the checkpoint, the branches, the note that makes them a savepoint. What a process that was killed in
between has left is removed by the next one that takes a savepoint of the model, and by `dbt-stream clean`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from ..common.errors import StreamError, sentences
from ..common.failpoints import around
from ..common.model import StreamModel
from ..common.session import working_session
from ..iceberg.branches import held, hold, let_go, picture
from ..iceberg.ownership import owned
from ..iceberg.table import IcebergTable, load
from ..progress.position import Position
from ..progress.watermark import to_text
from ..sink.append import AppendSink
from ..state.table import StateTable
from ..storage.checkpoint import Checkpoint, copy_checkpoint, read_checkpoint
from ..storage.deployments import check_settled
from ..storage.savepoints import (
    BRANCH,
    CHANGELOG,
    STATE,
    TABLE,
    Savepoint,
    check_name,
    check_whole,
    checkpoint_of,
    folder,
    forget,
    is_asked_for,
    is_complete,
    listed,
    next_name,
    note_branches,
    noted_branches,
    read,
    write,
)
from .lock import locked
from .recovery import Found, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Spark")

AUTOMATIC = 3
"""So many savepoints are kept of those that nobody asked for."""
_AGE = 7 * 86_400_000
"""For so many milliseconds."""


@dataclass(frozen=True)
class Present:
    """A model as it is."""

    tables: dict[str, IcebergTable | None]
    """By `STATE`, `CHANGELOG` and `TABLE`."""
    checkpoint: Checkpoint
    position: Position
    """The last step that is in."""


def save(spark: SparkSession, model: StreamModel, name: str) -> Savepoint:
    """Take a savepoint that somebody asks for.

    Raises:
        StreamError: it can't have that name, there is one of that name, the model is running, has taken in nothing, or
            its tables don't belong together.
    """
    check_name(model, name)
    with sentences(model), locked(spark, model):
        if read(model.storage, model.savepoints, name) is not None:
            raise StreamError(
                f"Model {model.name}: there is a savepoint '{name}' of it already. Choose another name, or delete that one "
                f"with `dbt-stream state savepoint {model.name} --delete {name}`."
            )
        return _take(working_session(spark), model, name, None)


def save_before(
    spark: SparkSession, model: StreamModel, cause: str, but: Savepoint | None = None
) -> Savepoint:
    """Take a savepoint before something that one may want to undo, and delete the oldest of such savepoints. To be called
    under the model's lock.

    Args:
        spark: a session.
        model: the model.
        cause: before what.
        but: one that isn't deleted.

    Raises:
        StreamError: the model's tables don't belong together.
    """
    found = listed(model.storage, model.savepoints)
    taken = {name.removeprefix(BRANCH) for name in _branches(spark, model)}
    made = _take(spark, model, next_name([*(each.name for each in found), *taken], cause), cause)
    old = [each for each in found if each.is_automatic]
    for each in old[: max(0, len(old) + 1 - AUTOMATIC)]:
        if each != but:
            remove(spark, model, each.name)
    return made


def delete(spark: SparkSession, model: StreamModel, name: str) -> None:
    """Delete a savepoint. What only it kept goes as the model's tables are maintained.

    Raises:
        StreamError: there is none of that name, or the model is running.
    """
    with sentences(model), locked(spark, model):
        if name not in model.storage.list(model.savepoints):
            known = ", ".join(each.name for each in listed(model.storage, model.savepoints))
            raise StreamError(
                f"Model {model.name}: there is no savepoint '{name}' of it; it has {known or 'none'}."
            )
        remove(working_session(spark), model, name)


def remove(spark: SparkSession, model: StreamModel, name: str) -> None:
    """Delete a savepoint, under the model's lock."""
    with around("savepoint.delete", model.name):
        forget(model, name)
    left_behind(spark, model, remove=True)


def left_behind(spark: SparkSession, model: StreamModel, remove: bool) -> list[str]:
    """Lists what is left of a model's savepoints that were never completed, or deleted: their folders, and the branches
    that these note. Any other branch is somebody else's, whatever its name.

    Args:
        spark: a session.
        model: the model, under its lock.
        remove: whether they are removed.

    Raises:
        StreamError: its tables are in the middle of becoming another version's.
    """
    check_settled(model)
    found: list[str] = []
    storage = model.storage
    names = [name for name in storage.list(model.savepoints) if not name.startswith(".")]
    for name in (each for each in names if not is_complete(model, each)):
        noted, branch = noted_branches(model, name), f"{BRANCH}{name}"
        for table in tables_of(spark, model).values() if noted else ():
            if table is None or held(table, BRANCH).get(branch) != noted.get(str(table.java.uuid()), -1):
                continue
            found.append(f"{table.name}: branch {branch}")
            if remove:
                let_go(table, branch)
        # The folder goes last: by its note the branches are found again.
        found.append(folder(model, name))
        if remove:
            storage.delete(folder(model, name))
    return found


def forget_all(spark: SparkSession, model: StreamModel) -> None:
    """Delete all savepoints of a model that is reset, under its lock. Its state and its changelog are gone already."""
    asked = [name for name in model.storage.list(model.savepoints) if is_asked_for(name)]
    if asked:
        logger.warning(f"Model {model.name}: its savepoints go with its state: {', '.join(asked)}.")
    with around("savepoints.delete", model.name):
        for name in model.storage.list(model.savepoints):
            forget(model, name)
        left_behind(spark, model, remove=True)
        model.storage.delete(model.savepoints)


def tables_of(spark: SparkSession, model: StreamModel) -> dict[str, IcebergTable | None]:
    """The tables of a model, by `STATE`, `CHANGELOG` and `TABLE`; None: there is none."""
    return dict(_each_table(spark, model))


def present(spark: SparkSession, model: StreamModel) -> Present:
    """A model as it is, if its tables and its checkpoint belong together.

    Raises:
        StreamError: they don't, or nothing was taken in yet.
    """
    check_whole(model)
    tables = tables_of(spark, model)
    state, sink = StateTable(spark, model), AppendSink(spark, model)
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    signature = state.signature()
    found = Found(
        checkpoint=checkpoint,
        has_target=sink.exists,
        target_written=sink.written,
        target=sink.position(),
        target_has_past=sink.has_past,
        target_rows=sink.rows,
        state=state.position(),
        signature=signature,
        changes=sink.changes.position() if sink.changes else None,
        changes_ahead=sink.changes_ahead(),
        target_incremental=sink.incremental,
    )
    check(model, state.exists, signature or {}, found)
    position = found.state or found.target
    if checkpoint is None or position is None:
        raise StreamError(
            f"Model {model.name}: it has taken in nothing yet, so there is nothing to keep. `dbt run --select {model.name}` "
            "comes first."
        )
    return Present(tables, checkpoint, position)


def _take(spark: SparkSession, model: StreamModel, name: str, cause: str | None) -> Savepoint:
    left_behind(spark, model, remove=True)
    found = present(spark, model)
    if (taken := _branches(spark, model).get(f"{BRANCH}{name}")) is not None:
        raise StreamError(
            f"Model {model.name}: the table {taken} has a branch or a tag {BRANCH}{name}, which no savepoint made, so there "
            f"can't be a savepoint '{name}'. Choose another name, or drop the branch: ALTER TABLE {taken} DROP BRANCH "
            f"`{BRANCH}{name}`."
        )
    now = int(time.time() * 1000)
    position = found.position
    savepoint = Savepoint(
        name=name,
        made=now,
        cause=cause,
        until=None if cause is None else now + _AGE,
        query_id=position.query_id,
        batch=position.batch,
        flush=position.flush,
        watermark=to_text(position.after),
        tables={kind: None if table is None else picture(table) for kind, table in found.tables.items()},
    )
    with around("savepoint.checkpoint", model.name):
        copy_checkpoint(model.storage, model.checkpoint, checkpoint_of(model, name))
        note_branches(
            model,
            name,
            {
                each.uuid: each.snapshot
                for each in savepoint.tables.values()
                if each and each.snapshot is not None
            },
        )
    for table in found.tables.values():
        snapshot = None if table is None else table.snapshot_id
        if table is None or snapshot is None:
            continue
        # Iceberg counts from when the snapshot was made, which may be long ago.
        age = None if savepoint.until is None else savepoint.until - int(table.made(snapshot))
        with around("savepoint.branch", model.name):
            hold(table, savepoint.branch, snapshot, age)
    if _has_moved(model, found, savepoint):
        forget(model, name)
        left_behind(spark, model, remove=True)
        raise StreamError(
            f"Model {model.name}: another run of it wrote its tables while the savepoint was taken, so there is none. Let "
            f"it end, or stop it with `dbt-stream stop {model.name}`."
        )
    with around("savepoint.note", model.name):
        write(model, savepoint)
    return savepoint


def _branches(spark: SparkSession, model: StreamModel) -> dict[str, str]:
    """By its name a table that has the branch or the tag, of those that are called as a savepoint's would be."""
    return {
        name: table.name
        for table in tables_of(spark, model).values()
        if table is not None
        for name in held(table, BRANCH)
    }


def _has_moved(model: StreamModel, found: Present, savepoint: Savepoint) -> bool:
    """Whether another run, whose lock can't be seen, has written something meanwhile."""
    for kind, table in found.tables.items():
        was = savepoint.tables[kind]
        if table is not None and was is not None:
            table.refresh()
            if table.snapshot_id != was.snapshot:
                return True
    copied = read_checkpoint(model.storage, checkpoint_of(model, savepoint.name))
    return not found.checkpoint == copied == read_checkpoint(model.storage, model.checkpoint)


def _each_table(spark: SparkSession, model: StreamModel) -> Iterator[tuple[str, IcebergTable | None]]:
    """The tables of a model. Somebody's own may be called as its state or its changelog would be."""
    yield STATE, owned(spark, model, STATE)
    yield CHANGELOG, owned(spark, model, CHANGELOG)
    yield TABLE, load(spark, model.target)
