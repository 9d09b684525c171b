"""``dbt-stream state savepoint``, ``restore`` and ``undo``: take savepoints of a model and restore them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ..stream.lifecycle import restoring
from ..stream.run import saving
from ..stream.run.lock import check_free
from ..stream.storage.savepoints import Savepoint, stored_savepoints
from .planned import plan_next_run
from .project import DbtProject, owned_model
from .terminal import terminal, text_table


def take_savepoint(project: DbtProject, name: str, savepoint_name: str) -> str:
    """Takes a savepoint of a model, and returns a sentence with its micro-batch."""
    model, environment = owned_model(project, name)
    check_free(model)
    taken = saving.save(environment.session(), model, savepoint_name)
    return f"{name}: savepoint '{taken.name}' is of {_savepoint_text(taken)}."


def delete_savepoint(project: DbtProject, name: str, savepoint_name: str) -> str:
    """Deletes a savepoint of a model."""
    model, environment = owned_model(project, name)
    check_free(model)
    saving.delete(environment.session(), model, savepoint_name)
    return f"{name}: savepoint '{savepoint_name}' is deleted."


def list_savepoints(project: DbtProject, name: str) -> list[dict[str, Any]]:
    """Returns the savepoints of a model, the oldest first. Doesn't start Spark."""
    model, _ = owned_model(project, name)
    found = stored_savepoints(model.storage, model.savepoints)
    return [
        {
            "name": each.name,
            "made": _time_text(each.made),
            "taken_before": each.cause,
            "kept_until": None if each.until is None else _time_text(each.until),
            "batch": each.batch,
            "flush": each.flush,
            "watermark": each.watermark,
            "snapshots": {kind: was.snapshot for kind, was in each.tables.items() if was is not None},
        }
        for each in found
    ]


def print_savepoints(name: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Prints a model's savepoints on the terminal."""
    if not found:
        terminal().print(f"{name} has no savepoints.")
        return
    rows = []
    for each in found:
        before = each["taken_before"]
        taken = f"before a {before}, kept until {each['kept_until']}" if before else "on request"
        rows.append((each["name"], each["made"], taken, str(each["batch"]), each["watermark"] or "none yet"))
    terminal().print(text_table(("savepoint", "made (UTC)", "taken", "micro-batch", "watermark"), rows))


def restore_savepoint(project: DbtProject, name: str, savepoint_name: str | None) -> str:
    """Restores a model from a savepoint, and returns sentences with the result.

    Args:
        savepoint_name: the savepoint. Default: the newest one that was taken automatically, which is then deleted.
    """
    session, model, program = plan_next_run(project, name)
    check_free(model)
    done = (
        restoring.undo(session, model, program)
        if savepoint_name is None
        else restoring.restore(session, model, program, savepoint_name)
    )
    saved = done.savepoint
    lines = [f"{name}: back at savepoint '{saved.name}', which is of {_savepoint_text(saved)}."]
    if done.kept_as is not None:
        lines.append(
            f"What was there is savepoint '{done.kept_as}'; `dbt-stream state undo {name}` goes back to it."
        )
    if done.not_kept is not None:
        lines.append(f"What was there is not kept: {done.not_kept}")
    lines.append("The next run reads the rows that came since.")
    if done.next_run is not None:
        lines.append(f"The query was edited since; that run migrates the state to it ({done.next_run}).")
    for reader in done.readers:
        lines.append(
            f"{reader} has read rows that are gone now: its next run stops, until it is restored as well, or rebuilt."
        )
    return "\n".join(lines)


def _savepoint_text(saved: Savepoint) -> str:
    watermark = f"watermark {saved.watermark}" if saved.watermark else "no watermark yet"
    return f"micro-batch {saved.batch}, {watermark}, made {_time_text(saved.made)}"


def _time_text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds")
