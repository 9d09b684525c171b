"""`dbt-stream run` as a service: a model that fails is alone with it, its state says so, and the process ends when asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject
from dbt.adapters.spark_streaming.service.health import Health
from tests.functional.models.conftest import sources, write_events
from tests.functional.models.test_run import until

DBT_STREAM = str(Path(sys.executable).with_name("dbt-stream"))


class Service:
    """A `dbt-stream run` in a process of its own, and what it has said so far."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [DBT_STREAM, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def says(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def end(self, number: int, seconds: float = 10) -> tuple[int, float]:
        """Sends a signal; returns the exit code and how long the end took."""
        began = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(seconds)
        took = time.monotonic() - began
        self._reader.join(10)
        return code, took

    @property
    def java(self) -> int:
        found = subprocess.run(
            ["ps", "-o", "pid=,comm=", "--ppid", str(self.process.pid)], capture_output=True, text=True
        )
        return next(int(line.split()[0]) for line in found.stdout.splitlines() if "java" in line)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self._reader.join(10)


class TestService:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        stream = "from {{ stream(source('raw', 'events')) }}"
        config = "{{ config(materialized='streaming_table') }}"
        return {
            "sources.yml": sources(events)
            + "models: [{name: good, columns: [{name: page, tests: [not_null]}]}]\n",
            "good.sql": f"{config} select ts, page, device {stream}",
            "poison.sql": f"{config} select ts, if(page = 'bad', raise_error('bad row'), page) as page {stream}",
            "reads_poison.sql": f"{config} select page from {{{{ stream(ref('poison')) }}}}",
            "broken.sql": f"{config} select no_such_column {stream}",
        }

    @pytest.fixture(scope="class")
    def options(self, project: Any) -> list[str]:
        return ["--project-dir", project.project_root, "--profiles-dir", project.profiles_dir]

    @pytest.fixture
    def service(self, options: list[str]) -> Iterator[Service]:
        with Service(*options, "run", "--every", "500 ms") as found:
            yield found

    def status(self, options: list[str]) -> dict[str, dict[str, Any]]:
        found = CliRunner().invoke(main, [*options, "status", "--json"])
        assert found.exit_code == 0, found.output
        return {entry["model"]: entry for entry in json.loads(found.stdout)}

    def states(self, options: list[str]) -> dict[str, str]:
        """As the files say: to have dbt read the project takes longer than a model to fail."""
        storage = DbtProject(Path(options[1]), Path(options[3]), None, None, None).environment().storage
        found = {}
        for name in ("good", "poison", "reads_poison", "broken"):
            # A model that is still starting has no file yet.
            for path in Path(storage.progress).glob(f"*.{name}.health.json"):
                found[name] = Health(**json.loads(path.read_text())).as_of(time.time()).state
        return found

    def test_one_bad_row_stops_one_model(
        self, spark: Any, project: Any, options: list[str], events: Path, service: Service
    ) -> None:
        until(lambda: service.says("3 models up"), 400)
        until(
            lambda: (
                self.states(options)
                == {"good": "running", "poison": "running", "reads_poison": "running", "broken": "failed"}
            )
        )
        assert service.says("3 models up: good, poison, reads_poison. broken is failed.")
        assert "UNRESOLVED_COLUMN" in self.status(options)["broken"]["last_error"]
        write_events(spark, events, "x", "('2024-03-04 02:00:00', 'bad', 'd1', 6)")
        until(lambda: self.states(options)["poison"] == "failed")
        poison = self.status(options)["poison"]
        assert "[USER_RAISED_EXCEPTION] bad row" in poison["last_error"]
        assert poison["restarts"] == 0, "no restart mends a row"
        write_events(spark, events, "y", "('2024-03-04 03:00:00', 'p1', 'd1', 7)")
        until(lambda: self.status(options)["good"]["progress"]["total"]["rows_in"] == 8)
        good = self.status(options)["good"]
        assert (good["state"], good["pid"], good["last_error"]) == ("running", service.process.pid, None)

        # Batch jobs pass over what is kept up to date, and go on below it.
        results = {
            result.node.name: result for result in run_dbt(["build", "--select", "good"], expect_pass=True)
        }
        assert "skipped: process" in results["good"].message and "and is running)" in results["good"].message
        assert results["not_null_good_page"].status == "pass"
        refused = run_dbt(["run", "--select", "good", "--full-refresh"], expect_pass=False)
        assert "another run of it is in progress" in refused.results[0].message

        service.process.send_signal(signal.SIGHUP)
        time.sleep(2)
        assert service.process.poll() is None
        code, took = service.end(signal.SIGTERM)
        assert (code, took < 10) == (1, True)
        last = service.lines[-1]
        assert last == "stopped: good, reads_poison; failed: broken, poison\n"
        assert service.says("poison: failed. Model poison: [USER_RAISED_EXCEPTION] bad row")
        assert not service.says("Traceback")
        assert self.states(options) == {
            "good": "stopped",
            "poison": "failed",
            "reads_poison": "stopped",
            "broken": "failed",
        }
        table = CliRunner().invoke(main, [*options, "status"]).stdout
        assert "poison: Model poison: [USER_RAISED_EXCEPTION] bad row" in table

    @pytest.mark.thorough
    def test_the_others_come_up_beside_it_and_the_end_of_the_jvm_is_one_sentence(
        self, spark: Any, project: Any, options: list[str], events: Path, service: Service
    ) -> None:
        until(lambda: service.says(" up: "), 400)
        until(
            lambda: (
                self.states(options)
                == {"good": "running", "poison": "failed", "reads_poison": "running", "broken": "failed"}
            )
        )
        os.kill(service.java, signal.SIGKILL)
        assert service.process.wait(10) == 1
        service._reader.join(10)
        said = [line for line in service.lines if "Spark's JVM" in line]
        assert "has ended: killed by SIGKILL" in said[0]
        assert not service.says("Traceback") and not service.says("py4j")
        good = self.status(options)["good"]
        assert good["state"] == "failed" and "killed by SIGKILL" in good["last_error"]
        # It runs again: that clears it. What stays broken stays failed.
        run_dbt(["run"], expect_pass=False)
        # dbt skips what reads a model that failed.
        assert self.states(options) == {
            "good": "stopped",
            "poison": "failed",
            "reads_poison": "failed",
            "broken": "failed",
        }
        run_dbt(["run", "--select", "reads_poison"])
        assert self.states(options)["reads_poison"] == "stopped"
        assert self.status(options)["good"]["last_error"] is None

    def test_sigterm_at_any_moment(self, project: Any, options: list[str]) -> None:
        for seconds in (0.7, 4.0):
            with Service(*options, "run") as service:
                time.sleep(seconds)
                code, took = service.end(signal.SIGTERM)
                assert (code in (0, 1, -signal.SIGTERM), took < 10) == (True, True)
                assert not service.says("Traceback")

    @pytest.mark.thorough
    def test_a_killed_process_does_not_look_alive(
        self, project: Any, options: list[str], service: Service
    ) -> None:
        until(lambda: service.says(" up: ") and self.states(options)["good"] == "running", 400)
        service.end(signal.SIGKILL)
        good = self.status(options)["good"]
        assert good["state"] == "failed" and "ended without saying why" in good["last_error"]

    @pytest.mark.thorough
    def test_fail_fast_ends_all(self, project: Any, options: list[str]) -> None:
        with Service(*options, "run", "--fail-fast") as service:
            assert service.process.wait(400) == 1
        assert self.states(options)["good"] in ("stopped", "failed")

    @pytest.mark.thorough
    def test_a_model_that_fails_where_it_is_run_alone(self, project: Any, options: list[str]) -> None:
        with Service(*options, "run", "--select", "broken") as service:
            assert service.process.wait(400) == 1
        assert service.says("broken: failed.") and service.lines[-1] == "stopped; failed: broken\n"
