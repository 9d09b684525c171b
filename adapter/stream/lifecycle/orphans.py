"""Finds and removes orphans: files and tables left by killed processes and by models whose table was dropped.

Files of a running stream are never touched: a model's files are examined under its lock, and files that other processes
may be writing only if they are older than any write takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...environment.storage import Storage
from ..common.errors import StreamError, cause
from ..common.identifiers import joined_name, last_part, parts, with_suffix
from ..common.model import STATE as STATE_SUFFIX
from ..common.model import StreamModel, is_state_or_changelog_name
from ..iceberg import owner
from ..iceberg.ownership import OF, ROLE, is_same_table, owned_table
from ..iceberg.table import SharedFolder, find_table
from ..run.lock import model_lock
from ..run.saving import model_tables, savepoint_leftovers
from ..storage.deployments import (
    check_no_interrupted_swap,
    read_deployment,
    tables_being_swapped,
    version_of_model,
)
from ..storage.savepoints import CHANGELOG, STATE, TABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's checkpoint files and our metadata files are written under a temporary name and then renamed.
_PARTIAL = re.compile(
    r"(?:^|/)(?:\.[^/]*\.tmp(?:\.crc)?|[^/]*\.[0-9a-f]{32}\.partial(?:\.crc)?|\.probe-[0-9a-f]{32})$"
)


@dataclass(frozen=True)
class Orphans:
    """Files of a model that no snapshot or checkpoint refers to."""

    files: list[str]
    left_alone: list[str]
    """Sentences that say why the files of a table were not examined."""


def orphans_of_model(spark: SparkSession, model: StreamModel, before: int, remove: bool) -> Orphans:
    """Finds files of a model that no snapshot or checkpoint refers to. Files of tables younger than `before`
    (milliseconds since 1970) are skipped. Raises `StreamError` if a promotion or a rollback was interrupted; nothing was
    removed."""
    with model_lock(spark, model):
        # Tables and checkpoints may be under the names of three versions then.
        check_no_interrupted_swap(model)
        found, left_alone = [], []
        others = _folders_beside(spark, model)
        for role in (TABLE, STATE, CHANGELOG):
            table = owned_table(spark, model, role)
            if table is not None and table.folder not in others:
                try:
                    found += table.orphans(spark, before, remove)
                except SharedFolder as problem:
                    left_alone.append(f"{problem}. Its files were left alone.")
        # On local storage the lock excludes writers of the checkpoint, so files of any age are orphans.
        until = None if model.storage.is_local else before
        if model.storage.is_local:
            found += savepoint_leftovers(spark, model, remove)
        return Orphans(found + _partial_writes(model.storage, model.checkpoint, until, remove), left_alone)


def _folders_beside(spark: SparkSession, model: StreamModel) -> set[str]:
    """Returns the folders of the tables of a model's other version. A renamed table keeps its folder, and a new table of
    its old name gets the same one, so a file unknown to one table may belong to the other."""
    found = read_deployment(model.storage, model.target)
    if found is None:
        return set()
    beside = model_tables(spark, version_of_model(model, found.other_table)).values()
    return {table.folder for table in beside if table is not None}


def orphans_of_storage(storage: Storage, before: int, remove: bool) -> list[str]:
    """Finds partially written metadata files that belong to no model. Removes them if `remove`."""
    folders = (storage.progress, storage.locks, storage.tables, storage.cleaned, storage.deployments)
    found = [file for each in folders for file in _partial_writes(storage, each, before, remove)]
    probes = [storage.path(name) for name in storage.list(storage.root) if _PARTIAL.search(name)]
    return found + [each for each in probes for _ in _partial_writes(storage, each, before, remove)]


def _partial_writes(storage: Storage, folder: str, before: int | None, remove: bool) -> list[str]:
    found = [
        file
        for file, written in storage.modification_times(folder).items()
        if _PARTIAL.search(file) and (before is None or written < before)
    ]
    for file in found if remove else ():
        storage.delete(file)
    return sorted(found)


@dataclass(frozen=True)
class DroppedModel:
    """A model whose table was dropped, and its leftovers."""

    model: StreamModel
    left: tuple[str, ...]
    """Names of its remaining tables, and paths of its folders."""


def dropped_models(
    spark: SparkSession, storage: Storage, schemas: Iterable[str]
) -> Iterator[DroppedModel | str]:
    """Yields models whose table was dropped, but whose state, changelog, checkpoint or savepoints still exist. A table
    counts as dropped only if its own catalog says so; if the catalog can't be asked, or a deployment can't be read, yields
    a sentence that says why.

    Args:
        schemas: full names of the schemas whose tables are examined.
    """
    try:
        swapping = tables_being_swapped(storage)
    except StreamError as problem:
        yield f"{problem.msg} Until then what is left of dropped models is left alone."
        return
    targets: set[str] = set()
    folders = {*storage.list(storage.checkpoints), *storage.list(storage.savepoints)}
    for key in sorted(folders | {*owner.model_keys(storage)}):
        try:
            noted = owner.read_owner(storage, key)
        except StreamError as problem:
            yield problem.msg
            continue
        if noted is None:
            yield (
                f"{key}: no note in {storage.tables} says which table its files under {storage.root} belong to; they were "
                "left alone."
            )
        elif noted.catalog != owner.catalog_identity(spark.conf, storage, noted.table):
            yield (
                f"{noted.table}: it is in another catalog ({owner.catalog_text(noted.catalog)}) than this target's; what "
                "is kept of it was left alone. Run the command with that target."
            )
        else:
            targets.add(noted.table)
    for schema in schemas:
        try:
            names = _tables_in_schema(spark, schema)
        except Exception as problem:
            yield f"{schema}: its tables can't be listed ({cause(problem)}); what is kept there was left alone."
            continue
        for name in names:
            of = _owning_model(spark, joined_name([*parts(schema), name]))
            if of is not None and is_same_table(of, target := joined_name([*parts(schema), last_part(of)])):
                targets.add(target)
    for target in sorted(targets - swapping):
        why_unknown = _unknown_existence_reason(spark, target)
        if why_unknown is not None:
            yield f"{target}: {why_unknown} What is kept of it was left alone."
        elif not spark.catalog.tableExists(target):
            yield _dropped_model(spark, storage, target)


def _dropped_model(spark: SparkSession, storage: Storage, target: str) -> DroppedModel:
    model = StreamModel(last_part(target), target, with_suffix(target, STATE_SUFFIX), storage, sources=())
    found = (owned_table(spark, model, role) for role in (STATE, CHANGELOG))
    tables = (table.name for table in found if table is not None)
    return DroppedModel(model, (*tables, *owner.model_folders(model)))


def _unknown_existence_reason(spark: SparkSession, table: str) -> str | None:
    """Returns the reason why it is unknown whether a catalog has a table; None if it is known."""
    from pyspark.errors import PySparkException

    schema = joined_name(parts(table)[:-1])
    try:
        spark.sql(f"describe namespace {schema}").collect()
        spark.catalog.tableExists(table)
    except Exception as problem:
        if isinstance(problem, PySparkException) and problem.getCondition() == "SCHEMA_NOT_FOUND":
            return f"there is no schema {schema}, or it can't be seen from here, so the table may be there."
        return f"the catalog can't be asked whether it is there ({cause(problem)})."
    return None


def _owning_model(spark: SparkSession, name: str) -> str | None:
    """Returns the model's table if a table is its state or changelog; None if it is neither."""
    if not is_state_or_changelog_name(name):
        return None  # saves loading the table: states and changelogs have these names
    table = find_table(spark, name)
    return table.property(OF) if table is not None and table.property(ROLE) in (STATE, CHANGELOG) else None


def _tables_in_schema(spark: SparkSession, schema: str) -> list[str]:
    from pyspark.errors import AnalysisException

    try:
        return [str(row["tableName"]) for row in spark.sql(f"show tables in {schema}").collect()]
    except AnalysisException as problem:
        if problem.getCondition() != "SCHEMA_NOT_FOUND":
            raise
        return []  # no model of the schema has run yet
