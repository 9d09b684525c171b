"""`dbt-stream stop` asks a run to end, waits for it, and says what came of it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli import stop
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject, ProjectError
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.service.health import RUNNING, Health, write_health
from dbt.adapters.spark_streaming.stream.common.model import StreamModel

PROJECT = DbtProject(Path(), Path(), None, None, None)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamModel:
    storage: Any = Storage(str(tmp_path), lambda: None)
    made = StreamModel("m", "lake.db.m", "lake.db.m__state", storage, ())
    monkeypatch.setattr(stop, "owned_model", lambda project, name: (made, None))
    monkeypatch.setattr(stop, "_PAUSE", 0.01)
    return made


def is_running(model: StreamModel, until: float = 60.0) -> None:
    write_health(model.storage, model.health, Health("m", RUNNING, time.time()), until)


def test_a_model_that_does_not_run(model: StreamModel) -> None:
    assert stop.stop_model(PROJECT, "m", 1.0) == "m isn't running."
    assert not model.storage.exists(model.stop_request)


def test_a_run_that_ends_when_it_is_asked(model: StreamModel) -> None:
    is_running(model)

    def run() -> None:
        while not model.storage.exists(model.stop_request):
            time.sleep(0.01)
        model.storage.delete(model.health)

    thread = threading.Thread(target=run)
    thread.start()
    assert stop.stop_model(PROJECT, "m", 30.0) == "m has stopped."
    thread.join()
    assert not model.storage.exists(model.stop_request), "the next run is not asked"


def test_a_run_that_does_not_end_in_time_stays_asked(model: StreamModel) -> None:
    is_running(model)
    with pytest.raises(
        ProjectError, match="m was asked to stop and hasn't yet, after 0 seconds: it is in a long"
    ):
        stop.stop_model(PROJECT, "m", 0.05)
    assert model.storage.exists(model.stop_request)


def test_a_timeout_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time is past a deadline that is NaN."""
    monkeypatch.setattr(stop, "stop_model", lambda project, name, patience: f"{name} in {patience}")
    for timeout in ("nan", "-1"):
        done = CliRunner().invoke(main, ["stop", "m", "--timeout", timeout])
        assert (done.exit_code, "Invalid value for '--timeout'" in done.output) == (2, True), done.output
    done = CliRunner().invoke(main, ["stop", "m", "--timeout", "1.5"])
    assert (done.exit_code, done.output) == (0, "m in 1.5\n")
