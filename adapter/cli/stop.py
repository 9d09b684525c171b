"""``dbt-stream stop`` and ``reset``: end a model's run in another process; drop a model's table and state."""

from __future__ import annotations

import time

from ..service.health import read_health
from ..stream.common.model import StreamModel
from ..stream.iceberg import ownership
from ..stream.run import runner
from ..stream.run.lock import check_free, is_held
from ..stream.sources.cleaned_files import cleaned_folders
from ..stream.storage.savepoints import TABLE
from ..util.text import listed
from .project import DbtProject, ProjectError, owned_model

_PAUSE, _PAUSE_REMOTE = 0.2, 1.0
"""Seconds between two checks of a model that is asked to stop, on local and on remote storage."""


def stop_model(project: DbtProject, name: str, patience: float) -> str:
    """Requests the run of a model to end, waits for it, and returns a sentence with the result."""
    model, _ = owned_model(project, name)
    if not _is_running(model):
        return f"{name} isn't running."
    model.storage.write_text(model.stop_request, "")
    deadline = time.monotonic() + patience
    while _is_running(model):
        if time.monotonic() > deadline:
            raise ProjectError(
                f"{name} was asked to stop and hasn't yet, after {patience:.0f} seconds: it is in a long micro-batch. "
                "It ends after that."
            )
        time.sleep(_PAUSE if model.storage.is_local else _PAUSE_REMOTE)
    model.storage.delete(model.stop_request)
    return f"{name} has stopped."


def reset_model(project: DbtProject, name: str) -> str:
    """Drops a model's table, changelog, state and checkpoint, and returns a sentence with the result."""
    model, environment = owned_model(project, name)
    check_free(model)
    session = environment.session()
    ownership.check_droppable(session, model)
    runner.reset(session, model)
    ownership.drop_owned_table(session, model, TABLE)
    text = f"{name} is forgotten: the next `dbt run --select {name}` begins at its sources' beginning."
    if folders := cleaned_folders(model):
        text += (
            f" Files of {listed(sorted(folders))} that it had read are gone by cleanSource, so that run is refused until "
            "the source has no cleanSource."
        )
    return text


def _is_running(model: StreamModel) -> bool:
    """Returns whether a process runs a model, or is about to start it."""
    if is_held(model):
        return True
    health = read_health(model)
    return health is not None and health.is_alive
