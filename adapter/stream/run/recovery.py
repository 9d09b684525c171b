"""Checks, before anything is written, that checkpoint, state, changelog and table match.

A micro-batch is written in this order: Spark's plan of its input in the checkpoint, the state, the changelog (if there is
one), the table, Spark's commit in the checkpoint. So after a crash at any point the table is at most one epoch behind the
changelog and the state, and the state at most one epoch behind the checkpoint's plan. Anything else means that one of
them was removed, restored or replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...query.program import CHANGES
from ...query.state_signature import RowKey, Signature
from ...util.text import counted
from ..common import session_settings
from ..common.errors import StreamError
from ..common.identifiers import joined_name, parts, with_suffix
from ..common.model import FAIL, StreamModel
from ..evolution.compare import evolution
from ..evolution.effect import Evolution, edit_text
from ..progress.position import Position
from ..sink.append import Sink
from ..sink.incremental_runs import NOTE
from ..state.table import StateTable
from ..storage.checkpoint import Checkpoint, read_checkpoint


@dataclass(frozen=True)
class StoredProgress:
    """The checkpoint and tables that a run finds when it starts."""

    checkpoint: Checkpoint | None
    target: Position | None
    """The last epoch in the table."""
    state: Position | None = None
    """The last epoch in the state."""
    has_target: bool = True
    target_written: bool = True
    """Whether the table has a snapshot."""
    signature: Signature | None = None
    changes: Position | None = None
    """The last epoch in the changelog."""
    target_has_full_history: bool = False
    """Whether no ancestor of the table's current snapshot has expired, so that an epoch in the table would be found."""
    target_rows: int = 0
    """Number of rows in the table."""
    changes_ahead: int = 0
    """Number of epochs that are in the changelog and not in the table."""
    target_incremental: bool = False
    """Whether an incremental run of dbt has written to the table since the stream's last epoch."""
    reads: Sequence[str] = ()
    """Tables and folders that the checkpoint's stream reads."""


def progress_of(model: StreamModel, state: StateTable | None, sink: Sink) -> StoredProgress:
    """Reads the progress of a model's checkpoint and tables.

    Args:
        state: None if the query keeps no state.

    Raises:
        StreamError: the progress of one of them isn't known, or another version of this package made the state.
    """
    return StoredProgress(
        checkpoint=read_checkpoint(model.storage, model.checkpoint),
        has_target=sink.exists,
        target_written=sink.is_written,
        target=sink.position(),
        target_has_full_history=sink.has_full_history,
        target_rows=sink.rows,
        state=None if state is None else state.position(),
        signature=None if state is None else state.signature(),
        changes=sink.changes.position() if sink.changes else None,
        changes_ahead=sink.changes_ahead(),
        target_incremental=sink.has_incremental_runs,
    )


def check_can_continue(
    model: StreamModel, stateful: bool, signature: Signature, found: StoredProgress
) -> None:
    """Raises unless the stream can start or continue."""
    if problem := _checkpoint_problem(model, found) or _target_problem(model, found):
        raise StreamError(f"Model {model.name}: {problem} To rebuild it: {model.rebuild}.")
    if problem := _input_problem(model, found):
        raise StreamError(f"Model {model.name}: {problem}")
    if problem := _query_problem(model, signature, found) if stateful else None:
        raise StreamError(f"Model {model.name}: {problem} {model.rebuild_advice}")
    if problem := (
        _state_problem(model, found) if stateful else _stateless_problem(model, found)
    ) or _changes_problem(model, found, stateful):
        raise StreamError(f"Model {model.name}: {problem} To rebuild it: {model.rebuild}.")


def _checkpoint_problem(model: StreamModel, found: StoredProgress) -> str | None:
    if found.checkpoint is None or not found.checkpoint.missing:
        return None
    return (
        f"a part of its checkpoint {model.checkpoint} is gone ({', '.join(found.checkpoint.missing)}), so rows could "
        "be skipped or read twice."
    )


def _input_problem(model: StreamModel, found: StoredProgress) -> str | None:
    """Returns the problem if the stream has read the changelog of an upstream model that no longer writes one, or the
    table of one that writes a changelog now."""
    was = {tuple(parts(name)) for name in found.reads}
    now = {tuple(parts(source.location)) for source in model.sources}
    for source in model.sources:
        if not source.is_table:
            continue
        *above, own = parts(source.location)
        table = (*above, own.removesuffix(CHANGES))
        if table in was - now and (*above, own) not in was:
            return (
                f"it has read the rows of {joined_name(table)}, which are updated since that model was edited or rebuilt, "
                f"so a stream reads their changes now ({source.location}). To continue with these, rebuild this model: "
                f"{model.rebuild}."
            )
        changes = with_suffix(source.location, CHANGES)
        if tuple(parts(changes)) in was - now:
            name = parts(source.location)[-1]
            return (
                f"it has read the changes of {source.location} ({changes}), and no streaming model that updates its "
                f"rows writes that table any more. If {name} is now a table or an incremental model, make it a "
                f"streaming model again and rebuild both: {model.rebuild_command(source.location)}; or build this model in "
                f"batch as well: materialized='table', with ref('{name}') instead of stream(ref('{name}')). If {name} "
                f"is still a streaming model, rebuild this one: {model.rebuild}."
            )
    return None


def _changes_problem(model: StreamModel, found: StoredProgress, stateful: bool) -> str | None:
    """Returns the problem if the changelog doesn't match state and table.

    It is written after the state and before the table, so it is at most one epoch ahead of the table. A changelog that is
    behind catches up with the table later. One that was created before the first epoch has no stream's id."""
    changes, checkpoint = found.changes, found.checkpoint
    if changes is None or not changes.query_id:
        return None
    if checkpoint is None or changes.query_id != checkpoint.query_id:
        return _other_stream_problem(model, f"changelog {model.changes}", changes, checkpoint)
    if stateful and found.state is None:
        # A run was interrupted before its changes were in the table, and then a rebuild after it dropped the state.
        return f"its changelog {model.changes} holds changes of a stream whose state {model.state} is gone."
    if found.changes_ahead > 1:
        return (
            f"its changelog {model.changes} is {counted(found.changes_ahead, 'step')} ahead of its table "
            f"{model.target}: the table was rolled back."
        )
    if found.state is not None and changes.step > found.state.step:
        return _rolled_back_problem(
            f"changelog {model.changes}", changes, f"state {model.state} at {found.state.batch}", "state"
        )
    return _older_checkpoint_problem(model, f"changelog {model.changes}", changes, checkpoint)


def _target_problem(model: StreamModel, found: StoredProgress) -> str | None:
    if not found.has_target:
        if found.state is not None:
            return f"its table {model.target} is gone, but its state {model.state} is there."
        return f"its table {model.target} doesn't exist."
    if found.checkpoint is None and found.target is not None:
        return (
            f"its table {model.target} holds rows of a stream whose checkpoint {model.checkpoint} is gone; "
            f"starting again would put every row in twice.{_other_host_hint(model)}"
        )
    # The snapshots of a stream's own table may have expired. A stream that hasn't begun has not written to the table.
    begun = found.checkpoint is not None and found.checkpoint.planned is not None
    if found.target is None and found.target_rows and (found.target_has_full_history or not begun):
        return (
            f"its table {model.target} has {counted(found.target_rows, 'row')}, and none of its commits is a stream's: "
            "it was built in another way (as a table or incrementally, by another materialization), and what the "
            "stream reads would be added to these rows."
        )
    if found.target_incremental:
        return (
            f"an incremental run has added rows to its table {model.target} since the stream ran, and what the stream "
            "reads would be added to these rows. To keep them, if the stream won't read any of them again: `ALTER "
            f"TABLE {model.target} UNSET TBLPROPERTIES ('{NOTE}')`."
        )
    if found.checkpoint and found.target and found.target.query_id != found.checkpoint.query_id:
        return _other_stream_problem(model, f"table {model.target}", found.target, found.checkpoint)
    return None


def _other_host_hint(model: StreamModel) -> str:
    """Returns another possible reason for tables without a checkpoint, if the storage is local."""
    if not model.storage.is_local:
        return ""
    return (
        f" (Was it begun on another machine? {model.storage.root} is a folder of this machine; both need a 'storage_root' "
        "in the profile that each of them sees.)"
    )


def _query_problem(model: StreamModel, signature: Signature, found: StoredProgress) -> str | None:
    """Returns the reason why the state can't be used with the query or in this session, or None."""
    checkpoint, state = found.checkpoint, found.state
    known = found.signature
    if state is None or known is None or checkpoint is None or state.query_id != checkpoint.query_id:
        return None  # reported by `_state_problem`
    effect = evolution(known, signature, model.keep_state)
    return query_problem(model, effect, known, signature)


def _state_problem(model: StreamModel, found: StoredProgress) -> str | None:
    checkpoint, state, target = found.checkpoint, found.state, found.target
    if state is None:
        if checkpoint and checkpoint.done is not None:
            return f"its checkpoint {model.checkpoint} is there, but its state {model.state} is gone."
        if target is not None:
            return f"its table {model.target} holds rows of a stream whose state {model.state} is gone."
        if checkpoint and checkpoint.planned:
            return f"its checkpoint {model.checkpoint} is there, but its state {model.state} is gone."
        return None
    if checkpoint is None:
        return f"its state {model.state} is there, but its checkpoint {model.checkpoint} is gone.{_other_host_hint(model)}"
    if state.query_id != checkpoint.query_id:
        return _other_stream_problem(model, f"state {model.state}", state, checkpoint)
    if problem := _older_checkpoint_problem(model, f"state {model.state}", state, checkpoint):
        return problem
    if checkpoint.done is not None and state.batch < checkpoint.done:
        done = f"checkpoint {model.checkpoint} at {checkpoint.done}"
        return _rolled_back_problem(f"state {model.state}", state, done, "state")
    if target is not None and target.step > state.step:
        return _rolled_back_problem(
            f"table {model.target}", target, f"state {model.state} at {state.batch}", "state"
        )
    if target is not None and target.rows_out < state.rows_out:
        return (
            f"{counted(target.rows_out, 'row')} were emitted, going by its table {model.target}, and {state.rows_out:,} "
            f"going by its state {model.state}: the table was rolled back."
        )
    if target is None and state.rows_out > 0 and (_was_replaced(found) or is_unfinished(found)):
        return _replaced_table_problem(model)
    return None


def query_problem(model: StreamModel, found: Evolution, known: Signature, signature: Signature) -> str | None:
    """Returns why a state can't be used with an edited query, the config, or the session's settings; None if it can.

    Args:
        found: the effect of the edit on the state.
        known: the signature that is stored with the state.
        signature: the query's signature.
    """
    gives = None if model.columns is None else {name.lower() for name in model.columns}
    if gives is not None and (gone := [name for name in _key_columns(known.row_key) if name not in gives]):
        return f"its query no longer returns {', '.join(gone)}, part of the key of its table {model.target}."
    if found.is_of_package:
        before = f"dbt-spark-streaming {known.package}" if known.package else "an earlier dbt-spark-streaming"
        return (
            f"its query is unchanged, but its state was made by {before}, and {signature.package or 'this version'} keeps "
            f"a different one for it ({'; '.join(found.refused)}). Nothing was changed: with {before} it continues as "
            "before."
        )
    if found.refused:
        sentence = f"{edit_text(found.refused)}. Put the query back, and it continues."
        if model.keep_state or evolution(known, signature, same_rows=True).refused:
            return sentence
        keep = model.keep_command
        return f"{sentence} To keep the state, if the change only drops or corrects rows that fail: {keep}."
    if moved := _row_key_problem(model, known, signature, bool(found.rebuilt)):
        return moved
    if found.is_migration and model.is_deployment_version:
        return f"{edit_text(found.differences)}, and the new version of a model that is being deployed is of one query."
    if found.is_migration and model.on_state_change == FAIL:
        return (
            f"{edit_text(found.differences)}, and its config on_state_change is 'fail'. To continue the state with the "
            "changed query, leave on_state_change out."
        )
    if other := list(session_settings.differences(known.session, signature.session)):
        return (
            f"its state was made under other settings of the session ({'; '.join(other)}), by which the same query gives "
            "other rows. Set them back, in the profile's server_side_parameters."
        )
    return None


def _row_key_problem(
    model: StreamModel, known: Signature, signature: Signature, is_rebuilt: bool
) -> str | None:
    """Returns the reason why the new row key wouldn't find existing rows of the table; None if it finds them, or if
    this is unknown. `is_rebuilt`: whether a rebuild compares all rows of the table once."""
    had, has = known.row_key, signature.row_key
    if had == has:
        return None
    if is_rebuilt and had is not None and has is not None:
        # A rebuild compares all rows of the table by these columns, whatever their origin in the query is.
        before, after = _key_columns(had).keys(), _key_columns(has).keys()
        if before == after or (signature.tree.rebuilds_table and after <= before):
            return None
    now, was = _key_in_words(has), _key_in_words(had)
    if now == was and had is not None and has is not None:
        now, was = (f"{now} where {' and '.join(each.scope) or 'true'}" for each in (has, had))
    return (
        f"rows of its table {model.target} would be identified by {now}, and were by {was}, so existing rows wouldn't "
        "be found again. Keep the columns of the key as they were. If several columns have the same values, the key is the "
        "first of them in the select list."
    )


def _key_columns(key: RowKey | None) -> Mapping[str, str]:
    """Returns the columns of the row key, with the origin of each."""
    return {} if key is None or key.columns is None else key.columns


def _key_in_words(key: RowKey | None) -> str:
    """Returns the row key in words.

    >>> _key_in_words(RowKey({"window_end": "window_end", "x": "window_1a2b.a"})), _key_in_words(None)
    ('window_end, x (a)', 'nothing (they are only added)')
    """
    if key is None:
        return "nothing (they are only added)"
    columns = _key_columns(key).items()
    named = [name if what == name else f"{name} ({what.rpartition('.')[2]})" for name, what in columns]
    return ", ".join(named) or "nothing (they are compared all together)"


def is_unfinished(found: StoredProgress) -> bool:
    """Returns whether the table may lack the output of the state's last epoch."""
    state, checkpoint, target = found.state, found.checkpoint, found.target
    if state is None or checkpoint is None or state.folded:
        return False
    if target is not None and target.step >= state.step:
        return False
    # Spark commits the checkpoint after the table; for a flush it doesn't commit.
    return state.flush > 0 or checkpoint.done is None or state.batch > checkpoint.done


def _stateless_problem(model: StreamModel, found: StoredProgress) -> str | None:
    checkpoint, target = found.checkpoint, found.target
    if checkpoint is None:
        return None
    planned = -1 if checkpoint.planned is None else checkpoint.planned
    if target is not None and (
        problem := _older_checkpoint_problem(model, f"table {model.target}", target, checkpoint)
    ):
        return problem
    if target is None and planned > 0 and checkpoint.done is None:
        return _replaced_table_problem(model)
    if checkpoint.done is None:
        return None
    if target is not None and target.batch < checkpoint.done:
        done = f"checkpoint {model.checkpoint} at {checkpoint.done}"
        return _rolled_back_problem(f"table {model.target}", target, done, "table")
    if target is None and (_was_replaced(found) or planned > checkpoint.done):
        return _replaced_table_problem(model)
    return None


def _rolled_back_problem(one: str, at: Position, other: str, rolled_back: str) -> str:
    return f"its {one} is at micro-batch {at.batch}, but its {other}: the {rolled_back} was rolled back."


def _older_checkpoint_problem(
    model: StreamModel, one: str, at: Position, checkpoint: Checkpoint
) -> str | None:
    if at.batch <= (-1 if checkpoint.planned is None else checkpoint.planned):
        return None
    return (
        f"its {one} is at micro-batch {at.batch}, but its checkpoint {model.checkpoint} only at {checkpoint.planned}: an "
        "older checkpoint was put back."
    )


def _other_stream_problem(model: StreamModel, one: str, at: Position, checkpoint: Checkpoint | None) -> str:
    return (
        f"its {one} was written by another stream (checkpoint {at.query_id}) than the one in {model.checkpoint} "
        f"({checkpoint.query_id if checkpoint else 'none yet'})."
    )


def _was_replaced(found: StoredProgress) -> bool:
    """Returns whether a table without an epoch was certainly replaced, and didn't only lose its epochs with expired
    snapshots."""
    return not found.target_written or found.target_has_full_history


def _replaced_table_problem(model: StreamModel) -> str:
    return (
        f"its table {model.target} no longer shows what was put into it (it was replaced, or all of its "
        "snapshots expired), so rows could be missing or come twice."
    )
