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
from ..stream.lifecycle.promoting import SwapProgress, SwapResult, swap_progress
from ..stream.progress.report import read_progress
from ..stream.run.evolve import effect_of_edit
from ..stream.run.lock import check_free
from ..stream.run.runner import run_stream
from ..stream.storage import deployments
from ..stream.storage.deployments import PROMOTED, version_of_model
from ..util.text import counted
from .planned import plan_next_run
from .project import DbtProject, ProjectError, owned_model, raising_project_errors


def init_deployment(project: DbtProject, name: str, restart: bool) -> str:
    """Builds the new version of a model, or continues building it. Returns its status."""
    model, environment = owned_model(project, name)
    deployment = promoting.stage_deployment(environment.session(), model, restart)
    project.run([name], tables={name: deployment.new})
    return progress_sentences(deployment_status(project, name))


def await_deployment(project: DbtProject, name: str) -> str:
    """Runs the new version of a model until it has read all that the old one has. Returns its status."""
    model, environment = owned_model(project, name)
    session = environment.session()
    progress = swap_progress(session, model)
    if progress.deployment.phase == PROMOTED:
        raise ProjectError(
            f"Model {name}: its new version is already in place, so there is nothing to wait for. `dbt run --select "
            f"{name}` reads its new rows."
        )
    nodes, graph = project.run([name], tables={name: progress.deployment.new})
    for node in nodes:
        replan = partial(_model_and_program, environment, node, graph)
        new, program = replan()
        # Input that the old version has read in the meantime; it may still be running.
        while (progress := swap_progress(environment.session(), model)).lags:
            print(progress_sentences(_progress_json(name, progress)))
            batch = (read_progress(new) or {}).get("batch")
            if run_stream(session, new, program, replan).stopped:
                break
            if (read_progress(new) or {}).get("batch") == batch:
                raise ProjectError(
                    f"Model {name}: its new version {new.target} found nothing to read, and the old one has read "
                    f"{', '.join(map(str, progress.lags))} more, so waiting doesn't help. `dbt-stream deploy promote "
                    f"--force {name}` promotes it as it is, `dbt-stream deploy cleanup {name}` drops it."
                )
    return progress_sentences(_progress_json(name, swap_progress(environment.session(), model)))


def _model_and_program(
    environment: Environment, node: Mapping[str, Any], graph: Any
) -> tuple[StreamModel, Program]:
    sql = str(node["compiled_code"])
    program = streaming.model_program(
        node, streaming.plan_with_existing_changelogs(node, sql, environment, graph)
    )
    environment.declared.create_tables_named_in(sql)
    return stream_node.stream_model(node, environment, program, graph), program


def deployment_status(project: DbtProject, name: str) -> dict[str, Any]:
    """Returns the progress of both versions of a model."""
    model, environment = owned_model(project, name)
    progress = swap_progress(environment.session(), model)
    return {**_progress_json(name, progress), "refused": _lag_problem(project, name, progress)}


def _lag_problem(project: DbtProject, name: str, progress: SwapProgress) -> str | None:
    """Returns why the new version can't ingest its lag with the current query; None if it can, or has no lag."""
    if progress.deployment.phase == PROMOTED or not progress.begun or not progress.lags:
        return None
    try:
        with raising_project_errors():
            session, model, program = plan_next_run(project, name)
            return effect_of_edit(session, version_of_model(model, progress.new.target), program).refused
    except ProjectError as problem:
        return str(problem)


def _progress_json(name: str, progress: SwapProgress) -> dict[str, Any]:
    return {
        "model": name,
        "phase": progress.deployment.phase,
        "new": _progress_of_version(progress.new) if progress.begun else None,
        "old": _progress_of_version(progress.old),
        "caught_up": None if progress.lags is None or not progress.begun else not progress.lags,
        "behind": None if progress.lags is None else [asdict(each) for each in progress.lags],
        "unknown": progress.unknown,
    }


def _progress_of_version(model: StreamModel) -> dict[str, Any]:
    last: Any = read_progress(model) or {}
    return {
        "table": model.target,
        "batch": last.get("batch"),
        "watermark": last.get("watermark"),
        "rows_in": last.get("total", {}).get("rows_in"),
    }


def progress_sentences(status: Mapping[str, Any]) -> str:
    """Describes the result of `deployment_status` in sentences."""
    name, new, old = status["model"], status["new"], status["old"]
    if status["phase"] == PROMOTED:
        return (
            f"{name}: its new version has its name, {_position_text(new)}. The old one is {old['table']}, "
            f"{_position_text(old)}. `dbt-stream deploy cleanup {name}` drops it, `dbt-stream deploy rollback {name}` goes "
            "back to it."
        )
    if new is None:
        return f"{name}: its new version has no table yet; `dbt-stream deploy init {name}` builds it."
    positions = f"{_position_text(new)}; the old one has its name, {_position_text(old)}."
    first = f"{name}: its new version is {new['table']}, {positions}"
    if status["caught_up"]:
        return f"{first} It has caught up: `dbt-stream deploy promote {name}` gives it the name."
    if status["behind"]:
        listed = ", ".join(
            f"{counted(each['count'], each['unit'].removesuffix('s'))} of {each['source']}"
            for each in status["behind"]
        )
        if refused := status.get("refused"):
            return f"{first} The old one has read {listed} more, and the new one can't read them: {refused}"
        return f"{first} The old one has read {listed} more: `dbt-stream deploy await {name}` reads them."
    return f"{first} Whether it has caught up is unknown: {status['unknown']}"


def _position_text(version: Mapping[str, Any]) -> str:
    if version["batch"] is None:
        return "which has read nothing yet"
    watermark = f"watermark {version['watermark']}" if version["watermark"] else "no watermark yet"
    return f"at micro-batch {version['batch']}, {counted(version['rows_in'], 'row')} in, {watermark}"


def promote(project: DbtProject, name: str, force: bool) -> str:
    """Gives the new version of a model its name. Returns a description of the result."""
    model, environment = owned_model(project, name)
    try:
        with raising_project_errors():
            check_free(model)
            done = promoting.promote(environment.session(), model, force)
    except ProjectError as problem:
        progress = None if force else swap_progress(environment.session(), model)
        refused = None if progress is None else _lag_problem(project, name, progress)
        if progress is None or refused is None:
            raise
        lags = ", ".join(map(str, progress.lags or ()))
        raise ProjectError(
            f"Model {name}: its new version has not caught up: the old one has read {lags} more, and the new one can't "
            f"read them: {refused} `dbt-stream deploy promote --force {name}` promotes it as it is."
        ) from problem
    return "\n".join(
        [
            f"{name}: its new version has its name now. The old one is {done.deployment.previous}: `dbt-stream deploy "
            f"rollback {name}` goes back to it, `dbt-stream deploy cleanup {name}` drops it.",
            *_reader_sentences(name, done, "rollback"),
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
            *_reader_sentences(name, done, "promote"),
        ]
    )


def _reader_sentences(name: str, done: SwapResult, back: str) -> list[str]:
    """Returns a sentence on each stream that read the other version. `back`: the command that undoes the swap."""
    return [
        f"{reader} has read rows of the other version: its next run stops until you rebuild it as well, or run "
        f"`dbt-stream deploy {back} {name}`."
        for reader in done.readers
    ]


def table_of_other_version(project: DbtProject, name: str) -> str | None:
    """Returns the table that `clean_up` drops; None if there is none. Doesn't start Spark."""
    model, _ = owned_model(project, name)
    deployment = deployments.read_deployment(model.storage, model.target)
    return None if deployment is None else deployment.other_table


def clean_up(project: DbtProject, name: str) -> str:
    """Drops the version of a model that doesn't have its name. Returns a description of the result."""
    model, environment = owned_model(project, name)
    done = promoting.clean_up(environment.session(), model)
    return f"{name}: {done.other_table} is dropped, with its state, its changes and its checkpoint."
