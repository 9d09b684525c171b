"""`dbt-stream run`, `stop` and `reset`: streams that keep going."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, run_dbt_and_capture

from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.project import DbtProject, Selection
from dbt.adapters.spark_streaming.cli.run import run_models
from dbt.adapters.spark_streaming.project import stream_node
from dbt.adapters.spark_streaming.service.health import read_health
from dbt.adapters.spark_streaming.stream.common import failpoints
from tests.functional.models.conftest import sources, write_events

DBT_STREAM = str(Path(sys.executable).with_name("dbt-stream"))
TUMBLED = """
select window_start, window_end, count(*) as n, sum(amount) as amount
from {{ tumble(source('raw', 'events'), 'ts', '10 minutes') }} group by window_start, window_end"""


def seen(project: Any, table: str) -> int:
    ((found,),) = project.run_sql(f"select sum(n) from {project.test_schema}.{table}", fetch="all")
    return int(found or 0)


def until(true: Callable[[], bool], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


class TestRun:
    @pytest.fixture(scope="class")
    def models(self, events: Path) -> dict[str, str]:
        return {
            "sources.yml": sources(events),
            "tens.sql": "{{ config(materialized='streaming_table', trigger='300 ms') }}" + TUMBLED,
            "hours.sql": """{{ config(materialized='streaming_table') }}
                select window_start, window_end, sum(n) as n
                from {{ tumble(ref('tens'), 'window_start', '1 hour') }} group by window_start, window_end""",
        }

    def options(self, project: Any) -> list[str]:
        return ["--project-dir", project.project_root, "--profiles-dir", project.profiles_dir]

    @pytest.mark.thorough
    def test_models_follow_their_streams_until_they_are_stopped(
        self, spark: Any, project: Any, events: Path
    ) -> None:
        idle = CliRunner().invoke(main, [*self.options(project), "stop", "tens"])
        assert (idle.exit_code, idle.stdout) == (0, "tens isn't running.\n")
        told = DbtProject(Path(project.project_root), Path(project.profiles_dir), None, None, None)
        locks = Path(told.environment().storage.locks)
        outcome: list[bool] = []
        thread = threading.Thread(
            target=lambda: outcome.append(run_models(told, Selection(), "300 milliseconds"))
        )
        thread.start()
        try:
            until(lambda: all(self.is_locked(locks, name) for name in ("tens", "hours")))
            until(lambda: seen(project, "tens") == 3)
            # What the first puts out is what the second takes in, while both are going.
            write_events(spark, events, "d", "('2024-03-04 02:15:00', 'p1', 'd1', 6)")
            until(lambda: seen(project, "tens") == 4)
            write_events(spark, events, "e", "('2024-03-04 03:15:00', 'p1', 'd1', 7)")
            until(lambda: seen(project, "hours") == 4)
            code, _, said = self.outside(project, "reset", "--yes", "tens")
            assert (code, "another run of it is in progress" in said) == (2, True)
            assert self.outside(project, "stop", "tens") == (0, "tens has stopped.\n", "")
            assert not self.is_locked(locks, "tens")
            assert self.is_locked(locks, "hours")
            assert self.outside(project, "stop", "hours") == (0, "hours has stopped.\n", "")
        finally:
            for name in ("tens", "hours") if thread.is_alive() else ():
                self.outside(project, "stop", name)
            thread.join(60)
        assert outcome == [True]
        # What came meanwhile is there for the next one, once.
        write_events(spark, events, "f", "('2024-03-04 04:15:00', 'p1', 'd1', 8)")
        run_dbt(["run", "--vars", "{flush: true}"])
        assert seen(project, "tens") == 7

    def outside(self, project: Any, *arguments: str) -> tuple[int, str, str]:
        """A command in a process of its own."""
        done = subprocess.run(
            [DBT_STREAM, *self.options(project), *arguments], capture_output=True, text=True, timeout=100
        )
        return done.returncode, done.stdout, done.stderr

    def is_locked(self, folder: Path, name: str) -> bool:
        for path in folder.glob(f"*.{name}.lock"):
            with path.open("rb") as file:
                try:
                    fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    # That of dbt's own run before is another process's too: Spark's.
                    return True
        return False

    @pytest.mark.thorough
    def test_ctrl_c_ends_all_in_order(self, spark: Any, project: Any, events: Path) -> None:
        command = [DBT_STREAM, *self.options(project), "run"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}
        )
        assert process.stdout is not None
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
        reader.start()
        try:
            until(lambda: any("Completed successfully" in line for line in lines))
            write_events(
                spark,
                events,
                "g",
                "('2024-03-04 05:15:00', 'p1', 'd1', 9), ('2024-03-04 05:16:00', 'p1', 'd1', 9)",
            )
            until(lambda: any("tens: 2 rows in" in line for line in lines))
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
            reader.join()
        run_dbt(["run", "--vars", "{flush: true}"])
        assert seen(project, "tens") == 9

    def test_what_can_not_be_run(self, project: Any) -> None:
        for arguments, message in (
            (["run", "--select", "tens", "hours", "--exclude", "+hours"], "No streaming model is selected"),
            (["run", "--select", "no_such_model"], "No streaming model is selected"),
            (["run", "--every", "soon"], "--every: 'soon'"),
            (["run", "--every", "0 seconds"], "must be longer than zero"),
            (["stop", "no_such_model"], "There is no streaming model 'no_such_model'"),
            (["reset", "--yes", "no_such_model"], "There is no streaming model 'no_such_model'"),
        ):
            found = CliRunner().invoke(main, [*self.options(project), *arguments])
            assert (found.exit_code, message in found.stderr) == (2, True), found.output

    @pytest.mark.thorough
    def test_the_same_from_dbt(self, spark: Any, project: Any, events: Path) -> None:
        write_events(spark, events, "h", "('2024-03-04 06:15:00', 'p1', 'd1', 1)")
        run_dbt(["run", "--select", "tens"])
        assert seen(project, "tens") == 9
        # A process of its own; what others are asked for is in test_operations.py.
        _, output = run_dbt_and_capture(["run-operation", "flush", "--args", "{model: tens}"])
        assert "tens: 1 row out; its windows are closed." in output
        assert seen(project, "tens") == 10

    @pytest.mark.thorough
    def test_what_is_forgotten_begins_anew(self, project: Any) -> None:
        before = seen(project, "tens")
        asked = CliRunner().invoke(main, [*self.options(project), "reset", "tens"], input="n\n")
        assert asked.exit_code == 1
        assert seen(project, "tens") == before
        found = CliRunner().invoke(main, [*self.options(project), "reset", "--yes", "tens"])
        assert found.exit_code == 0, found.output
        assert "tens is forgotten" in found.stdout
        # Stopped before all was read, its windows stay open: what comes would be late.
        with self.stopped_after_one(project):
            (stopped,) = run_dbt(["run", "--select", "tens", "--vars", "{flush: true}"])
        assert (stopped.adapter_response["stopped"], stopped.adapter_response["batches"]) == (True, 1)
        run_dbt(["run", "--select", "tens", "--vars", "{flush: true}"])
        assert seen(project, "tens") == before

    def test_who_is_stopped_while_it_catches_up_does_not_go_on(
        self, project: Any, events: Path, spark: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for hour in (7, 8):
            write_events(spark, events, f"at{hour}", f"('2024-03-04 0{hour}:15:00', 'p1', 'd1', 1)")
        told = DbtProject(Path(project.project_root), Path(project.profiles_dir), None, None, None)
        with self.stopped_after_one(project):
            assert run_models(told, Selection(("tens",)), "300 milliseconds")
        assert "tens: stopped" in capsys.readouterr().out

    def test_an_outage_is_waited_out_by_the_model_that_it_meets(
        self, project: Any, events: Path, spark: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_events(spark, events, "at9", "('2024-03-04 09:15:00', 'p1', 'd1', 1)")
        told = DbtProject(Path(project.project_root), Path(project.profiles_dir), None, None, None)
        models = {
            name: stream_node.stream_model(told.streaming_model(name), told.environment())
            for name in ("tens", "hours")
        }
        is_away = threading.Event()
        is_away.set()

        def fail(point: str, name: str) -> None:
            if point == "batch:begun" and name == "tens" and is_away.is_set():
                raise ConnectionResetError(104, "Connection reset by peer")

        def state(name: str) -> tuple[str, int, bool]:
            health = read_health(models[name])
            if health is None:
                return "", 0, False
            return health.state, health.restarts, "Connection reset" in str(health.last_error)

        failpoints.arm(fail)
        outcome: list[bool] = []
        thread = threading.Thread(target=lambda: outcome.append(run_models(told, Selection(), "300 ms")))
        thread.start()
        try:
            until(lambda: state("tens")[1] >= 2)
            assert state("tens")[0] in ("restarting", "catching_up") and state("tens")[2]
            until(lambda: state("hours") == ("running", 0, False))
            is_away.clear()
            until(lambda: state("tens")[0] == "running")
            assert state("tens")[2], "the last error is kept for a while"
        finally:
            failpoints.arm(None)
            for name in ("tens", "hours"):
                CliRunner().invoke(main, [*self.options(project), "stop", name])
            thread.join(60)
        assert outcome == [True]
        assert "tens: restarts in 1 s (1 time in a row)." in capsys.readouterr().out
        assert state("tens")[0] == "stopped"

    @contextmanager
    def stopped_after_one(self, project: Any) -> Iterator[None]:
        """A run of `tens` is asked to stop in its first micro-batch."""
        told = DbtProject(Path(project.project_root), Path(project.profiles_dir), None, None, None)
        model = stream_node.stream_model(told.streaming_model("tens"), told.environment())

        def stop(point: str, name: str) -> None:
            if point == "batch:done" and not model.storage.exists(model.stop_request):
                model.storage.write_text(model.stop_request, "")
                time.sleep(3)

        failpoints.arm(stop)
        try:
            yield
        finally:
            failpoints.arm(None)
            model.storage.delete(model.stop_request)
