"""A model's state between micro-batches, as an Iceberg table that anyone can query.

Each state table of the query is one partition of the Iceberg table. A micro-batch appends in one commit, whose snapshot
carries the `Position`. From time to time the state is compacted: the same state is written in fewer rows, with the same
position.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...query.program import STEP
from ...query.state_signature import VERSION, Signature, from_json, to_json
from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ...util.types import column_types, type_text
from ..common.errors import StreamError
from ..common.failpoints import around
from ..common.model import Retention, StreamModel
from ..common.session import register_view, sql
from ..common.table_rows import Columns, one_file_sql
from ..common.time_zones import instant_of_local_time
from ..evolution.migration import Migration, widening_migration
from ..evolution.output_schema import Widening, holds_interval, is_lossy, widening
from ..iceberg import commit
from ..iceberg.branches import roll_back
from ..iceberg.maintenance import PROPERTIES, Maintenance
from ..iceberg.ownership import drop_owned_table, owned_table
from ..iceberg.table import IcebergTable, added_rows
from ..progress.position import (
    COMPACTED,
    GROWTH,
    PREFIX,
    PartGrowth,
    Position,
    growth_from_text,
    growth_to_text,
    read_position,
)
from ..progress.state_metrics import PartFigures, Size, entries_by_part, written_per_part
from ..storage.savepoints import STATE
from .column_mapping import ColumnMapping, visible_columns
from .schema import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from ...query.program import StatePart

# A state table is compacted when it has doubled, over several commits.
_COMMITS = 4
_ROWS = 10_000
# Reading a small file costs a millisecond or two in each micro-batch; merging the files costs about as much as a
# micro-batch.
_LOOSE_FILES = 48
_FILE_SIZE = 32 << 20
# No stream reads old snapshots of the state, but a user who queries it needs its files for a while.
_RETENTION = Retention(max_snapshot_age=5 * 60 * 1_000_000, max_snapshots=100, target_file_size=_FILE_SIZE)

_SIGNATURE = f"{PREFIX}signature"
_VERSION = f"{PREFIX}version"
_INPUTS = f"{PREFIX}inputs"
_MAPPING = f"{PREFIX}columns"
_METRICS = "write.metadata.metrics.column."
"""Prefix of the properties that say for which columns Iceberg keeps bounds."""

_PROPERTIES = {
    "format-version": "2",
    # No shuffle before the write: it would cost more than a small file.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    # Only time columns are used to skip files.
    "write.metadata.metrics.default": "none",
    # The summary reports the rows added to each partition.
    "write.summary.partition-limit": "1000",
    **PROPERTIES,
}


_LOCAL = {
    # Iceberg's default of 4 MB per file would put only four of a micro-batch's small files into one read task.
    "read.split.open-file-cost": str(512 << 10)
}
"""Additional properties of a state on a local disk."""


class Widened(Exception):
    """Columns of the state were widened for a source's new types. The micro-batch has to be repeated, because its results
    and the hashes that it looked up depend on the old types."""


class StateTable:
    """The state of one model. Reads and writes use the session of the micro-batch."""

    def __init__(self, spark: SparkSession, model: StreamModel) -> None:
        self._model = model
        self._table = owned_table(spark, model, STATE)
        self._columns: Columns | None = None
        self._known_mapping: ColumnMapping | None = None
        self._growth: dict[str, PartGrowth] = {}
        self._shown: tuple[object, ...] | None = None
        self._maintenance: Maintenance | None = None
        self._is_compacted = False

    @property
    def exists(self) -> bool:
        return self._table is not None

    @property
    def table(self) -> IcebergTable:
        """The table, which must exist."""
        assert self._table is not None
        return self._table

    def position(self) -> Position | None:
        """Returns the position of the last committed micro-batch. Raises if the table has rows and no snapshot has a
        position."""
        if self._table is None:
            return None
        summary = self._table.last_summary()
        found = read_position(summary)
        if found is None and self._table.known is not None:
            raise StreamError(
                f"Model {self._model.name}: no snapshot of its state {self._model.state} has the stream's position; "
                f"somebody has expired them. To rebuild it: {self._model.rebuild}."
            )
        newest = self._table.newest_summary()
        if COMPACTED in newest:
            self._growth = growth_from_text(newest.get(GROWTH, ""))
        elif found is not None:
            self._growth = dict(found.growth)
            self._add_growth(summary, found)
        return found

    def signature(self) -> Signature | None:
        """Returns the signature of the query that made the state; None if there is no state. Raises `StreamError` if
        another version of this package created the table."""
        if self._table is None:
            return None
        properties = {name: self._table.property(name) or "" for name in (_VERSION, _SIGNATURE)}
        return read_signature(self._model, properties, f"its state {self._model.state}")

    @property
    def records_inputs(self) -> bool:
        """Whether the state records the input columns, for micro-batches without input."""
        return self._table is not None and self._table.property(_INPUTS) is not None

    def store_signature(self, signature: Signature, inputs: StructType | None) -> None:
        """Stores the signature of a query that can use the existing rows of the state.

        Args:
            inputs: columns of the next micro-batches, if a micro-batch without input needs them; else None.
        """
        self.table.set_properties({_SIGNATURE: _signature_text(signature), **self._inputs_property(inputs)})

    def _inputs_property(self, inputs: StructType | None) -> dict[str, str]:
        """Returns the new value of the property that records the input columns; empty if this state doesn't record them."""
        return {_INPUTS: inputs.json()} if inputs is not None and self.records_inputs else {}

    def create(
        self, spark: SparkSession, layout: Layout, signature: Signature, inputs: StructType | None = None
    ) -> None:
        """Creates the table.

        Args:
            inputs: columns of a micro-batch, if a micro-batch without input needs them; else None.

        Raises:
            StreamError: Iceberg doesn't support the type of a column.
        """
        schema = layout.schema
        for field in schema.fields:
            kind = field.dataType.simpleString()
            if holds_interval(kind):
                raise StreamError(
                    f"Model {self._model.name}: its state would keep {field.name} as {kind.upper()}, "
                    "which an Iceberg table can't store; convert intervals to numbers below the aggregates, as in "
                    "timestampdiff(SECOND, started_at, ended_at)."
                )
        timed = (
            each.name
            for each in schema.fields
            if each.dataType.typeName() == "timestamp" or each.name == STEP
        )
        properties = {
            **{f"{_METRICS}{name}": "full" for name in timed},
            _SIGNATURE: _signature_text(signature),
            _VERSION: str(VERSION),
            **(_mapping_property(layout.mapping) if layout.mapping else {}),
            **({} if inputs is None else {_INPUTS: inputs.json()}),
        }
        self._create_table(spark, schema, properties)

    def create_with_rows(
        self, spark: SparkSession, rows: DataFrame, properties: Mapping[str, str], position: Position
    ) -> None:
        """Creates the table with the rows of another model's state, whose last micro-batch is fully emitted.
        `properties`: properties of the other table that concern its columns."""
        table = self._create_table(spark, rows.schema, properties)
        # Growth is counted from here, as after a compaction.
        notes = replace(position, folded=True, growth={}).properties()
        commit.append("state.clone", self._model, table, rows, notes)

    def _create_table(
        self, spark: SparkSession, schema: StructType, properties: Mapping[str, str]
    ) -> IcebergTable:
        """Creates the table, with properties in addition to the default ones."""
        settings = {**_PROPERTIES, **(_LOCAL if self._model.storage.is_local else {}), **properties}
        columns, by = column_types(schema), "partitioned by (part)"
        table = commit.create(spark, "state.create", self._model, STATE, columns, settings, by)
        self._table = table
        self._columns = self._shown = self._known_mapping = None
        return table

    def undo_micro_batch(self, spark: SparkSession, position: Position) -> None:
        """Rolls the state back to before a micro-batch whose output the table can't accept."""
        with around("state.take_back", self._model.name):
            roll_back(spark, self.table, position)
        self._shown = None

    @property
    def mapping(self) -> ColumnMapping:
        """State table → logical column → physical column, where the names differ because the name has several types."""
        if self._known_mapping is None:
            noted = None if self._table is None else self._table.property(_MAPPING)
            self._known_mapping = json.loads(noted or "{}")
        return self._known_mapping

    def physical_types(self, spark: SparkSession) -> dict[str, str]:
        """Returns the physical columns of the state and their types, as in CREATE TABLE."""
        return column_types(spark.table(self._model.state).schema)

    def migrate(
        self,
        change: Migration,
        signature: Signature,
        position: Position,
        inputs: StructType,
        mapping: ColumnMapping,
        added: Callable[[StructType], DataFrame] | None = None,
    ) -> None:
        """Migrates the state to another query, in one commit that carries the last position. `added`: returns the rows to
        add, for the new schema; None to add none."""
        self._growth = self._growth_without(change.emptied_tables)
        timed = (name for name, kind in change.add.items() if kind.lower().startswith("timestamp"))
        settings = {
            _SIGNATURE: _signature_text(signature),
            **self._inputs_property(inputs),
            **(_mapping_property(mapping) if mapping or self.mapping else {}),
            **{f"{_METRICS}{name}": "full" for name in timed},
        }
        properties = replace(position, growth=self._growth).properties()
        made = commit.TableChange(change, settings, added)
        commit.migrate("state.migrate", self._model, self.table, made, properties)
        if added is not None:
            self._add_growth(self.table.last_summary(), position)
        self._columns = self._shown = self._known_mapping = None

    def input_schema(self) -> StructType:
        """Returns the columns of a micro-batch, as recorded in the table."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.table.property(_INPUTS) or "{}"))

    @property
    def relation(self) -> str:
        """The current table as a relation in SQL."""
        snapshot = self.table.known
        return f"{self._model.state}{'' if snapshot is None else f' version as of {snapshot}'}"

    def register_state_view(
        self,
        spark: SparkSession,
        reads: Collection[str] | None = None,
        added: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Registers the view ``state`` over the current table.

        Args:
            reads: the state tables that a text reads. Where a name has several types, the view has the columns of these
                state tables. None for the columns as they are in the table.
            added: state table → query of rows that are about to be appended, as in `append`. The view has these rows, too.
        """
        # Reads by snapshot: after a commit Spark would recompute cached rows that derive from the table's name.
        kept = f"select * from {self.relation}"
        renamed = reads is not None and bool(self.mapping)
        now = (spark, kept, frozenset(reads or ()) if renamed else None, tuple(added.values()))
        if self._shown == now:
            return
        text = "\nunion all\n".join([kept, *self._append_queries(spark, added)])
        if renamed:
            names = visible_columns(self._columns_of(spark).names, self.mapping, reads or ())
            columns = ", ".join(f"{quoted(column)} as {quoted(name)}" for column, name in names)
            text = f"select {columns} from (\n{text}\n)"
        register_view(sql(spark, text), "state")
        self._shown = now

    def _columns_of(self, spark: SparkSession) -> Columns:
        if self._columns is None:
            schema = spark.table(self._model.state).schema
            self._columns = Columns(schema, rebuild=self._model.rebuild, mapping=self.mapping)
        return self._columns

    def append(
        self,
        spark: SparkSession,
        parts: Mapping[str, str],
        position: Position,
        few: bool,
        rewritten: Sequence[str] = (),
    ) -> None:
        """Appends rows in one commit that carries `position`.

        Args:
            parts: state table → query. Columns that a query lacks are NULL.
            rewritten: state tables whose existing rows are replaced.
        """
        rows = self._union_of(spark, self._append_queries(spark, parts), few) if parts else None
        properties = replace(position, growth=self._growth_without(rewritten)).properties()
        if rows is not None and rewritten:
            commit.overwrite("state.append", self._model, self.table, rows, properties, rewritten)
        else:
            commit.append("state.append", self._model, self.table, rows, properties)
        self._record_commit([part for part in parts if part not in rewritten], position)
        self._record_commit(rewritten, replace(position, folded=True))

    def fold(self, spark: SparkSession, parts: Mapping[str, str], position: Position) -> None:
        """Compacts state tables: replaces their rows by those of the queries, in one commit that carries `position`."""
        rows = self._union_of(spark, self._part_queries(spark, parts), few=False)
        properties = replace(position, growth=self._growth_without(parts)).properties()
        commit.overwrite("state.fold", self._model, self.table, rows, properties, list(parts))
        self._record_commit(parts, position)
        self._is_compacted = True

    def edit(self, rows: DataFrame, parts: Sequence[str], position: Position) -> None:
        """Replaces all rows of these state tables, in one commit that carries `position`."""
        properties = replace(position, growth=self._growth_without(parts)).properties()
        commit.overwrite("state.edit", self._model, self.table, rows, properties, parts)

    def compact(self, spark: SparkSession) -> None:
        """Merges small files in one commit. The commit carries no position: Iceberg makes it without a condition, and
        another run may have continued meanwhile."""
        self._growth = {part: replace(growth, loose=0) for part, growth in self._growth.items()}
        with around("state.compact", self._model.name):
            self.table.compact(spark, {COMPACTED: "true", GROWTH: growth_to_text(self._growth)}, _FILE_SIZE)
        commit.rebase(self._model, self.table)

    def last_expiry(self, spark: SparkSession, closing: Mapping[str, tuple[str, str | None]]) -> int | None:
        """Returns the last instant at which a window closes, in microseconds since 1970; None if no window is open.
        `closing`: state table → column with the closing time, and its time zone."""
        if not closing:
            return None
        # One query per state table: Iceberg answers it from metadata, without reading a row.
        united = "\nunion all\n".join(
            f"select {literal(part)} as part, unix_micros(max({self.mapping.get(part, {}).get(column, column)})) as last "
            f"from {self._model.state} where part = {literal(part)}"
            for part, (column, _) in closing.items()
        )
        found = (tuple(row) for row in spark.sql(united).collect())
        return max(
            (instant_of_local_time(last, closing[part][1]) for part, last in found if last is not None),
            default=None,
        )

    def drop_empty_table(self, spark: SparkSession) -> None:
        """Drops a table without rows that a killed process has left, if there is one. Raises if another run has written the
        table meanwhile."""
        if self._table is None:
            return
        self._table.known = None
        commit.rebase(self._model, self._table, by_anyone=True)
        with around("state.drop", self._model.name):
            drop_owned_table(spark, self._model, STATE)
        self._table = self._columns = self._known_mapping = None

    def is_small(self, part: str) -> bool:
        """Returns whether reading all rows of a state table costs no more than finding some of them."""
        return self._row_count(part) <= _ROWS

    def is_cheap_to_rewrite(self, part: str, rows: int) -> bool:
        """Returns whether rewriting a state table costs no more than appending `rows` rows."""
        return rows >= _ROWS and 0 < self._row_count(part) <= 2 * rows and self.rows > 0

    def _row_count(self, part: str) -> int:
        growth = self._growth.get(part, PartGrowth())
        return growth.folded + growth.rows

    @property
    def rows(self) -> int:
        """Number of rows in the table, from the newest snapshot."""
        return self._summary_count("total-records")

    def total_size(self) -> dict[str, int]:
        """Returns the number of rows, bytes and files, from the newest snapshot."""
        size, files = self._summary_count("total-files-size"), self._summary_count("total-data-files")
        return {"rows": self.rows, "bytes": size, "files": files}

    @property
    def snapshot(self) -> int | None:
        """The known snapshot; None if nothing was ever written."""
        return None if self._table is None else self._table.known

    @property
    def name_in_iceberg(self) -> str:
        """The table's name in Iceberg."""
        return "" if self._table is None else str(self._table.java.name())

    def written_since(self, snapshot: int | None) -> dict[str, PartFigures] | None:
        """Returns the figures of what was written to each state table since a snapshot; None if they are unknown."""
        if self._table is None:
            return {}
        summaries = self._table.summaries_since(snapshot)
        return None if summaries is None else written_per_part(summaries)

    def part_sizes(self) -> dict[str, Size]:
        """Returns the size of each state table, from Iceberg's metadata."""
        sizes = {} if self._table is None else self._table.partition_sizes()
        return {part: Size(*size) for part, size in sizes.items()}

    def parts_to_fold(self, parts: Iterable[StatePart], watermark: int | None) -> list[str]:
        """Returns the names of the state tables for which compaction pays, because they have grown enough or have expired
        rows."""
        found = []
        for part in parts:
            growth = self._growth.get(part.name, PartGrowth())
            grown = growth.commits >= _COMMITS and growth.rows >= max(growth.folded, _ROWS)
            expired = part.lasts is None or growth.is_older(part.lasts, watermark)
            forgets = part.forgets is not None and growth.is_older(part.forgets, watermark)
            if forgets or (part.merges and grown and expired):
                found.append(part.name)
        return found

    def has_many_small_files(self) -> bool:
        """Returns whether the table has so many small files that merging them pays."""
        return sum(growth.loose for growth in self._growth.values()) >= _LOOSE_FILES

    def maintain(self, spark: SparkSession) -> int:
        """Expires old snapshots and metadata. Returns the number of commits."""
        if self._table is None:
            return 0
        if self._maintenance is None:
            self._maintenance = Maintenance("state", self._model, self._table, _RETENTION, is_read=False)
        if self._is_compacted:
            # Old snapshots still have the rows from before the compaction.
            self._is_compacted = False
            self._maintenance.check_snapshots_next()
        return self._maintenance.maintain_after_commit(spark)

    def _summary_count(self, what: str) -> int:
        return 0 if self._table is None else self._table.summary_count(what)

    def _record_commit(self, parts: Iterable[str], position: Position) -> None:
        for part in parts:
            self._record_growth(part, self.table.added_rows(part), position)

    def _growth_without(self, parts: Collection[str]) -> dict[str, PartGrowth]:
        """Returns the growth of the state tables other than `parts`, which a commit rewrites."""
        return {part: growth for part, growth in self._growth.items() if part not in parts}

    def _add_growth(self, summary: Mapping[str, str], position: Position) -> None:
        for part in entries_by_part(summary):
            self._record_growth(part, added_rows(summary, part), position)

    def _record_growth(self, part: str, rows: int, position: Position) -> None:
        had = self._growth.get(part, PartGrowth())
        if position.folded:
            self._growth[part] = PartGrowth(folded=rows, since=position.after)
        elif rows:
            self._growth[part] = PartGrowth(
                folded=had.folded,
                rows=had.rows + rows,
                commits=had.commits + 1,
                loose=had.loose + 1,
                since=position.after if had.since is None else had.since,
            )

    def _union_of(self, spark: SparkSession, made: Sequence[str], few: bool) -> DataFrame:
        united = "\nunion all\n".join(made)
        return sql(spark, one_file_sql(united) if few else united)

    def _part_queries(
        self,
        spark: SparkSession,
        parts: Mapping[str, str],
        check: Callable[[str, str, str], None] | None = None,
    ) -> list[str]:
        """Returns SQL for the rows of state tables with the columns of the Iceberg table. `check`: see `Columns.select`."""
        columns = self._columns_of(spark)
        return [columns.select(spark, query, name, check) for name, query in parts.items()]

    def _append_queries(self, spark: SparkSession, parts: Mapping[str, str]) -> list[str]:
        """Returns SQL for the rows to append to state tables. Raises `Widened` if columns were widened for them."""
        wider: list[Widening] = []
        found = self._part_queries(spark, parts, partial(self._check_column_type, wider))
        if not wider:
            return found
        self._widen(reduce(or_, wider))
        raise Widened

    def widen(self, spark: SparkSession, schema: StructType) -> bool:
        """Widens columns to those of a program; returns whether any was narrower."""
        has = {name.lower(): (name, kind) for name, kind in self.physical_types(spark).items()}
        wider = Widening()
        for field in schema.fields:
            if field.name.lower() in has:
                name, kind = has[field.name.lower()]
                more = widening((name,), kind, type_text(field.dataType))
                wider |= more if more and not more.fields else Widening()
        if wider:
            self._widen(wider)
        return bool(wider)

    def _widen(self, wider: Widening) -> None:
        last = read_position(self.table.last_summary())
        assert last is not None
        change = commit.TableChange(widening_migration(wider))
        commit.migrate("state.migrate", self._model, self.table, change, last.properties())
        self._columns = self._shown = None

    def record_inputs(self, inputs: StructType) -> None:
        """Records the input columns from now on, if this state records them."""
        if self._table is not None and (notes := self._inputs_property(inputs)):
            self._table.set_properties(notes)

    def _check_column_type(self, wider: list[Widening], name: str, given: str, kind: str) -> None:
        """Adds to `wider` if a column has to be widened for values of another type. Raises if widening doesn't help: Spark
        would silently round the values after a type change in a source."""
        more = widening((name,), kind, given)
        if more and not more.fields:
            wider.append(more)
        elif is_lossy(given.lower(), kind.lower()):
            raise StreamError(
                f"Model {self._model.name}: its query gives values of {given.upper()} for {name} of its state, which "
                f"is {kind.upper()}, so they would be cut off or lost: most likely the type of a source's column has "
                "changed. Nothing of this micro-batch was ingested. Convert it where it is read, as in "
                f"cast({name} as {kind.upper()}) as {name}, and continue the state with that: {self._model.keep_command}. "
                f"{self._model.rebuild_advice}"
            )


def read_signature(model: StreamModel, properties: Mapping[str, str], what: str = "its state") -> Signature:
    """Reads the signature of a state, called `what` in messages, from the properties of its table. Raises `StreamError` if
    another version of this package created the table."""
    layout = int(properties.get(_VERSION) or 0)
    if layout > VERSION:
        raise StreamError(
            f"Model {model.name}: {what} was made by a newer dbt-spark-streaming (layout {layout}, this one knows "
            f"{VERSION}). Update the package."
        )
    found: dict[str, Any] = json.loads(properties.get(_SIGNATURE) or "{}")
    if layout == VERSION:
        with suppress(ValueError):  # of a version under development
            return from_json(Signature, found)
    package = found.get("package")
    before = f"dbt-spark-streaming {package}" if package else "that version"
    raise StreamError(
        f"Model {model.name}: {what} was made by an earlier dbt-spark-streaming and has layout {layout}; this version "
        f"reads layout {VERSION} only. Nothing was changed: with {before} it continues as before. To rebuild it: "
        f"{model.rebuild}."
    )


def _mapping_property(mapping: ColumnMapping) -> dict[str, str]:
    """Returns the property that records the physical columns."""
    return {_MAPPING: json.dumps(mapping, sort_keys=True)}


def _signature_text(signature: Signature) -> str:
    return json.dumps(to_json(signature), sort_keys=True)


def signature_digest(signature: Signature) -> str:
    """Returns a short hash of a signature.

    >>> one, other = (Signature(event_times=times) for times in ({"a": "t", "b": "u"}, {"b": "u", "a": "t"}))
    >>> signature_digest(one) == signature_digest(other)
    True
    """
    return hashlib.sha256(_signature_text(signature).encode()).hexdigest()[:16]
