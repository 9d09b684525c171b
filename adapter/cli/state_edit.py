"""``dbt-stream state edit``: changes rows of a model's state."""

from __future__ import annotations

from ..query import state_edit
from ..stream.lifecycle import editing
from ..stream.run.lock import check_free
from .planned import planned
from .project import Project, ProjectError, project_errors


def edit(project: Project, name: str, statement: str | None, source: str | None, dry: bool) -> str:
    """Changes rows of a model's state, and says what came of it.

    Args:
        project: the project.
        name: the model.
        statement: what is done, in SQL; None: the rows of `source` are added.
        source: a file or a relation with rows that the statement can read, as ``new_rows``.
        dry: whether it is only told what would change.

    Raises:
        ProjectError: it can't be, and why; nothing was changed.
    """
    if statement is None and source is None:
        raise ProjectError(
            'Say what to change: --sql "DELETE FROM state WHERE …", or --from with a file or a relation whose rows come in.'
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
        return f"{name}: no row of its state is another then; nothing was changed."
    told = [f"{name}: rows of its state that {'would go and come' if dry else 'went and came'}:"]
    for part in sorted({*done.removed, *done.added}):
        told.append(f"  {part}: {done.removed.get(part, 0)} removed, {done.added.get(part, 0)} added")
    if done.kept_as is not None:
        told.append(
            f"What was there is savepoint '{done.kept_as}'; `dbt-stream state undo {name}` goes back to it."
        )
    return "\n".join(told)
