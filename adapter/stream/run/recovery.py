"""Do checkpoint, state and table belong together? Decided before anything is written.

The order of writing in a micro-batch is: Spark plans its input in the checkpoint, then state, then
changelog (where one is kept), then table, then Spark's commit in the checkpoint. So after a crash at any
point the table is at most one step behind the changelog and the state, and the state at most one behind
the checkpoint's plan. Anything else means that someone removed, restored or replaced one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...query.program import WHOLE
from ...util.text import counted
from ..common import session_settings
from ..common.errors import StreamError
from ..common.identifiers import parts, with_suffix
from ..common.model import CHANGES, FAIL, StreamModel
from ..evolution.compare import PACKAGE, ROW_KEY, Evolution, changed_in, evolution
from ..progress.position import Position
from ..sink.incremental_runs import NOTE
from ..storage.checkpoint import Checkpoint


@dataclass(frozen=True)
class Found:
    """What a run finds when it starts."""

    checkpoint: Checkpoint | None
    has_target: bool
    target_written: bool
    """Whether anything was ever written to the table as it is now."""
    target: Position | None
    """The last step in the table."""
    state: Position | None = None
    """The last step in the state."""
    signature: Mapping[str, object] | None = None
    """What the state was made for."""
    changes: Position | None = None
    """The last step in the changelog."""
    target_has_past: bool = False
    """Whether all snapshots that led to the table as it is are there: a step in it would be seen."""
    target_rows: int = 0
    """Rows in the table."""
    changes_ahead: int = 0
    """How many steps are in the changelog and not in the table."""
    target_incremental: bool = False
    """Whether an incremental run has written to the table since a stream's last step."""
    reads: Sequence[str] = ()
    """The tables and folders that the checkpoint is of."""


def check(model: StreamModel, stateful: bool, signature: Mapping[str, object], found: Found) -> None:
    """Return if the stream can start or go on.

    Raises:
        StreamError: what doesn't fit, and what to do.
    """
    if problem := _checkpoint_problem(model, found) or _target_problem(model, found):
        raise StreamError(f"Model {model.name}: {problem} To build it anew: {model.rebuild}.")
    if problem := _input_problem(model, found):
        raise StreamError(f"Model {model.name}: {problem}")
    if problem := _query_problem(model, signature, found) if stateful else None:
        raise StreamError(f"Model {model.name}: {problem} {model.build_anew}")
    if problem := (
        _state_problem(model, found) if stateful else _stateless_problem(model, found)
    ) or _changes_problem(model, found, stateful):
        raise StreamError(f"Model {model.name}: {problem} To build it anew: {model.rebuild}.")


def _checkpoint_problem(model: StreamModel, found: Found) -> str | None:
    if found.checkpoint is None or not found.checkpoint.missing:
        return None
    return (
        f"a part of its checkpoint {model.checkpoint} is gone ({', '.join(found.checkpoint.missing)}), so rows could be "
        "passed over or come twice."
    )


def _input_problem(model: StreamModel, found: Found) -> str | None:
    """Returns what to do where the changes of a stream upstream were read, and that has none, or is none, any more."""
    was = {tuple(parts(name)) for name in found.reads}
    for source in model.sources:
        changes = with_suffix(source.location, CHANGES)
        if source.is_table and tuple(parts(changes)) in was:
            name = parts(source.location)[-1]
            return (
                f"it has read the changes of {source.location} ({changes}), and no streaming model whose rows change keeps "
                f"that table up to date any more. If {name} is a table or an incremental model by now, make it a streaming "
                f"model again and build both anew: {model.make_anew(source.location)}; or build this model in batch as "
                f"well: materialized='table', with ref('{name}') instead of stream(ref('{name}')). If {name} is a "
                f"streaming model still, build this one anew: {model.rebuild}."
            )
    return None


def _changes_problem(model: StreamModel, found: Found, stateful: bool) -> str | None:
    """The changelog is written after the state and before the table, so it is at most one step ahead of the table.

    One that is behind is brought up to the table. One that began before the first step has no stream's name."""
    changes, checkpoint = found.changes, found.checkpoint
    if changes is None or not changes.query_id:
        return None
    if checkpoint is None or changes.query_id != checkpoint.query_id:
        return (
            f"its changelog {model.changes} was written by another stream (checkpoint {changes.query_id}) than the one in "
            f"{model.checkpoint} ({checkpoint.query_id if checkpoint else 'none yet'})."
        )
    if stateful and found.state is None:
        # A run was cut short before these were in the table, and what builds it anew when it had dropped the state.
        return f"its changelog {model.changes} holds changes of a stream whose state {model.state} is gone."
    if found.changes_ahead > 1:
        return (
            f"its changelog {model.changes} is {counted(found.changes_ahead, 'step')} ahead of its table "
            f"{model.target}: the table was rolled back."
        )
    if found.state is not None and changes.step > found.state.step:
        return (
            f"its changelog {model.changes} is at micro-batch {changes.batch}, but its state {model.state} at "
            f"{found.state.batch}: the state was rolled back."
        )
    if changes.batch > (-1 if checkpoint.planned is None else checkpoint.planned):
        return (
            f"its changelog {model.changes} is at micro-batch {changes.batch}, but its checkpoint {model.checkpoint} only "
            f"at {checkpoint.planned}: an older checkpoint was put back."
        )
    return None


def _target_problem(model: StreamModel, found: Found) -> str | None:
    if not found.has_target:
        if found.state is not None:
            return f"its table {model.target} is gone, but its state {model.state} is there."
        return f"its table {model.target} doesn't exist."
    if found.checkpoint is None and found.target is not None:
        return (
            f"its table {model.target} holds rows of a stream whose checkpoint {model.checkpoint} is gone; "
            f"starting again would put every row in twice.{_elsewhere(model)}"
        )
    # Of a stream's own table snapshots may have expired; one that hasn't begun has put nothing into it.
    begun = found.checkpoint is not None and found.checkpoint.planned is not None
    if found.target is None and found.target_rows and (found.target_has_past or not begun):
        return (
            f"its table {model.target} has {counted(found.target_rows, 'row')}, and none of its commits is a "
            "stream's: it was built in another "
            "way (as a table or incrementally, by another materialization), and what the stream reads would come on "
            "top of these rows."
        )
    if found.target_incremental:
        return (
            f"an incremental run has put rows into its table {model.target} since the stream ran, and what the stream reads "
            "would come on top of these rows. If they are to stay, and none of them comes from the stream once more: "
            f"`ALTER TABLE {model.target} UNSET TBLPROPERTIES ('{NOTE}')`."
        )
    if found.checkpoint and found.target and found.target.query_id != found.checkpoint.query_id:
        return (
            f"its table {model.target} was written by another stream (checkpoint {found.target.query_id}) "
            f"than the one in {model.checkpoint} ({found.checkpoint.query_id})."
        )
    return None


def _elsewhere(model: StreamModel) -> str:
    """What else may be the matter where tables are there and the checkpoint isn't."""
    if not model.storage.is_local:
        return ""
    return (
        f" (Was it begun on another machine? {model.storage.root} is a folder of this machine; both need a 'storage_root' "
        "in the profile that each of them sees.)"
    )


def _query_problem(model: StreamModel, signature: Mapping[str, object], found: Found) -> str | None:
    """Why a state that is there, and its checkpoint's, can't go on with the query, or in this session."""
    checkpoint, state = found.checkpoint, found.state
    if state is None or checkpoint is None or state.query_id != checkpoint.query_id:
        return None  # which is told first
    known = found.signature or {}
    becomes = what_becomes(known, signature, model.keep_state)
    return query_problem(model, becomes, known, signature) or settings_problem(known, signature)


def _state_problem(model: StreamModel, found: Found) -> str | None:
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
        return f"its state {model.state} is there, but its checkpoint {model.checkpoint} is gone.{_elsewhere(model)}"
    if state.query_id != checkpoint.query_id:
        return (
            f"its state {model.state} was written by another stream (checkpoint {state.query_id}) than the "
            f"one in {model.checkpoint} ({checkpoint.query_id})."
        )
    if state.batch > (-1 if checkpoint.planned is None else checkpoint.planned):
        return (
            f"its state {model.state} is at micro-batch {state.batch}, but its checkpoint {model.checkpoint} "
            f"only at {checkpoint.planned}: an older checkpoint was put back."
        )
    if checkpoint.done is not None and state.batch < checkpoint.done:
        return (
            f"its state {model.state} is at micro-batch {state.batch}, but its checkpoint {model.checkpoint} "
            f"at {checkpoint.done}: the state was rolled back."
        )
    if target is not None and target.step > state.step:
        return (
            f"its table {model.target} is at micro-batch {target.batch}, but its state {model.state} at "
            f"{state.batch}: the state was rolled back."
        )
    if target is not None and target.rows_out < state.rows_out:
        return (
            f"{target.rows_out} rows were put into its table {model.target}, going by the table, and {state.rows_out} going "
            f"by its state {model.state}: the table was rolled back."
        )
    if target is None and state.rows_out > 0 and (_was_replaced(found) or unfinished(found)):
        return _replaced(model)
    return None


def what_becomes(
    known: Mapping[str, object], signature: Mapping[str, object], same_rows: bool = False
) -> Evolution:
    """What becomes of a state whose query is edited. Settings are told apart: they aren't the query's."""
    had, wants = ({**each, session_settings.ENTRY: None} for each in (known, signature))
    return evolution(had, wants, same_rows)


def query_problem(
    model: StreamModel, found: Evolution, known: Mapping[str, object], signature: Mapping[str, object]
) -> str | None:
    """Why a state can't go on with an edited query, or may not."""
    gives = None if model.columns is None else {name.lower() for name in model.columns}
    if gives is not None and (
        gone := [name for name in _key_columns(known.get(ROW_KEY)) if name not in gives]
    ):
        return f"its query gives no {', '.join(gone)} any more, by which rows of its table {model.target} are told apart."
    if found.is_of_package:
        return _of_package(known, signature, found)
    if found.refused:
        said = f"{changed_in(found.refused)}. Put the query back, and it goes on."
        if model.keep_state or what_becomes(known, signature, same_rows=True).refused:
            return said
        return f"{said} To keep the state, where rows that fail are left out or put right by the change: {model.keep}."
    if moved := _row_key_problem(model, known, signature, bool(found.remade)):
        return moved
    if found.is_migration and model.is_beside:
        return f"{changed_in(found.words)}, and the new version of a model that is being deployed is of one query."
    if found.is_migration and model.on_state_change == FAIL:
        return (
            f"{changed_in(found.words)}, and its config "
            "on_state_change is 'fail'. To have the state go on with the changed query, leave on_state_change out."
        )
    return None


def _of_package(known: Mapping[str, object], signature: Mapping[str, object], found: Evolution) -> str:
    """Why a state can't go on that another version of this package has made for the same query."""
    was, now = known.get(PACKAGE), signature.get(PACKAGE)
    before = f"dbt-spark-streaming {was}" if was else "an earlier dbt-spark-streaming"
    return (
        f"its query is what it was, but its state was made by {before}, and {now or 'this version'} keeps another one "
        f"for it ({'; '.join(found.refused)}). Nothing was changed: with {before} it goes on as before."
    )


def settings_problem(known: Mapping[str, object], signature: Mapping[str, object]) -> str | None:
    """Why a state can't go on under the session's settings."""
    if other := list(session_settings.differences(known, signature)):
        return (
            f"its state was made under other settings of the session ({'; '.join(other)}), by which the same query gives "
            "other rows. Set them back, in the profile's server_side_parameters."
        )
    return None


def _row_key_problem(
    model: StreamModel, known: Mapping[str, object], signature: Mapping[str, object], anew: bool
) -> str | None:
    """Why the rows that are in the table wouldn't be found again; None: they are, as far as is known. `anew`: all of them
    are looked at once."""
    had, has = known.get(ROW_KEY), signature.get(ROW_KEY)
    if not isinstance(has, Mapping):
        return None
    if had == has:
        return None
    if not isinstance(had, Mapping) and _key_columns(had).keys() == _key_columns(has).keys():
        return None  # an earlier version noted only names
    if anew and had and has and isinstance(had, Mapping):
        before, after = _key_columns(had), _key_columns(has)
        is_whole = signature.get("remade") == WHOLE and after.items() <= before.items()
        if before == after or is_whole:
            return None
    now, was = _told(has), _told(had)
    if now == was and isinstance(had, Mapping):
        now, was = (f"{now} where {' and '.join(each['scope'])}" for each in (has, had))
    return (
        f"rows of its table {model.target} would be told apart by {now}, and were by {was}, so those that are there "
        "wouldn't be found again. Keep the columns of the key as they were: where several carry the same, it is the "
        "first of them in the select list."
    )


def _key_columns(entry: object) -> Mapping[str, str]:
    """The columns that tell rows of the table apart, and what they carry."""
    listed = entry.get("columns") if isinstance(entry, Mapping) else entry
    if isinstance(listed, list):
        return {name: name for name in listed}
    return listed if isinstance(listed, Mapping) else {}


def _told(entry: object) -> str:
    """What tells rows of the table apart, in words.

    >>> _told({"columns": {"window_end": "window_end", "x": "stage_1.a"}}), _told({})
    ('window_end, x (a)', 'nothing (they are only added)')
    """
    if not entry:
        return "nothing (they are only added)"
    columns = _key_columns(entry).items()
    named = [name if what == name else f"{name} ({what.rpartition('.')[2]})" for name, what in columns]
    return ", ".join(named) or "nothing (they are compared all together)"


def unfinished(found: Found) -> bool:
    """Whether the rows of the state's last step may not be in the table yet."""
    state, checkpoint, target = found.state, found.checkpoint, found.target
    if state is None or checkpoint is None or state.folded:
        return False
    if target is not None and target.step >= state.step:
        return False
    # Spark's commit comes after ours; a flush has none.
    return state.flush > 0 or checkpoint.done is None or state.batch > checkpoint.done


def _stateless_problem(model: StreamModel, found: Found) -> str | None:
    checkpoint, target = found.checkpoint, found.target
    if checkpoint is None:
        return None
    planned = -1 if checkpoint.planned is None else checkpoint.planned
    if target is not None and target.batch > planned:
        return (
            f"its table {model.target} is at micro-batch {target.batch}, but its checkpoint "
            f"{model.checkpoint} only at {checkpoint.planned}: an older checkpoint was put back."
        )
    if target is None and planned > 0 and checkpoint.done is None:
        return _replaced(model)
    if checkpoint.done is None:
        return None
    if target is not None and target.batch < checkpoint.done:
        return (
            f"its table {model.target} is at micro-batch {target.batch}, but its checkpoint "
            f"{model.checkpoint} at {checkpoint.done}: the table was rolled back."
        )
    if target is None and (_was_replaced(found) or planned > checkpoint.done):
        return _replaced(model)
    return None


def _was_replaced(found: Found) -> bool:
    """Whether a table without a step surely had some: not if snapshots of it have expired."""
    return not found.target_written or found.target_has_past


def _replaced(model: StreamModel) -> str:
    return (
        f"its table {model.target} no longer shows what was put into it (it was replaced, or all of its "
        "snapshots expired), so rows could be missing or come twice."
    )
