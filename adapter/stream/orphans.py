"""What killed processes and models that are gone have left behind: files and tables that nothing refers to.

What a running stream writes is never touched: each model is looked at under its lock, and what may still be written by
others only when it is older than any write takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..environment.storage import Storage
from .changes import changes_of
from .deployments import in_between, version
from .deployments import read as deployment_of
from .iceberg import IcebergTable, load
from .identifiers import joined, parts, with_suffix
from .lock import locked
from .model import CHANGES, STATE, StreamModel
from .saving import left_behind, tables_of

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

# Spark's checkpoint and our small files are written beside their place, and moved there in one step.
_PARTIAL = re.compile(r"(?:^|/)(?:\.[^/]*\.tmp(?:\.crc)?|[^/]*\.partial(?:\.crc)?|\.probe-[0-9a-f]+)$")


# Such a key doesn't tell the name of its table (see `StreamModel.key`).
_DIGEST = re.compile(r"-[0-9a-f]{8}$")


def of_model(spark: SparkSession, model: StreamModel, before: int, remove: bool) -> list[str]:
    """The files of a model that no commit of it knows.

    Args:
        spark: the project's session.
        model: the model; its sources don't matter.
        before: milliseconds since 1970; files of tables that are younger are left out.
        remove: whether they are removed.

    Raises:
        StreamError: a run of the model is going on.
    """
    with locked(spark, model):
        found = []
        # Somebody's own table may be called as the changelog would be.
        changes = [] if changes_of(spark, model, None) is None else [model.changes]
        others = _folders_beside(spark, model)
        for name in (model.target, model.state, *changes):
            table = load(spark, name)
            if table is not None and table.folder not in others:
                found += table.orphans(spark, before, remove)
        # Under its lock nobody writes to a checkpoint, where there are locks.
        until = None if model.storage.is_local else before
        if model.storage.is_local:
            found += left_behind(spark, model, remove)
        return found + _partial(model.storage, model.checkpoint, until, remove)


def _folders_beside(spark: SparkSession, model: StreamModel) -> set[str]:
    """The folders of the version that is beside a model: a table keeps its own when it is renamed, and one that is made anew
    under its name gets the same. What the one's snapshots don't know there may be the other's."""
    found = deployment_of(model.storage, model.target)
    if found is None:
        return set()
    beside = tables_of(spark, version(model, found.beside)).values()
    return {table.folder for table in beside if table is not None}


def of_storage(storage: Storage, before: int, remove: bool) -> list[str]:
    """Halves of small files that belong to no model."""
    found = []
    for folder in (storage.progress, storage.locks):
        found += _partial(storage, folder, before, remove)
    probes = [storage.path(name) for name in storage.list(storage.root) if _PARTIAL.search(name)]
    return found + [each for each in probes for _ in _partial(storage, each, before, remove)]


def _partial(storage: Storage, folder: str, before: int | None, remove: bool) -> list[str]:
    found = [
        file
        for file, written in storage.files(folder).items()
        if _PARTIAL.search(file) and (before is None or written < before)
    ]
    for file in found if remove else ():
        storage.delete(file)
    return sorted(found)


def dropped(spark: SparkSession, storage: Storage, catalog: str, schemas: Iterable[str]) -> list[StreamModel]:
    """Models whose table is gone, and of which a state, changes or a checkpoint are still there.

    Args:
        spark: the project's session.
        storage: where checkpoints are.
        catalog: the catalog that models are in.
        schemas: those whose tables are looked at, in full.
    """
    names = {
        tuple(key.split("."))
        for key in [*storage.list(storage.checkpoints), *storage.list(storage.savepoints)]
        if key.count(".") == 2 and key.startswith(f"{catalog}.") and not _DIGEST.search(key)
    }
    for schema in schemas:
        for row in _tables(spark, schema):
            for suffix in (STATE, CHANGES):
                table = str(row["tableName"])
                model = table.removesuffix(suffix)
                if model not in ("", table) and _is_of_stream(spark, joined([*parts(schema), table])):
                    names.add((*parts(schema), model))
    models = []
    between = in_between(storage)
    for name in sorted(names):
        target = joined(name)
        if target not in between and not spark.catalog.tableExists(target):
            models.append(
                StreamModel(
                    name=name[-1],
                    target=target,
                    state=with_suffix(target, STATE),
                    storage=storage,
                    sources=(),
                )
            )
    return models


def _is_of_stream(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import AnalysisException, IllegalArgumentException

    try:
        return IcebergTable(spark, name).has_notes
    except (AnalysisException, IllegalArgumentException):
        return False  # a view, or a table of another format


def _tables(spark: SparkSession, schema: str) -> list[Row]:
    from pyspark.errors import AnalysisException

    try:
        return spark.sql(f"show tables in {schema}").collect()
    except AnalysisException as problem:
        if problem.getCondition() != "SCHEMA_NOT_FOUND":
            raise
        return []  # none of its models was run yet
