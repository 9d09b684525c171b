"""bench/kill.py knows the points that streams reach, and has a model of each operator to kill."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functional.stream import kills
from tests.functional.stream.kinds import KINDS


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    yield importlib.import_module("kill")
    sys.modules.pop("kill")


def test_points_are_where_a_stream_commits_and_before_and_after_each_step(kill: Any) -> None:
    points = kill.points()
    sides = {f"{step}:{side}" for step in kills.COMMITS for side in ("before", "after")}
    others = {"batch:begun", "stream:starting", "flush:before", "progress.write:after", "lookup.ask:before"}
    assert sides | others | {"state.append:written", "changelog.retention:written"} <= set(points)
    assert not [point for point in points if point.startswith(("deploy", "restore", "savepoint", "clone"))]


def test_a_life_ends_at_a_point_in_a_commit_or_anywhere(kill: Any) -> None:
    lives = kill.Lives(1, aborts=0.2, anywhere=0.35, names=tuple(KINDS))
    found = [kill.next_life(random.Random(seed), seed, lives).kill for seed in range(60)]
    assert {bool(each.stage) for each in found if each.point} == {True, False}
    assert any(each.after for each in found)


def test_seeds_one_after_the_other_take_all_kinds(kill: Any) -> None:
    seeds = -(-len(KINDS) // 10)
    taken = [kill.some(list(KINDS), 10, seed) for seed in range(1, seeds + 1)]
    assert {name for names in taken for name in names} == set(KINDS)
