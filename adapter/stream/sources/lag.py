"""Computes how far a new version of a model lags behind the old one, from their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...util.text import counted
from ..common.errors import StreamError
from ..common.model import StreamModel, StreamSource, changelog_name
from ..iceberg.table import load_table
from ..storage.checkpoint import (
    files_until,
    last_snapshot,
    log_number_in_offset,
    read_checkpoint,
    read_offsets,
    topic_offsets,
)
from ..storage.deployments import PROMOTED, deployment_of_table
from ..storage.source_order import noted_sources
from .as_of import fully_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..iceberg.table import IcebergTable


@dataclass(frozen=True)
class Lag:
    """Input of a source that one version has read and the other has not."""

    source: str
    count: int
    unit: str
    """Unit of the count: ``rows``, ``files`` or ``messages``."""

    def __str__(self) -> str:
        return f"{counted(self.count, self.unit.removesuffix('s'))} of {self.source}"


@dataclass(frozen=True)
class _Read:
    """Offset up to which a version has read a source."""

    place: int
    checkpoint: str
    offset: str


def consumer_lag(spark: SparkSession, old: StreamModel, new: StreamModel) -> list[Lag]:
    """Returns how much of each common source the old version of a model has read and the new one has not."""
    # The old version's planned micro-batch may be in its table; the new version's planned one has to be repeated.
    had, has = _sources_read(old, "old", planned=True), _sources_read(new, "new", planned=False)
    return [
        lag
        for source in had
        if source in has
        for lag in _lags_of_source(spark, new, source, had[source], has[source])
        if lag.count
    ]


def _sources_read(model: StreamModel, which: str, planned: bool) -> dict[str, _Read]:
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    if checkpoint is None:
        command = "dbt-stream deploy await" if model.is_deployment_version else "dbt run --select"
        raise StreamError(
            f"Model {model.name}: its {which} version {model.target} has no checkpoint: it was forgotten since "
            f"(`dbt-stream reset {model.name}`), or its first run didn't begin. `{command} {model.name}` has it begin "
            "at its sources' beginning."
        )
    batch = checkpoint.planned if planned else checkpoint.done
    offsets = [] if batch is None else read_offsets(model.storage, model.checkpoint, batch)
    sources = noted_sources(model.storage, model.checkpoint)
    if not sources or (offsets and len(offsets) != len(sources)):
        raise StreamError(
            f"Model {model.name}: its checkpoint {model.checkpoint} doesn't say how far it has read its sources."
        )
    offsets = offsets or ["-"] * len(sources)
    return {
        source: _Read(place, model.checkpoint, offset)
        for place, (source, offset) in enumerate(zip(sources, offsets, strict=True))
    }


def _lags_of_source(
    spark: SparkSession, model: StreamModel, source: str, had: _Read, has: _Read
) -> Iterator[Lag]:
    if log_number_in_offset(had.offset) is not None:
        old, new = (
            files_until(model.storage, each.checkpoint, each.place, each.offset) for each in (had, has)
        )
        yield Lag(source, len(old - new), "files")
    elif (snapshot := last_snapshot(had.offset)) is not None:
        table = load_table(spark, source)
        if (
            table is not None
            and not table.has_snapshot(snapshot)
            and _is_of_previous_version(spark, model, source, snapshot)
        ):
            # The old version has read the source's earlier version. The new one has to read all rows of the current
            # one.
            newest = table.snapshot_id
            count = 0 if newest is None else _unread_rows(model, source, table, newest, has.offset)
            yield Lag(source, count, "rows")
            return
        if table is None or not table.has_snapshot(snapshot):
            raise StreamError(
                f"Model {model.name}: the table {source} that both versions stream from is gone or was rebuilt, so how "
                "far they are is unknown."
            )
        yield Lag(source, _unread_rows(model, source, table, snapshot, has.offset), "rows")
    elif (topics := topic_offsets(had.offset)) is not None:
        read = topic_offsets(has.offset) or {}
        count = sum(
            max(0, to - read.get(topic, {}).get(partition, 0))
            for topic, partitions in topics.items()
            for partition, to in partitions.items()
        )
        yield Lag(source, count, "messages")


def _is_of_previous_version(spark: SparkSession, model: StreamModel, source: str, snapshot: int) -> bool:
    """Returns whether a table belongs to a promoted version of its model, and a snapshot to the previous version."""
    deployed = deployment_of_table(model.storage, source)
    if deployed is None or deployed.phase != PROMOTED:
        return False
    before = [load_table(spark, name) for name in (deployed.previous, changelog_name(deployed.previous))]
    return any(table is not None and table.has_snapshot(snapshot) for table in before)


def _unread_rows(model: StreamModel, source: str, table: IcebergTable, had: int, offset: str) -> int:
    """Returns the number of rows up to a snapshot that are unread at an offset."""
    has = last_snapshot(offset)
    if has is None or not table.has_snapshot(has):
        return table.appended_rows(None, had)
    try:
        fully_read(model, StreamSource(source, source), table, offset)
        partly = 0
    except StreamError:
        # A run ended within a snapshot: an unknown part of its rows is read.
        partly = table.appended_rows(has, has)
    if any(each.id == had for each in table.lineage_of(has)):
        return partly
    return partly + table.appended_rows(has, had) - table.appended_rows(has, has)
