"""``dbt-stream deploy``: builds a new version of a model next to the old one, and gives it the model's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from ..environment import Environment
from ..project import stream_node, streaming
from ..query.program import Program
from ..stream.common.model import StreamModel
from ..stream.lifecycle import promoting
from ..stream.lifecycle.promoting import SwapProgress, SwapResult
from ..stream.progress.report import read_progress
from ..stream.run.evolve import verdict
from ..stream.run.lock import check_free
from ..stream.run.runner import run_stream
from ..stream.storage import deployments
from ..stream.storage.deployments import PROMOTED, version
from ..util.text import counted
from .planned import planned
from .project import DbtProject, ProjectError, owned_model, project_errors


def init(project: DbtProject, name: str, restart: bool) -> str:
    """Builds the new version of a model, or continues building it. Returns its status."""
    model, environment = owned_model(project, name)
    found = promoting.stage(environment.session(), model, restart)
    project.run([name], tables={name: found.new})
    return progress_sentences(status(project, name))


def wait(project: DbtProject, name: str) -> str:
    """Runs the new version of a model until it has read all that the old one has. Returns its status."""
    model, environment = owned_model(project, name)
    session, standing = environment.session(), _swap_progress(environment, model)
    if standing.deployment.phase == PROMOTED:
        raise ProjectError(
            f"Model {name}: its new version is already in place, so there is nothing to wait for. `dbt run --select "
            f"{name}` reads its new rows."
        )
    nodes, graph = project.run([name], tables={name: standing.deployment.new})
    for node in nodes:
        replan = partial(_model_and_program, environment, node, graph)
        new, program = replan()
        # Input that the old version has read in the meantime; it may still be running.
        while (standing := _swap_progress(environment, model)).lags:
            print(progress_sentences(_progress_json(name, standing)))
            if run_stream(session, new, program, replan).stopped:
                break
    return progress_sentences(_progress_json(name, _swap_progress(environment, model)))


def _model_and_program(
    environment: Environment, node: Mapping[str, Any], graph: Any
) -> tuple[StreamModel, Program]:
    sql = str(node["compiled_code"])
    program = streaming.program(node, streaming.plan_in_run(node, sql, environment, graph))
    environment.declared.make_mentioned(sql)
    return stream_node.model(node, environment, program, graph), program


def _swap_progress(environment: Environment, model: StreamModel) -> SwapProgress:
    return promoting.swap_progress(environment.session(), model)


def status(project: DbtProject, name: str) -> dict[str, Any]:
    """Returns the progress of both versions of a model."""
    model, environment = owned_model(project, name)
    standing = _swap_progress(environment, model)
    return {**_progress_json(name, standing), "refused": _refused(project, name, standing)}


def _refused(project: DbtProject, name: str, standing: SwapProgress) -> str | None:
    """Returns why the new version can't ingest its lag with the current query; None if it can, or has no lag."""
    if standing.deployment.phase == PROMOTED or not standing.begun or not standing.lags:
        return None
    try:
        with project_errors():
            session, model, program = planned(project, name)
            return verdict(session, version(model, standing.new.target), program).refused
    except ProjectError as problem:
        return str(problem)


def _progress_json(name: str, standing: SwapProgress) -> dict[str, Any]:
    found = standing.deployment
    return {
        "model": name,
        "phase": found.phase,
        "new": _progress_of_version(standing.new) if standing.begun else None,
        "old": _progress_of_version(standing.old),
        "caught_up": None if standing.lags is None or not standing.begun else not standing.lags,
        "behind": None if standing.lags is None else [asdict(each) for each in standing.lags],
        "unknown": standing.unknown,
    }


def _progress_of_version(model: StreamModel) -> dict[str, Any]:
    progress: Any = read_progress(model) or {}
    return {
        "table": model.target,
        "batch": progress.get("batch"),
        "watermark": progress.get("watermark"),
        "rows_in": progress.get("total", {}).get("rows_in"),
    }


def progress_sentences(found: Mapping[str, Any]) -> str:
    """Describes the progress of both versions of a model in sentences."""
    name, new, old = found["model"], found["new"], found["old"]
    if found["phase"] == PROMOTED:
        return (
            f"{name}: its new version has its name, {_position(new)}. The old one is {old['table']}, {_position(old)}. "
            f"`dbt-stream deploy cleanup {name}` drops it, `dbt-stream deploy rollback {name}` goes back to it."
        )
    if new is None:
        return f"{name}: its new version has no table yet; `dbt-stream deploy init {name}` builds it."
    first = f"{name}: its new version is {new['table']}, {_position(new)}; the old one has its name, {_position(old)}."
    if found["caught_up"]:
        return f"{first} It has caught up: `dbt-stream deploy promote {name}` gives it the name."
    if found["behind"]:
        listed = ", ".join(
            f"{counted(each['count'], each['unit'].removesuffix('s'))} of {each['source']}"
            for each in found["behind"]
        )
        if refused := found.get("refused"):
            return f"{first} The old one has read {listed} more, and the new one can't read them: {refused}"
        return f"{first} The old one has read {listed} more: `dbt-stream deploy await {name}` reads them."
    return f"{first} Whether it has caught up is unknown: {found['unknown']}"


def _position(version: Mapping[str, Any]) -> str:
    if version["batch"] is None:
        return "which has read nothing yet"
    watermark = f"watermark {version['watermark']}" if version["watermark"] else "no watermark yet"
    return f"at micro-batch {version['batch']}, {counted(version['rows_in'], 'row')} in, {watermark}"


def promote(project: DbtProject, name: str, force: bool) -> str:
    """Gives the new version of a model its name. Returns a description of the result."""
    model, environment = owned_model(project, name)
    try:
        with project_errors():
            check_free(model)
            done = promoting.promote(environment.session(), model, force)
    except ProjectError as problem:
        standing = None if force else _swap_progress(environment, model)
        refused = None if standing is None else _refused(project, name, standing)
        if standing is None or refused is None:
            raise
        lags = ", ".join(map(str, standing.lags or ()))
        raise ProjectError(
            f"Model {name}: its new version has not caught up: the old one has read {lags} more, and the new one can't "
            f"read them: {refused} `dbt-stream deploy promote --force {name}` promotes it as it is."
        ) from problem
    return "\n".join(
        [
            f"{name}: its new version has its name now. The old one is {done.deployment.previous}: `dbt-stream deploy "
            f"rollback {name}` goes back to it, `dbt-stream deploy cleanup {name}` drops it.",
            *_of_readers(name, done, "rollback"),
        ]
    )


def roll_back(project: DbtProject, name: str) -> str:
    """Gives the version before a deployment its name again. Returns a description of the result."""
    model, environment = owned_model(project, name)
    check_free(model)
    done = promoting.roll_back(environment.session(), model)
    return "\n".join(
        [
            f"{name}: the version before the deployment has its name again; the new one is {done.deployment.new}. Put the "
            f"query back to what it was before the next run. `dbt-stream deploy promote {name}` goes forward again, "
            f"`dbt-stream deploy cleanup {name}` drops the new one.",
            *_of_readers(name, done, "promote"),
        ]
    )


def _of_readers(name: str, done: SwapResult, back: str) -> list[str]:
    return [
        f"{reader} has read rows of the other version: its next run stops until you rebuild it as well, or run "
        f"`dbt-stream deploy {back} {name}`."
        for reader in done.readers
    ]


def other_table(project: DbtProject, name: str) -> str | None:
    """Returns the table that `clean_up` drops; None if there is none. This doesn't start Spark."""
    model, _ = owned_model(project, name)
    found = deployments.read(model.storage, model.target)
    return None if found is None else found.other_table


def clean_up(project: DbtProject, name: str) -> str:
    """Drops the version of a model that doesn't have its name. Returns a description of the result."""
    model, environment = owned_model(project, name)
    done = promoting.clean_up(environment.session(), model)
    return f"{name}: {done.other_table} is dropped, with its state, its changes and its checkpoint."
