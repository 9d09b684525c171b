"""``dbt-stream state edit``: changes rows of a model's state."""

from __future__ import annotations

from ..query import state_edit
from ..stream.lifecycle import editing
from ..stream.run.lock import check_free
from .planned import planned
from .project import DbtProject, ProjectError, project_errors


def edit(project: DbtProject, name: str, statement: str | None, source: str | None, dry: bool) -> str:
    """Changes rows of a model's state, and returns sentences with the result.

    Args:
        statement: the change in SQL. Default: add the rows of `source`.
        source: a file or a relation that the statement can read as ``new_rows``.
        dry: whether to only report what would change.
    """
    if statement is None and source is None:
        raise ProjectError(
            'Say what to change: --sql "DELETE FROM state WHERE …", or --from with a file or a relation of rows to add.'
        )
    with project_errors():
        change = state_edit.edit(statement or f"INSERT INTO state SELECT * FROM {editing.ROWS}")
    session, model, program = planned(project, name)
    with project_errors():
        check_free(model)
        if source is not None:
            editing.show_rows(session, model, source)
        done = editing.edit(session, model, program, change.rows, change.more, dry)
    if not done.removed and not done.added:
        return f"{name}: this changes no row of its state; nothing was written."
    told = [f"{name}: rows of its state that {'would be' if dry else 'were'} removed and added:"]
    for part in sorted({*done.removed, *done.added}):
        told.append(f"  {part}: {done.removed.get(part, 0)} removed, {done.added.get(part, 0)} added")
    if done.kept_as is not None:
        told.append(
            f"What was there is savepoint '{done.kept_as}'; `dbt-stream state undo {name}` goes back to it."
        )
    return "\n".join(told)
