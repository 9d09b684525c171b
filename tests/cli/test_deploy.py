"""What `dbt-stream deploy` says of a new version that is behind."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli import deploy
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject, ProjectError
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.lifecycle.promoting import SwapProgress
from dbt.adapters.spark_streaming.stream.sources.lag import Lag
from dbt.adapters.spark_streaming.stream.storage import deployments
from dbt.adapters.spark_streaming.stream.storage.deployments import Deployment, version_of_model


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "lake.db.m", "lake.db.m__state", Storage(str(tmp_path), lambda: None), ())


@pytest.fixture
def staged(model: StreamModel) -> Deployment:
    made = deployments.new_deployment(model, "u")
    deployments.write_deployment(model.storage, made)
    return made


def test_what_an_edited_query_can_not_take_in_is_told_at_once(
    model: StreamModel, staged: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind_by_one(*arguments: Any) -> Any:
        raise StreamError("Model m: its new version has not caught up. `dbt-stream deploy await m` …")

    standing = SwapProgress(
        staged, version_of_model(model, staged.new), model, True, (Lag("/in", 1, "files"),), None
    )
    environment = SimpleNamespace(session=lambda: None)
    monkeypatch.setattr(deploy, "owned_model", lambda project, name: (model, environment))
    monkeypatch.setattr(deploy, "check_free", lambda model: None)
    monkeypatch.setattr(deploy.promoting, "promote", behind_by_one)
    monkeypatch.setattr(deploy, "swap_progress", lambda session, model: standing)
    for edited in (
        None,
        "its query has changed. To rebuild it: `dbt-stream deploy init --full-refresh m`.",
    ):
        monkeypatch.setattr(deploy, "_lag_problem", lambda project, name, standing, edited=edited: edited)
        with pytest.raises(ProjectError) as raised:
            deploy.promote(DbtProject(Path(), Path(), None, None, None), "m", force=False)
        told = deploy.progress_sentences(
            deploy.deployment_status(DbtProject(Path(), Path(), None, None, None), "m")
        )
        if edited is None:
            assert "deploy await" in str(raised.value) and "deploy await" in told
        else:
            said = f"the old one has read 1 file of /in more, and the new one can't read them: {edited}"
            assert said in str(raised.value) and said.removeprefix("the old") in told
            assert "deploy await" not in f"{raised.value}{told}"


def test_the_model_that_is_named_is_built(
    model: StreamModel, staged: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another package may have a model of its name, and a model that keeps its table may be renamed meanwhile."""
    ran: list[Any] = []
    environment = SimpleNamespace(session=lambda: None)
    monkeypatch.setattr(deploy, "owned_model", lambda project, name: (model, environment))
    monkeypatch.setattr(deploy.promoting, "stage_deployment", lambda *_: staged)
    standing = SwapProgress(staged, version_of_model(model, staged.new), model, True, (), None)
    monkeypatch.setattr(deploy, "swap_progress", lambda session, model: standing)
    monkeypatch.setattr(DbtProject, "run", lambda self, names, tables: ran.append((names, tables)))
    project = DbtProject(Path(), Path(), None, None, None)
    assert "deploy promote shop.m" in deploy.init_deployment(project, "shop.m", False)
    assert ran == [(["shop.m"], {"shop.m": staged.new})]


def test_cleanup_asks_with_the_table_that_it_drops(
    model: StreamModel, staged: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dbt_project.yml").touch()
    monkeypatch.setattr(deploy, "owned_model", lambda project, name: (model, None))
    asked = CliRunner().invoke(main, ["--project-dir", str(tmp_path), "deploy", "cleanup", "m"], input="n\n")
    assert f"Drop {staged.new}, the other version of m, its state and its checkpoint?" in asked.output
    assert asked.exit_code == 1


def test_waiting_ends_where_the_new_version_finds_nothing_to_read(
    model: StreamModel, staged: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the old version has read may be gone from a source, so the lag would never shrink."""
    new = version_of_model(model, staged.new)
    runs: list[int] = []
    environment = SimpleNamespace(session=lambda: None)
    standing = SwapProgress(staged, new, model, True, (Lag("/in", 1, "files"),), None)
    monkeypatch.setattr(deploy, "owned_model", lambda project, name: (model, environment))
    monkeypatch.setattr(deploy, "swap_progress", lambda session, model: standing)
    monkeypatch.setattr(deploy, "_model_and_program", lambda *_: (new, None))
    monkeypatch.setattr(DbtProject, "run", lambda self, names, tables: ([{}], None))

    def run_reading_twice(*_: Any) -> Any:
        runs.append(len(runs))
        assert len(runs) < 5, "it runs for ever"
        new.storage.write_text(
            new.progress, json.dumps({"batch": min(len(runs), 2), "total": {"rows_in": 1}})
        )
        return SimpleNamespace(stopped=False)

    monkeypatch.setattr(deploy, "run_stream", run_reading_twice)
    with pytest.raises(ProjectError, match="found nothing to read, and the old one has read 1 file"):
        deploy.await_deployment(DbtProject(Path(), Path(), None, None, None), "m")
    assert len(runs) == 3
