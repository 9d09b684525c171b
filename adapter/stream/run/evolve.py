"""Migrates a state to an edited query, in one commit before the first epoch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from ...__version__ import version
from ...query.program import Program
from ...query.state_signature import Signature
from ...util.types import column_types
from ..common import session_settings
from ..common.errors import StreamError
from ..common.model import BACKFILL, FAIL, IGNORE, StreamModel
from ..common.session import session_defaults, set_shuffle_partitions, working_session
from ..evolution.compare import evolution
from ..evolution.effect import Evolution, edit_text
from ..evolution.match_parts import program_with_state_names
from ..evolution.migration import Migration, migrated_signature, migration
from ..evolution.output_schema import alterations, check_columns, widenings
from ..iceberg.table import stored_types
from ..microbatch.lookups import Lookups
from ..microbatch.micro_batch import MicroBatch, RunContext
from ..progress.position import Position
from ..sink.append import AppendSink
from ..sources.added_columns import later_columns
from ..sources.readers import read_streams
from ..sources.upstream import check_sources
from ..state.column_mapping import ColumnMapping, TwoTypesError, belongs_to, signature_with_physical_names
from ..state.schema import KnownColumns, Layout
from ..state.table import StateTable, read_signature, signature_digest
from ..storage.checkpoint import read_checkpoint
from ..storage.deployments import interrupted_swap_problem as swap_problem
from ..storage.savepoints import STATE, interrupted_restore_problem, stored_savepoints
from ..storage.source_order import in_checkpoint_order
from .backfill_metrics import NewMetrics, check_new_metrics
from .recovery import StoredProgress, is_unfinished, query_problem
from .state_change import StateChange, describe_value_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Spark")


@dataclass(frozen=True)
class Verdict:
    """The effect of the next run on the state and the table of an edited query."""

    is_stateful: bool = True
    """Whether the query keeps a state."""
    position: Position | None = None
    """The last epoch in the state; None if there is no state, so that any query is accepted."""
    found: Evolution = field(default_factory=Evolution)
    change: Migration | None = None
    """Migration of the state; None if it isn't changed or can't be used."""
    refused: str | None = None
    """The error that the next run raises, as a sentence; None if it raises none."""
    add: Mapping[str, str] = field(default_factory=dict)
    """Columns to add to the table, with their types."""
    drop: Sequence[str] = ()
    """Columns to drop from the table."""
    history: str | None = None
    """Size of the sources' history that is read for new aggregates, in words; None if none is read."""
    undo: str | None = None
    """The savepoint from before the last edit, if `dbt-stream state undo` helps: its state has aggregates of this query that
    the current state lacks. None otherwise."""


def with_signature(
    spark: SparkSession, model: StreamModel, program: Program, had: Signature | None = None
) -> Program:
    """Returns a program with its complete signature. `had`: signature of the state, whose names are used for matching
    state tables and groups; None if there is no state."""
    program = program_with_state_names(had or Signature(), program, model.keep_state)
    columns = None if model.columns is None else tuple(sorted(name.lower() for name in model.columns))
    signature = replace(
        program.signature,
        fingerprints=None if program.fingerprints is None else program.fingerprints(),
        session=session_settings.settings_of(spark),
        package=version,
        row_key=None if program.upsert is None else program.upsert.row_key,
        columns=columns,
    )
    return replace(program, signature=signature)


def effect_of_edit(spark: SparkSession, model: StreamModel, program: Program) -> Verdict:
    """Returns what the next run does to a model's state and table. Changes nothing."""
    session = working_session(spark)
    state = StateTable(session, model)
    position, had = (state.position(), state.signature()) if program.keeps_state else (None, None)
    requested, program = program, with_signature(session, model, program, had)
    exists = session.catalog.tableExists(model.target)
    has = column_types(session.table(model.target).schema) if exists else None
    add, drop = ({}, []) if has is None else alterations(model, list(has))
    refused = swap_problem(model) or interrupted_restore_problem(model)
    try:
        if refused is None and model.columns is not None:
            check_columns(model, program, model.columns, has)
    except StreamError as error:
        refused = error.without_name(model.name)
    if position is None or had is None:
        return Verdict(program.keeps_state, refused=refused, add=add, drop=drop)
    found = evolution(had, program.signature, model.keep_state)
    problem = query_problem(model, found, had, program.signature)
    if refused is None and problem is not None:
        refused = f"{problem} {model.rebuild_advice}"
    change = None
    try:
        if refused is None:
            context = RunContext(model, program, state, AppendSink(session, model), Lookups(model))
            # `_lacks_last_output` is needed only if the output is reshaped.
            open_step = bool(found.changed_output) and _lacks_last_output(context, position)
            change = plan_state_change(session, context, had, position, open_step, has=has or {})
    except StreamError as error:
        refused = error.without_name(model.name)
    undo = _usable_savepoint(session, model, requested, found) if refused is not None or found.new else None
    history = change.history.size_text if change is not None and change.history is not None else None
    migration = change.migration if change else None
    effect = Verdict(position=position, found=found, change=migration, refused=refused)
    return replace(effect, add=add, drop=drop, history=history, undo=undo)


def effect_on_state(
    spark: SparkSession, model: StreamModel, program: Program, properties: Mapping[str, str], owner: str
) -> tuple[Evolution, str | None]:
    """Returns the effect of a query on a copy of a state, and why it can't use the state; None if it can.

    Args:
        properties: properties of the state's table when it was copied.
        owner: says in messages whose state it is.
    """
    had = read_signature(model, properties, f"the state of {owner}")
    signature = with_signature(spark, model, program, had).signature
    found = evolution(had, signature, model.keep_state)
    return found, query_problem(model, found, had, signature)


def _lacks_last_output(context: RunContext, position: Position) -> bool:
    """Returns whether the table lacks the output of the state's last epoch."""
    model, sink = context.model, context.sink
    checkpoint = read_checkpoint(model.storage, model.checkpoint)
    return is_unfinished(StoredProgress(checkpoint, sink.position(), position))


def _usable_savepoint(
    spark: SparkSession, model: StreamModel, program: Program, found: Evolution
) -> str | None:
    """Returns the savepoint that `undo` restores, if the query can use its state, and either can't use the current state or
    would start more new aggregates with the current one."""
    found_all = stored_savepoints(model.storage, model.savepoints)
    saved = next((each for each in reversed(found_all) if each.is_automatic), None)
    state = saved.tables[STATE] if saved is not None else None
    if saved is None or state is None:
        return None
    before, problem = effect_on_state(
        spark, model, program, state.properties, f"its savepoint '{saved.name}'"
    )
    if problem is not None:
        return None
    return saved.name if found.refused or len(before.new) < len(found.new) else None


def plan_state_change(
    spark: SparkSession,
    context: RunContext,
    had: Signature,
    position: Position,
    open_step: bool,
    has: Mapping[str, str],
) -> StateChange | None:
    """Plans the change of a state for the program, without changing anything. Returns None if there is nothing to change.

    Args:
        open_step: whether the table lacks the output of the epoch `position`.
        has: the columns of the model's table and their types.

    Raises:
        StreamError: the state can't be migrated, or its config doesn't allow it.
    """
    model, signature = context.model, context.program.signature
    if model.columns is None:
        signature = replace(signature, columns=had.columns)
    found = evolution(had, signature, model.keep_state)
    edit = _Edit(spark, context, found, had, position)
    if not found.is_migration:
        # Rows of the state may lack fields that structs in the table get.
        gets_fields = bool(widenings(model, has).fields)
        return edit.plan_row_changes(signature, gets_fields)
    if model.columns is None:
        raise StreamError(
            f"Model {model.name}: {edit_text(found.differences)}. Run it first: `dbt run --select {model.name}` "
            "migrates the state to the changed query."
        )
    is_cut = position.cut is not None
    # A rebuild emits all rows of the result, including the output of an interrupted epoch.
    lost = bool(found.changed_output) and open_step and not position.needs_rebuild
    if (found.rebuilt and is_cut) or (found.changed_output and (is_cut or lost)):
        raise StreamError(
            f"Model {model.name}: {edit_text(found.differences)}, and a run was interrupted in its last micro-batch. Put "
            f"the query back and run it, then change it; or rebuild it: {model.rebuild}."
        )
    # Problems that would stop the run are reported before anything is changed.
    check_sources(spark, in_checkpoint_order(model, context.program.inputs).model)
    backfills = bool(found.new) and model.on_new_metric == BACKFILL
    read = check_new_metrics(spark, context, found, had, position) if backfills else None
    change, layout = edit.plan_migration(signature)
    from_now = {} if backfills else found.new_keys
    signature_after = migrated_signature(
        had, signature, change.leftovers, change.drop, rebuilt_from=found.rebuilt_from, from_now=from_now
    )
    return StateChange(found, change, signature_after, layout.mapping, layout.schema, history=read)


@contextmanager
def backfilled_metrics(
    spark: SparkSession,
    context: RunContext,
    change: StateChange | None,
    had: Signature | None,
    position: Position | None,
    unfinished: bool,
) -> Iterator[NewMetrics | None]:
    """Computes new aggregates from the history of the sources, without writing. Yields None if a change needs none.

    Args:
        unfinished: whether the table lacks the output of the state's last epoch.

    Raises:
        StreamError: the history differs from the rows that the state has ingested.
    """
    if change is None or change.history is None:
        yield None
        return
    assert had is not None and position is not None
    made = NewMetrics(context, spark, position, unfinished=unfinished, had=had, change=change)
    try:
        logger.info(
            f"Model {context.model.name}: reads {change.history.size_text} again, for what "
            f"{', '.join(change.found.new)} had been."
        )
        made.compute()
        yield made
    finally:
        made.release()
        set_shuffle_partitions(spark, session_defaults(spark))


def migrate_state(
    spark: SparkSession,
    context: RunContext,
    change: StateChange,
    position: Position,
    added: NewMetrics | None = None,
) -> Position:
    """Applies a change to a state, in one commit. Returns the last epoch of the changed state. `added`: values of new
    aggregates from the history; None if they start with the next row."""
    position = replace(
        position if added is None else added.then, signature=signature_digest(change.signature)
    )
    # If only the signature changes, as in a flush, the sources aren't read: one may be gone.
    inputs = None
    if change.migration is not None or context.state.records_inputs:
        inputs = read_streams(spark, context.model, context.program.inputs).schema
    if change.migration is None:
        context.state.store_signature(change.signature, inputs)
        return position
    assert inputs is not None
    position = replace(position, needs_rebuild=position.needs_rebuild or bool(change.found.rebuilt))
    rows = None if added is None else added.rows
    context.state.migrate(change.migration, change.signature, position, inputs, change.mapping, rows)
    logger.info(
        f"Model {context.model.name}: its state continues with the changed query ({change.describe}). To undo this: "
        f"`dbt-stream state undo {context.model.name}`."
    )
    return position


@dataclass(frozen=True)
class _Edit:
    """The effect of an edited query on a state."""

    spark: SparkSession
    context: RunContext
    found: Evolution
    had: Signature
    """Signature of the state."""
    position: Position
    """The last epoch in the state."""

    def plan_row_changes(self, new: Signature, gets_fields: bool) -> StateChange | None:
        """Plans the change of the types and fields of stored rows, and of the signature, if the operators are the same.
        Returns None if nothing changes. `gets_fields`: whether the query reads fields that stored rows lack."""
        model, signature = self.context.model, migrated_signature(self.had, new, {})
        later = self._added_columns(signature)
        if signature == self.had and not later and not gets_fields:
            return None
        # The columns of stored rows are known only from the types in the table.
        migration, layout = self.plan_migration(signature, later)
        if migration.narrow and (model.columns is None or model.on_state_change == FAIL):
            run = f"`dbt run --select {model.name}`"
            how = "leave its config on_state_change out" if model.columns else f"first run {run}"
            raise StreamError(
                f"Model {model.name}: {edit_text([*describe_value_changes(migration)])}. To migrate the state to the "
                f"changed query, {how}."
            )
        if migration.widen or migration.narrow or migration.promote:
            return StateChange(self.found, migration, signature, layout.mapping, layout.schema)
        return StateChange(self.found, None, signature) if signature != self.had else None

    def _added_columns(self, signature: Signature) -> dict[str, str]:
        """Returns columns that sources got since the last run and that a `*` of the unchanged query reads, with their
        types."""
        model, program = self.context.model, self.context.program
        if self.had.text is None or self.had.text != signature.text:
            return {}
        if program.upsert is not None and program.upsert.key is None and model.on_schema_change == IGNORE:
            # The row key is all columns, and the table would lack the new one.
            return {}
        if not any(
            "struct<" in kind.lower() for kind in self.context.state.physical_types(self.spark).values()
        ):
            return {}
        return later_columns(self.spark, model, program.inputs, program.tables, self.position.batch)

    def plan_migration(
        self, signature: Signature, later: Mapping[str, str] | None = None
    ) -> tuple[Migration, Layout]:
        """Returns the migration of the state, and its layout afterwards."""
        spark, model, state, found = self.spark, self.context.model, self.context.state, self.found
        rows = spark.createDataFrame([], read_streams(spark, model, self.context.program.inputs).schema)
        step = MicroBatch(self.context, spark, self.position, session_defaults(spark))
        has = state.physical_types(spark)
        try:
            layout = step.state_layout(rows, KnownColumns(has, state.mapping, partial(new_columns, found)))
        except TwoTypesError as problem:
            raise StreamError(f"Model {model.name}: {problem} To rebuild it: {model.rebuild}.") from problem
        if state.mapping or layout.mapping:
            # Compare again with physical column names, because several columns have one logical name.
            was, now = (
                signature_with_physical_names(self.had, state.mapping),
                signature_with_physical_names(signature, layout.mapping),
            )
            found = evolution(was, now, model.keep_state)
            if found.refused:
                raise StreamError(
                    f"Model {model.name}: {edit_text(found.refused)}. To rebuild it: {model.rebuild}."
                )
        wants = stored_types(spark, column_types(layout.schema))
        own = _kept_columns(found, layout.physical_names) if found.drops_other_parts else set()
        change, problems = migration(found, has, wants, own, later)
        if problems:
            raise StreamError(f"Model {model.name}: {edit_text(problems)}. To rebuild it: {model.rebuild}.")
        return change, layout


def new_columns(found: Evolution, part: str) -> Collection[str] | None:
    """Returns the columns of a state table that are new or renamed, or None if the whole state table is new."""
    if part in found.dropped_parts or part in found.new_parts:
        return None
    begun = {*found.new_columns_in.get(part, ())}.union(
        *(columns for operator, columns in found.new_columns.items() if belongs_to(part, operator))
    )
    return begun | {now for was, now in found.renamed.items() if was != now}


def _kept_columns(found: Evolution, called: ColumnMapping) -> set[str]:
    """Returns the existing columns of the state tables that stay."""
    parts = called.keys() - {*found.dropped_parts} - found.new_parts
    return {"part"}.union(
        *({*called[part].values()} - found.new_columns_in.get(part, set()) for part in parts)
    )
