"""Models that are started, watched and restarted each by itself: with streams and a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dbt.adapters.spark_streaming.service.health import CATCHING_UP, RUNNING
from dbt.adapters.spark_streaming.service.restart_policy import RestartPolicy
from dbt.adapters.spark_streaming.service.supervisor import Attempt, NotReady, Supervisor
from dbt.adapters.spark_streaming.stream.common.errors import StreamError

OUTAGE = "java.net.ConnectException: Connection refused"
POISON = "Model b: [USER_RAISED_EXCEPTION] bad row"


class World:
    """Streams that do what a test says, at a time that it says."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.time = 1000.0
        self.said: list[str] = []
        self.attempts: dict[str, list[Attempt]] = {name: [] for name in names}
        self._ends: dict[int, Callable[[], None]] = {}
        policy = RestartPolicy(jitter=0, max_restarts=settings.pop("max_restarts", None))
        self.supervisor = Supervisor(
            names,
            self._work,
            policy,
            now=lambda: self.time,
            elapsed=lambda: self.time,
            spawn=self._spawn,
            say=self.said.append,
            **settings,
        )

    def _work(self, name: str, attempt: Attempt) -> None:
        self.attempts[name].append(attempt)

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        before = len(self.attempts[name])
        work()
        # It goes on until the test ends it.
        self.attempts[name][before].is_over = False

    def looks(self, after: float = 0.0) -> dict[str, str]:
        self.time += after
        self.supervisor.advance()
        return {name: each.state for name, each in self.supervisor.models.items()}

    def runs(self, name: str) -> None:
        self.attempts[name][-1].phase = RUNNING

    def ends(self, name: str, problem: str | Exception | None = None) -> None:
        attempt = self.attempts[name][-1]
        attempt.problem = RuntimeError(problem) if isinstance(problem, str) else problem
        attempt.is_over = True


def test_each_model_starts_and_fails_by_itself() -> None:
    world = World("a", "b", "c")
    assert world.looks() == {"a": "waiting", "b": "waiting", "c": "waiting"}
    world.attempts["a"][0].phase = CATCHING_UP
    world.runs("c")
    world.ends("b", StreamError(POISON))
    assert world.looks(5) == {"a": "catching_up", "b": "failed", "c": "running"}
    assert world.said == [f"b: failed. {POISON}"]
    health = world.supervisor.health("b")
    assert (health.last_error, health.since, health.restarts) == (POISON, 1005.0, 0)
    assert world.supervisor.failed_names == ["b"]
    assert not world.supervisor.is_over


def test_an_outage_is_retried_without_end_after_growing_pauses() -> None:
    world = World("a")
    world.looks()
    for number in range(30):
        world.ends("a", OUTAGE)
        pause = min(300.0, 2.0**number)
        assert world.looks() == {"a": "restarting"}
        assert world.looks(pause - 0.01) == {"a": "restarting"}
        assert len(world.attempts["a"]) == number + 1
        world.looks(0.01)
        assert len(world.attempts["a"]) == number + 2
    assert world.supervisor.health("a").restarts == 30
    assert "restarts in 1 s (1 time in a row). " + OUTAGE in world.said[0]


def test_a_model_that_is_only_started_again_has_not_recovered() -> None:
    world = World("a")
    world.looks()
    world.runs("a")
    world.ends("a", OUTAGE)
    world.looks()
    world.looks(1)
    world.attempts["a"][-1].phase = CATCHING_UP
    assert world.looks(1) == {"a": "restarting"}
    world.attempts["a"][-1].has_committed = True
    assert world.looks(1) == {"a": "catching_up"}
    assert world.supervisor.health("a").last_error == OUTAGE


def test_the_count_begins_again_after_ten_minutes_of_running() -> None:
    world = World("a", max_restarts=2)
    world.looks()
    for _ in range(5):
        for wait in (599, 600):
            world.runs("a")
            world.looks(wait)
            world.ends("a", OUTAGE)
            assert world.looks() == {"a": "restarting"}
            world.looks(300)
    assert world.supervisor.health("a").restarts == 10


def test_a_model_is_given_up_after_so_many_restarts() -> None:
    world = World("a", "b", max_restarts=2)
    world.looks()
    for _ in range(2):
        world.ends("a", OUTAGE)
        assert world.looks()["a"] == "restarting"
        world.looks(10)
    world.ends("a", OUTAGE)
    assert world.looks() == {"a": "failed", "b": "waiting"}
    assert world.said[-1] == f"a: failed. {OUTAGE} Given up after 2 restarts."


def test_waiting_for_a_table_counts_as_no_restart() -> None:
    world = World("a", "b", max_restarts=2)
    world.looks()
    world.runs("a")
    for _ in range(6):
        world.ends("b", NotReady("It reads a: no table yet."))
        assert world.looks()["b"] == "waiting"
        world.looks(40)
    world.runs("b")
    world.looks()
    world.ends("b", OUTAGE)
    assert world.looks()["b"] == "restarting"
    assert world.said[-1] == f"b: restarts in 1 s (1 time in a row). {OUTAGE}"


def test_fail_fast_ends_the_others_in_order() -> None:
    world = World("a", "b", fail_fast=True)
    world.looks()
    world.runs("a")
    world.ends("b", StreamError(POISON))
    world.looks()
    assert world.attempts["a"][0].stop.is_set()
    world.ends("a")
    assert world.looks() == {"a": "stopped", "b": "failed"}
    assert world.supervisor.is_over


def test_a_downstream_model_waits_for_its_table_without_counting_restarts() -> None:
    world = World("up", "down", max_restarts=0)
    world.looks()
    world.ends("down", NotReady("It reads up: no table yet."))
    assert world.looks()["down"] == "waiting"
    for _ in range(8):
        world.looks(40)
        world.ends("down", NotReady("It reads up: no table yet."))
    world.looks()
    world.runs("up")
    world.looks(40)
    world.runs("down")
    assert world.looks() == {"up": "running", "down": "running"}
    assert world.supervisor.health("down").restarts == 0
    assert [line for line in world.said if "down" in line] == ["down: waiting. It reads up: no table yet."]


def test_nobody_waits_for_a_table_that_nobody_makes() -> None:
    world = World("up", "down")
    world.looks()
    world.ends("up", StreamError(POISON))
    world.ends("down", NotReady("It reads up: no table yet."))
    assert world.looks() == {"up": "failed", "down": "failed"}
    assert world.supervisor.is_over


def test_who_is_asked_to_stop_stops_and_the_others_go_on() -> None:
    world = World("a", "b", "c")
    world.looks()
    world.runs("a")
    world.ends("b", OUTAGE)
    world.looks()
    world.supervisor.stop("a")
    world.supervisor.stop("b")  # between two attempts, and not recovered
    assert world.attempts["a"][0].stop.is_set()
    world.ends("a")
    assert world.looks() == {"a": "stopped", "b": "failed", "c": "waiting"}
    world.looks(1000)
    assert [len(each) for each in world.attempts.values()] == [1, 1, 1]


@pytest.mark.parametrize("problem", [None, OUTAGE])
def test_what_comes_of_stopping_is_no_failure(problem: str | None) -> None:
    world = World("a")
    world.looks()
    world.runs("a")
    world.looks()
    world.supervisor.stop_all()
    world.ends("a", problem)
    assert world.looks() == {"a": "stopped"}


def test_models_that_do_not_come_to_an_end_are_left() -> None:
    world = World("a", "b")
    world.looks()
    world.runs("a")
    world.ends("b", OUTAGE)
    world.looks()
    world.supervisor.stop("a")
    world.supervisor.abandon_all()
    assert world.looks() == {"a": "stopped", "b": "failed"}


def test_the_end_of_the_jvm_fails_all_that_run() -> None:
    world = World("a", "b", "c")
    world.looks()
    world.runs("a")
    world.ends("b", StreamError(POISON))
    world.supervisor.stop("c")
    world.ends("c")
    world.looks()
    world.supervisor.fail_all("Spark's JVM has ended.")
    assert world.looks() == {"a": "failed", "b": "failed", "c": "stopped"}
    assert world.supervisor.health("a").last_error == "Spark's JVM has ended."
    assert world.supervisor.health("b").last_error == POISON


def test_secrets_are_not_told() -> None:
    world = World("a")
    world.looks()
    world.ends("a", "Connection refused: jdbc:postgresql://db/shop?password=geheim1")
    world.looks()
    assert "geheim1" not in f"{world.said} {world.supervisor.health('a')}"
