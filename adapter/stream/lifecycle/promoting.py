"""Swaps a model and its new version (blue-green deployment): table, changelog, state, checkpoint and savepoints.

No catalog renames several tables in one commit. So the swap is written to a file before the first change, and deleted
from it after the last. A run that finds an incomplete swap stops. Another promotion repeats all steps, and a rollback
executes those of the opposite direction. Each step is idempotent: tables are identified by UUID, and checkpoints are
copied from copies next to the file. The model's own table is renamed last, so it is missing only for the time of one
rename.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from ..common.errors import StreamError, readable_errors
from ..common.failpoints import around
from ..common.identifiers import joined_name, parts
from ..common.model import StreamModel
from ..common.session import working_session
from ..iceberg import owner
from ..iceberg.ownership import (
    assign_table,
    check_droppable,
    drop_owned_table,
    foreign_error,
    is_in_hadoop_catalog,
    role_table_name,
    was_made_for,
)
from ..iceberg.table import IcebergTable, find_table, load_table
from ..run.lock import model_lock
from ..run.runner import reset
from ..run.saving import current_tables, model_tables
from ..sources.lag import Lag, consumer_lag
from ..sources.upstream import readers_beyond
from ..storage import deployments
from ..storage.checkpoint import copy_checkpoint, next_snapshots
from ..storage.deployments import (
    PROMOTED,
    STAGED,
    Deployment,
    Swap,
    check_no_interrupted_swap,
    version_of_model,
)
from ..storage.savepoints import CHANGELOG, STATE, TABLE, check_not_interrupted, copy_savepoints, delete_files
from ..storage.source_order import noted_sources
from .batch_tables import was_made_by_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...environment.storage import Storage

_KINDS = (STATE, CHANGELOG, TABLE)
_OLD, _NEW = "old", "new"
"""Folder names of the copies of both versions."""


@dataclass(frozen=True)
class SwapResult:
    """Result of a swap."""

    deployment: Deployment
    readers: tuple[str, ...]
    """Streams that have read rows of the version that had the model's name before."""


@dataclass(frozen=True)
class SwapProgress:
    """Progress of both versions of a model."""

    deployment: Deployment
    new: StreamModel
    old: StreamModel
    begun: bool
    """Whether the new version has a table."""
    lags: tuple[Lag, ...] | None
    """Input that the old version has read and the new one has not; None if unknown."""
    unknown: str | None
    """Reason why `lags` is unknown; None if it is known."""


def stage_deployment(spark: SparkSession, model: StreamModel, again: bool) -> Deployment:
    """Begins or continues the deployment of a new version of a model. The materialization creates its table.

    Args:
        again: whether to drop an existing new version first.

    Raises:
        StreamError: the model has no table yet, its previous version still exists, or the catalog can't rename tables.
    """
    with _locked_deployment(spark, model) as found:
        check_no_interrupted_swap(model)
        if found is None:
            session = working_session(spark)
            if is_in_hadoop_catalog(session, model.target):
                raise StreamError(
                    f"Model {model.name}: its catalog {parts(model.target)[0]} is a folder (type: hadoop), in which no "
                    f"table can be renamed, so no new version can take over its name. Rebuild it: {model.rebuild}."
                )
            table = load_table(session, model.target)
            if table is None:
                raise StreamError(
                    f"Model {model.name}: it has no table yet that a new version could take over from. `dbt run --select "
                    f"{model.name}` builds it."
                )
            found = deployments.new_deployment(model, table.uuid)
            with around("deploy.stage", model.name):
                owner.claim(session, model)
                deployments.write_deployment(model.storage, found)
        elif found.phase == PROMOTED:
            raise StreamError(
                f"Model {model.name}: the version before the last deployment is still kept, as {found.previous}. "
                f"`dbt-stream deploy cleanup {model.name}` drops it, `dbt-stream deploy rollback {model.name}` goes back to "
                "it."
            )
        elif again:
            _drop_version(spark, version_of_model(model, found.new))
        return found


def swap_progress(spark: SparkSession, model: StreamModel) -> SwapProgress:
    """Returns the progress of a model and its new version, without changes or locks. Raises `StreamError` if there is
    no new version, or a swap is incomplete."""
    with _locked_deployment(spark, model) as found:
        check_no_interrupted_swap(model)
        found = found or _raise_no_deployment(model, "show")
        session = working_session(spark)
        old, new = (model, version_of_model(model, found.new))
        if found.phase == PROMOTED:
            old, new = version_of_model(model, found.previous), model
        begun, lags, unknown = load_table(session, new.target) is not None, None, None
        try:
            lags = tuple(consumer_lag(session, old, new))
        except StreamError as problem:
            unknown = problem.without_name(model.name)
        return SwapProgress(found, new=new, old=old, begun=begun, lags=lags, unknown=unknown)


def promote(spark: SparkSession, model: StreamModel, force: bool = False) -> SwapResult:
    """Gives the new version the name of its model, and keeps the old one as previous version.

    Args:
        force: whether to promote the new version even if it is behind the old one, or if that is unknown.

    Raises:
        StreamError: there is no new version, it hasn't caught up, or one of them is running. Nothing was changed.
    """
    return _swap_versions(spark, model, PROMOTED, "promote", partial(_version_to_promote, force=force))


def roll_back(spark: SparkSession, model: StreamModel) -> SwapResult:
    """Gives the previous version its name back. The new version is then staged again, as before its promotion. Raises
    `StreamError` if there is no previous version, it can't continue, or one of them is running. Nothing was changed."""
    return _swap_versions(spark, model, STAGED, "roll back", _version_to_roll_back_to)


def _swap_versions(
    spark: SparkSession,
    model: StreamModel,
    to: str,
    to_do: str,
    find_version: Callable[[SparkSession, StreamModel, Deployment], StreamModel],
) -> SwapResult:
    """Swaps the versions, or finishes an incomplete swap.

    Args:
        to: phase afterwards: `PROMOTED` or `STAGED`.
        to_do: verb for messages, as in "nothing to …".
        find_version: returns the version that gets the model's name. Raises unless the versions can be swapped.
    """
    with _locked_deployment(spark, model, lock=True) as found:
        session = working_session(spark)
        if found is not None and found.swap is not None:
            return _finish_swap(session, model, found, to)
        check_not_interrupted(model)
        found = found or _raise_no_deployment(model, to_do)
        return _begin_swap(session, model, found, find_version(session, model, found), to)


def _version_to_promote(
    session: SparkSession, model: StreamModel, found: Deployment, force: bool
) -> StreamModel:
    if found.phase == PROMOTED:
        raise StreamError(
            f"Model {model.name}: its new version has the name already, so there is nothing to promote. `dbt-stream "
            f"deploy cleanup {model.name}` drops the old one, {found.previous}."
        )
    new = version_of_model(model, found.new)
    if load_table(session, new.target) is None:
        raise StreamError(
            f"Model {model.name}: its new version has no table yet, so there is nothing to promote. {model.deploy} "
            "builds it."
        )
    current_tables(session, new)
    if not force:
        _check_caught_up(session, model, new)
    return new


def _version_to_roll_back_to(session: SparkSession, model: StreamModel, found: Deployment) -> StreamModel:
    if found.phase == STAGED:
        raise StreamError(
            f"Model {model.name}: its new version isn't promoted, so there is nothing to roll back. `dbt-stream deploy "
            f"cleanup {model.name}` drops it."
        )
    old = version_of_model(model, found.previous)
    if load_table(session, old.target) is None:
        raise StreamError(
            f"Model {model.name}: {old.target}, its table before the deployment, was dropped, so there is nothing to go "
            f"back to. `dbt-stream deploy cleanup {model.name}` forgets the deployment."
        )
    try:
        current_tables(session, old)
    except StreamError as problem:
        what = problem.without_name(model.name).partition(" To rebuild it")[0]
        raise StreamError(
            f"Model {model.name}: its version before the deployment can't continue: {what} Nothing was changed."
        ) from problem
    _check_sources(session, model, old)
    return old


def clean_up(spark: SparkSession, model: StreamModel) -> Deployment:
    """Drops the version that doesn't have the model's name, and ends the deployment. Raises `StreamError` if there is
    no such version, or it is running."""
    with _locked_deployment(spark, model) as found:
        check_no_interrupted_swap(model)
        found = found or _raise_no_deployment(model, "clean up")
        _drop_version(spark, version_of_model(model, found.other_table))
        # A promotion or a rollback in another process may have swapped the versions meanwhile.
        if deployments.read_deployment(model.storage, model.target) == found:
            with around("deploy.forget", model.name):
                deployments.delete_deployment(model.storage, found)
        return found


def _drop_version(spark: SparkSession, beside: StreamModel) -> None:
    """Drops a version with all of its tables and files. Can be repeated if interrupted."""
    check_droppable(spark, beside)
    reset(spark, beside)
    with around("deploy.drop", beside.name):
        drop_owned_table(spark, beside, TABLE)


@contextmanager
def _locked_deployment(
    spark: SparkSession, model: StreamModel, lock: bool = False
) -> Iterator[Deployment | None]:
    """Yields the deployment of a model, or None. With `lock`, holds the locks of the model and its versions in the block."""
    with readable_errors(model), ExitStack() as stack:
        if lock:
            stack.enter_context(model_lock(spark, model))
        else:
            owner.check_owner(spark, model)
        found = deployments.read_deployment(model.storage, model.target)
        if lock and found is not None:
            for beside in (found.new, found.previous):
                stack.enter_context(model_lock(spark, version_of_model(model, beside)))
        yield found


def _raise_no_deployment(model: StreamModel, to_do: str) -> NoReturn:
    raise StreamError(
        f"Model {model.name}: there is nothing to {to_do}: no new version of it was begun, or it was cleaned up. "
        f"{model.deploy} builds one next to the old one."
    )


def _check_caught_up(spark: SparkSession, model: StreamModel, new: StreamModel) -> None:
    forced = f"`dbt-stream deploy promote --force {model.name}` promotes it all the same"
    try:
        lags = consumer_lag(spark, model, new)
    except StreamError as problem:
        raise StreamError(
            f"Model {model.name}: whether its new version has caught up is unknown: "
            f"{problem.without_name(model.name)} {forced}, and `dbt-stream deploy cleanup "
            f"{model.name}` drops it."
        ) from problem
    if lags:
        raise StreamError(
            f"Model {model.name}: its new version has not caught up: the old one has read {', '.join(map(str, lags))} "
            f"more. `dbt-stream deploy await {model.name}` reads them; {forced}, and its next run reads them."
        )


def _check_sources(spark: SparkSession, model: StreamModel, old: StreamModel) -> None:
    """Raises unless a version's source tables can be read from where it stopped."""
    begins = next_snapshots(old.storage, old.checkpoint)
    for place, source in enumerate(noted_sources(old.storage, old.checkpoint)):
        snapshot = begins.get(place)
        if snapshot is None:
            continue
        table = load_table(spark, source)
        if table is None or not table.has_ancestor(snapshot):
            raise StreamError(
                f"Model {model.name}: the table {source} that {old.target} streamed from was rebuilt since, or its "
                "snapshots have expired, so it can't read the rows that came since. Nothing was changed."
            )


def _begin_swap(
    spark: SparkSession, model: StreamModel, found: Deployment, takes: StreamModel, to: str
) -> SwapResult:
    """Writes the swap to the deployment's file, and executes it."""
    gives = {kind: _table_uuid(table) for kind, table in model_tables(spark, model).items()}
    gets = {kind: _table_uuid(table) for kind, table in model_tables(spark, takes).items()}
    for kind in (STATE, CHANGELOG):
        name = role_table_name(model, kind)
        if gives[kind] is None and gets[kind] is not None and spark.catalog.tableExists(name):
            raise foreign_error(spark, model, kind)
    found = replace(found, swap=Swap(to, gives, gets))
    # A killed process may have left copies for another swap.
    model.storage.delete(deployments.copies_folder(model.storage, found.target))
    with around("deploy.copy", model.name):
        for side, each in zip(_folders_of_versions(to), (model, takes), strict=True):
            _copy_files(model.storage, _version_paths(each), _copy_paths(found, model.storage, side))
    with around("deploy.begin", model.name):
        deployments.write_deployment(model.storage, found)
    return _execute_swap(spark, model, found)


def _finish_swap(spark: SparkSession, model: StreamModel, found: Deployment, to: str) -> SwapResult:
    """Finishes an incomplete swap, or undoes it if `to` is the other phase."""
    assert found.swap is not None
    if found.swap.to != to:
        found = replace(found, swap=found.swap.reverse)
        with around("deploy.undo", model.name):
            deployments.write_deployment(model.storage, found)
    return _execute_swap(spark, model, found)


def _folders_of_versions(to: str) -> tuple[str, str]:
    """Returns the folder names of the version that loses the model's name and of the one that gets it."""
    return (_OLD, _NEW) if to == PROMOTED else (_NEW, _OLD)


def _execute_swap(spark: SparkSession, model: StreamModel, found: Deployment) -> SwapResult:
    """Executes the swap in the deployment's file. Can be repeated, whichever steps are already done."""
    swap, storage = found.swap, model.storage
    assert swap is not None
    new, previous = version_of_model(model, found.new), version_of_model(model, found.previous)
    incoming, outgoing = (new, previous) if swap.to == PROMOTED else (previous, new)
    # In this order both versions have a checkpoint at any time, so that sources keep the snapshots they haven't read.
    for side, step, each in zip(
        _folders_of_versions(swap.to), ("gives", "takes"), (outgoing, model), strict=True
    ):
        with around(f"deploy.checkpoint.{step}", model.name):
            _delete_files(each)
            # A folder without an owner would be taken for a foreign one if the process is killed while it copies.
            owner.claim(spark, each, (swap.gives if step == "gives" else swap.takes)[TABLE])
            _copy_files(storage, _copy_paths(found, storage, side), _version_paths(each))
    _delete_files(incoming)
    storage.delete(incoming.health)
    owner.forget_owner(incoming)
    for kind in _KINDS:
        with around(f"deploy.{kind}.gives", model.name):
            _rename_table(spark, kind, swap.gives[kind], model, outgoing)
        with around(f"deploy.{kind}.takes", model.name):
            _rename_table(spark, kind, swap.takes[kind], incoming, model)
    promoted = int(time.time() * 1000) if swap.to == PROMOTED else found.promoted
    done = replace(found, phase=swap.to, promoted=promoted, swap=None)
    with around("deploy.end", model.name):
        deployments.write_deployment(storage, done)
    storage.delete(deployments.copies_folder(storage, found.target))
    tables = model_tables(spark, model)
    return SwapResult(done, readers_beyond(storage, tables[TABLE], tables[CHANGELOG]))


def _table_uuid(table: IcebergTable | None) -> str | None:
    return None if table is None else table.uuid


def _rename_table(
    spark: SparkSession, kind: str, uuid: str | None, was: StreamModel, to: StreamModel
) -> None:
    """Renames a table unless it already has the new name, and sets its owner. A foreign table stays foreign."""
    if uuid is None:
        return
    name, new = role_table_name(was, kind), role_table_name(to, kind)
    if _table_uuid(find_table(spark, name)) == uuid:
        # RENAME TO takes the name without a catalog.
        in_catalog = parts(new)[1:] if len(parts(new)) > 2 else parts(new)
        spark.sql(f"alter table {name} rename to {joined_name(in_catalog)}")
    table = find_table(spark, new)
    if table is None or _table_uuid(table) != uuid:
        return
    if was_made_for(table, kind, was.target) or (kind == TABLE and was_made_by_package(table, was.target)):
        assign_table(table, kind, to.target)


def _copy_files(storage: Storage, files: Sequence[str], to: Sequence[str]) -> None:
    """Copies the checkpoint, the savepoints and the progress file of a version, each given by its path."""
    copy_checkpoint(storage, files[0], to[0])
    copy_savepoints(storage, files[1], to[1])
    progress = storage.read_text(files[2])
    if progress is not None:
        storage.write_text(to[2], progress)


def _delete_files(model: StreamModel) -> None:
    """Deletes the files of a version that a swap replaces."""
    for path in (model.checkpoint, model.progress, model.attempt):
        model.storage.delete(path)
    delete_files(model.storage, model.savepoints)


def _version_paths(model: StreamModel) -> tuple[str, str, str]:
    """Returns the paths of a model's checkpoint, savepoints and progress."""
    return model.checkpoint, model.savepoints, model.progress


def _copy_paths(found: Deployment, storage: Storage, side: str) -> tuple[str, str, str]:
    """Returns the paths where a deployment keeps copies of the same files of one of its versions."""
    to = f"{deployments.copies_folder(storage, found.target)}/{side}"
    return f"{to}/checkpoint", f"{to}/savepoints", f"{to}/progress.json"
