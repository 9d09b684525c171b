"""Compares a stream's table with a batch run of its query over the same input. Writes nothing.

The stream's lock is held meanwhile. The batch run reads source tables as of the snapshots that the stream has read
(`snapshot_sources`), so rows that arrived since are on neither side. Windows that have not closed are left out on
both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...query.program import Program
from ...query.windows import ranges
from ...query.windows.emission import Emission
from ...query.windows.ranges import WindowEndColumns
from ...util.quoting import quote as quoted
from ...util.text import counted, verb_form
from ..common.errors import StreamError, readable_errors
from ..common.model import StreamModel
from ..common.session import working_session
from ..common.table_rows import converted_value
from ..iceberg.table import APPEND, REPLACE, IcebergTable, load_table
from ..microbatch.lookups import Lookups
from ..microbatch.loop import closing_watermark
from ..microbatch.micro_batch import RunContext
from ..progress.position import Position, read_position
from ..run.evolve import effect_of_edit
from ..run.lock import model_lock
from ..run.recovery import StoredProgress, is_unfinished
from ..sink.append import AppendSink
from ..sink.multiset_diff import Difference, compare
from ..sources.as_of import snapshot_sources
from ..state.table import StateTable
from ..storage.checkpoint import Checkpoint, read_checkpoint
from ..storage.savepoints import check_not_interrupted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE = 5
"""Number of sample rows of each kind of difference."""


@dataclass(frozen=True)
class VerifyRequest:
    """Properties of a model's query that a verification needs."""

    text: Callable[[Mapping[str, str]], str]
    """Returns the query's SQL for batch, with views in place of some of its streams."""
    due: WindowEndColumns | None
    """Identifies rows whose window has closed; None if no column holds the window's end."""
    emission: Emission
    has_windows: bool
    """Whether the query keeps windows until they close."""
    is_append: bool
    """Whether emitted rows never change."""
    state_ttl: bool
    """Whether keys expire."""
    static: Sequence[str]
    """Tables that the query reads and that aren't streams."""


@dataclass(frozen=True)
class Verified:
    """Result of a verification."""

    difference: Difference
    until: int | None
    """Latest end of the compared windows, in microseconds since 1970; None if all rows are compared."""
    not_due: bool
    """Whether the stream may still emit rows that only batch has now."""
    notes: Sequence[str] = field(default_factory=tuple)
    """Sentences about the scope of the comparison."""
    hints: Sequence[str] = field(default_factory=tuple)
    """Sentences that may explain a difference."""

    @property
    def only_in_table(self) -> int:
        """Number of rows of the table that batch lacks."""
        return self.difference.ours - self.difference.equal

    @property
    def only_in_batch(self) -> int:
        """Number of rows of batch that the table lacks."""
        return self.difference.theirs - self.difference.equal

    @property
    def is_equal(self) -> bool:
        """Whether the table has the expected rows."""
        return not self.only_in_table and (self.not_due or not self.only_in_batch)


def verify(spark: SparkSession, model: StreamModel, program: Program, request: VerifyRequest) -> Verified:
    """Compares a model's table with a batch run of its query."""
    with readable_errors(model), model_lock(spark, model):
        check_not_interrupted(model)
        checkpoint = read_checkpoint(model.storage, model.checkpoint)
        session = working_session(spark)
        # Unlike a micro-batch, a verification may read many rows.
        session.conf.set("spark.sql.adaptive.enabled", "true")
        table, position, batch = _settled_progress(session, model, program)
        _check_not_edited(spark, model, program)
        until, not_due = _comparison_end(session, model, program, position, request)
        snapshot = snapshot_sources(session, model, program, batch)
        rows = f"select * from {table.name if table.known is None else table.snapshot_sql(table.known)}"
        ours, theirs, left_out = _with_common_columns(
            model, session.sql(rows), session.sql(request.text(snapshot.views))
        )
        notes = [*snapshot.notes, *left_out]
        if until is not None:
            assert request.due is not None
            theirs = _windows_until(model, theirs, request.due, until)
            if request.emission.first is not None:
                # With early firing, the table also has results of windows that have not closed.
                ours = _windows_until(model, ours, request.due, until)
            notes.append(
                f"Windows that end after {ranges.instant_text(until)} (UTC) aren't compared: they have not closed."
            )
        difference = compare(ours, theirs, SAMPLE)
        if read_checkpoint(model.storage, model.checkpoint) != checkpoint or _has_advanced(session, table):
            # On remote storage the lock doesn't exclude a run on another machine.
            raise StreamError(
                f"Model {model.name}: another run of it, or somebody else, wrote it while it was compared. Verify it again."
            )
        if not_due:
            notes.append(
                f"Rows that only batch has may still come; `dbt-stream flush {model.name}` emits those that need no "
                "more input, and then all are compared."
            )
        verified = Verified(difference, until, not_due, notes)
        if verified.is_equal:
            return verified
        is_edited = position.with_text(program.signature.text).is_edited
        return replace(verified, hints=list(_difference_hints(table, position, request, is_edited)))


def _has_advanced(session: SparkSession, table: IcebergTable) -> bool:
    now = load_table(session, table.name)
    return now is None or now.known != table.known


def _settled_progress(
    session: SparkSession, model: StreamModel, program: Program
) -> tuple[IcebergTable, Position, int]:
    """Returns the table, its last epoch and its last micro-batch. Raises unless the table has all input that was read."""
    first = f"Run it first: `dbt run --select {model.name}`."
    checkpoint, table = read_checkpoint(model.storage, model.checkpoint), load_table(session, model.target)
    if checkpoint is None or checkpoint.done is None or table is None:
        raise StreamError(f"Model {model.name} has read nothing yet. {first}")
    target = read_position(table.last_summary())
    state = StateTable(session, model).position() if program.keeps_state else None
    position = state if program.keeps_state else target
    if program.keeps_state and state is None:
        raise StreamError(
            f"Model {model.name}: its state {model.state} is gone. Rebuild it: {model.rebuild}."
        )
    for each in (target, state):
        if each is not None and each.query_id != checkpoint.query_id:
            raise StreamError(
                f"Model {model.name}: its table or state was written by another stream than the one in "
                f"{model.checkpoint}. Rebuild it: {model.rebuild}."
            )
    if _is_interrupted(checkpoint, target, state, position):
        raise StreamError(
            f"Model {model.name}: its last run was interrupted in the middle of an epoch. {first}"
        )
    return table, position or Position(model.name, checkpoint.query_id, checkpoint.done), checkpoint.done


def _is_interrupted(
    checkpoint: Checkpoint, target: Position | None, state: Position | None, position: Position | None
) -> bool:
    assert checkpoint.done is not None
    if is_unfinished(StoredProgress(checkpoint, target, state)) or any(
        each is not None and each.batch > checkpoint.done for each in (target, state)
    ):
        return True
    if state is not None and state.batch < checkpoint.done:
        return True
    return position is not None and (position.cut is not None or position.needs_rebuild)


def _check_not_edited(spark: SparkSession, model: StreamModel, program: Program) -> None:
    """Raises if the query was edited since the last run."""
    found = effect_of_edit(spark, model, program)
    if found.refused is not None:
        raise StreamError(f"Model {model.name}: {found.refused}")
    if found.found.is_migration or found.change is not None or found.add or found.drop:
        raise StreamError(
            f"Model {model.name}: its query was edited since its last run (`dbt-stream state diff {model.name}`). Run it "
            f"first: `dbt run --select {model.name}`."
        )


def _comparison_end(
    session: SparkSession, model: StreamModel, program: Program, position: Position, request: VerifyRequest
) -> tuple[int | None, bool]:
    """Returns `Verified.until` and `Verified.not_due`. Raises if results that are still to come can't be left out."""
    context = RunContext(
        model, program, StateTable(session, model), AppendSink(session, model), Lookups(model)
    )
    if not program.keeps_state or closing_watermark(session, context, position) is None:
        return None, False
    if request.has_windows and request.due is not None:
        if position.after is None:
            raise StreamError(f"Model {model.name} has no closed windows yet: it has no watermark.")
        return position.after - request.emission.complete, False
    if request.has_windows or not request.is_append:
        why = (
            "no column of its result says whether the window of a row has closed (as window_end or window_time does in "
            "a query that stays within windows)"
            if request.has_windows
            else "its rows change when those results come"
        )
        raise StreamError(
            f"Model {model.name} has results that are to come yet, and {why}. Close them first, with "
            f"`dbt-stream flush {model.name}`: rows that come later for what is closed then are late."
        )
    return None, True


def _with_common_columns(
    model: StreamModel, ours: DataFrame, theirs: DataFrame
) -> tuple[DataFrame, DataFrame, list[str]]:
    """Returns both relations with their common columns in the table's types, and a sentence about the other columns."""
    from pyspark.sql import functions as F

    gives = {each.name.lower(): each for each in theirs.schema.fields}
    fields = [each for each in ours.schema.fields if each.name.lower() in gives]
    if not fields:
        raise StreamError(f"Model {model.name}: its table and its query have no column in common.")
    has = {each.name.lower() for each in fields}
    others = [name for name in (*ours.columns, *theirs.columns) if name.lower() not in has]
    left_out = (
        [f"Not compared, for the table or the query lacks them: {', '.join(others)}."] if others else []
    )
    return (
        ours.select(*(F.col(quoted(each.name)) for each in fields)),
        theirs.selectExpr(*(converted_value(gives[each.name.lower()], each) for each in fields)),
        left_out,
    )


def _windows_until(model: StreamModel, rows: DataFrame, due: WindowEndColumns, until: int) -> DataFrame:
    """Returns the rows of windows that end at `until` or before. Raises if a row belongs to no window."""
    message = (
        f"Model {model.name} has rows of no window (their {due.columns[0]} is NULL, as an outer join leaves it), so "
        "whether they are final is unknown. Use coalesce of the window_end of both sides, or close the windows first, "
        f"with `dbt-stream flush {model.name}`."
    )
    if rows.where(f"{due.end} is null").take(1):
        raise StreamError(message)
    return rows.where(due.condition(until))


def _difference_hints(
    table: IcebergTable, position: Position, request: VerifyRequest, is_edited: bool
) -> Iterator[str]:
    """Yields possible explanations of a difference."""
    if position.late_rows:
        yield (
            f"{counted(position.late_rows, 'row')} came after all windows of that time had closed, and "
            f"{verb_form(position.late_rows, 'was', 'were')} dropped; batch doesn't drop any. A longer `watermark`, or "
            "`late_updates`, keeps more."
        )
    others = [
        snapshot
        for snapshot in table.lineage()
        if not snapshot.is_step
        and snapshot.operation != REPLACE
        and (snapshot.operation != APPEND or snapshot.adds_files)
    ]
    if others:
        yield (
            f"{counted(len(others), 'commit')} to the table {verb_form(len(others), 'is', 'are')} not the "
            f"stream's, the last one {others[0].operation} snapshot {others[0].id} (a backfill, or somebody's statement)."
        )
    if request.state_ttl:
        yield "With its state_ttl, keys that were idle for so long expire and start again; batch never forgets one."
    if is_edited:
        yield (
            "Its query or its state was edited since the stream began. A stream keeps what it emitted before; batch "
            "computes all rows with the query as it is now."
        )
    if request.static:
        yield (
            f"A stream keeps what it emitted before a change of {', '.join(request.static)}; batch computes all rows from "
            f"what {verb_form(len(request.static), 'that table is', 'those tables are')} now."
        )
