"""The health of a model, as files say it: a dead process never looks alive, a failed model never healthy."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.service import health
from dbt.adapters.spark_streaming.service.health import (
    ALIVE,
    Health,
    Publisher,
    health_in_other_process,
    publishing_failure,
    publishing_health,
    read_health,
    write_health,
)
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.common.stop_requests import StopRequests


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("views", "shop.views", "shop.views__state", Storage(str(tmp_path), lambda: None), ())


def dead_pid() -> int:
    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    return process


@pytest.mark.parametrize("state", ALIVE)
@pytest.mark.parametrize(
    ("pid", "host", "age"),
    [
        ("dead", "here", 0.0),
        ("alive", "here", 46.0),  # its number is another process's by now
        ("alive", "elsewhere", 46.0),
        ("dead", "elsewhere", 3600.0),
    ],
)
def test_a_dead_process_never_looks_alive(state: str, pid: str, host: str, age: float) -> None:
    found = Health(
        "views",
        state,
        since=100.0,
        last_error="the disk is full",
        pid=os.getpid() if pid == "alive" else dead_pid(),
        host=socket.gethostname() if host == "here" else "another",
        heartbeat=1000.0,
        every=15.0,
    )
    seen = found.as_of(1000.0 + age)
    assert (seen.state, seen.since) == ("failed", 1000.0)
    assert "ended without saying why" in str(seen.last_error) and "the disk is full" in str(seen.last_error)
    assert seen.as_json()["pid"] is None


@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_a_living_process_is_believed(host: str) -> None:
    name = socket.gethostname() if host == "here" else "another"
    found = Health("views", "running", 100.0, host=name, heartbeat=1000.0)
    assert found.as_of(1045.0) == found


def test_what_ended_in_order_stays_as_it_is() -> None:
    for state in ("failed", "stopped"):
        found = Health("views", state, 100.0, pid=dead_pid(), heartbeat=1000.0)
        assert found.as_of(1e9) == found


def test_a_file_that_is_not_ours_says_nothing(model: StreamModel) -> None:
    assert read_health(model) is None
    for text in ("{}", "[1]", "nonsense", '{"model": "views", "state": "running", "since": 1, "more": 2}'):
        model.storage.write_text(model.health, text)
        assert read_health(model) is None


def test_a_plain_run_notes_how_it_went(model: StreamModel) -> None:
    with publishing_health(model):
        time.sleep(0.2)
        assert (read_health(model) or pytest.fail()).state == "catching_up"
    assert (read_health(model) or pytest.fail()).state == "stopped"
    with pytest.raises(RuntimeError), publishing_health(model):
        raise RuntimeError("bad row; password=geheim1")
    failed = read_health(model) or pytest.fail()
    assert (failed.state, failed.last_error) == ("failed", "bad row; password=***")
    with publishing_health(model):
        pass
    cleared = read_health(model) or pytest.fail()
    assert (cleared.state, cleared.last_error, cleared.by) == ("stopped", None, "dbt run")
    with pytest.raises(RuntimeError), publishing_failure(model):
        raise RuntimeError("Runtime Error\n  it doesn't compile")
    failed = read_health(model) or pytest.fail()
    assert (failed.state, failed.last_error) == ("failed", "it doesn't compile")


def test_a_run_that_somebody_cancels_has_not_failed(model: StreamModel) -> None:
    for problem in (RuntimeError("Cancelled."), KeyboardInterrupt()):
        with pytest.raises(type(problem)), publishing_health(model):
            raise problem
        assert (read_health(model) or pytest.fail()).state == "stopped"


def test_a_run_that_is_refused_leaves_what_the_other_one_says(model: StreamModel) -> None:
    going = Health("views", "running", 100.0)
    write_health(model.storage, model.health, going, 15.0)
    for block in (publishing_health(model), publishing_failure(model)):
        with pytest.raises(RuntimeError), block:
            raise RuntimeError("another run of it is in progress")
    assert (read_health(model) or pytest.fail()).state == "running"


def test_who_keeps_a_model(model: StreamModel) -> None:
    other = Health("views", "restarting", 100.0, pid=os.getppid())
    for found, kept in (
        (other, True),
        (replace(other, by="dbt run"), False),
        (replace(other, pid=os.getpid()), False),
        (replace(other, state="failed"), False),
        (replace(other, state="stopped"), False),
        (replace(other, pid=dead_pid()), False),
    ):
        write_health(model.storage, model.health, found, 15.0)
        assert (health_in_other_process(model) is not None) == kept, found


def test_health_is_written_again_while_a_model_is_alive(model: StreamModel) -> None:
    writer = Publisher(model.storage, beat=0.1)
    writer.publish(model.health, Health("views", "running", 100.0))
    assert writer.wait_until_written(5)
    first = json.loads(Path(model.health).read_text())["heartbeat"]
    deadline = time.monotonic() + 10
    while json.loads(Path(model.health).read_text())["heartbeat"] == first:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    writer.publish(model.health, Health("views", "stopped", 200.0))
    assert writer.wait_until_written(5)
    last = Path(model.health).read_text()
    time.sleep(0.3)
    assert Path(model.health).read_text() == last


class Away(Storage):
    """A storage root that answers only when it is told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), lambda: None)
        self.answers = threading.Event()
        self.problem_of_it: Exception | None = None

    def write_text(self, path: str, text: str) -> None:
        self.answers.wait(30)
        if self.problem_of_it:
            raise self.problem_of_it
        super().write_text(path, text)

    def list(self, path: str) -> list[str]:
        self.answers.wait(30)
        return super().list(path)


def test_nobody_waits_for_storage(tmp_path: Path) -> None:
    storage = Away(tmp_path)
    model = StreamModel("views", "shop.views", "shop.views__state", storage, ())
    writer, requests = Publisher(storage, beat=0.1), StopRequests(storage, every=0.05)
    began = time.monotonic()
    for number in range(100):
        writer.publish(model.health, Health("views", "running", float(number)))
    request = requests.watch(model)
    assert not request.is_asked
    assert not writer.wait_until_written(0.1)
    assert time.monotonic() - began < 5
    storage.problem_of_it = OSError("503")
    storage.answers.set()
    time.sleep(0.3)
    storage.problem_of_it = None
    deadline = time.monotonic() + 10
    while (found := read_health(model)) is None or found.since != 99.0:
        assert time.monotonic() < deadline, "the newest is written when storage is back"
        time.sleep(0.05)


def test_a_heartbeat_away_is_a_minute_apart() -> None:
    assert health.Publisher(Storage("s3a://bucket/root", lambda: None)).beat == 60.0
