"""What a watchdog says of models and clusters that make no progress."""

from __future__ import annotations

from dbt.adapters.spark_streaming.service.watchdog import Watchdog

BUSY = {"a": ("micro-batch 3", 2), "b": None}


def test_a_micro_batch_that_lasts_is_told_once_and_again_when_it_has_lasted_twice_as_long() -> None:
    said: list[str] = []
    dog = Watchdog(said.append, stalled=600)
    for minute in range(45):
        dog.check_progress(60.0 * minute, BUSY, None)
    assert said == [
        "a: no progress for 10 min: micro-batch 3.",
        "a: no progress for 20 min: micro-batch 3.",
        "a: no progress for 40 min: micro-batch 3.",
    ]
    assert dog.notes == {"a": "no progress for 44 min: micro-batch 3"}
    dog.check_progress(60.0 * 46, {"a": ("micro-batch 4", 3), "b": None}, None)
    assert said[-1] == "a: makes progress again."
    assert dog.notes == {}


def test_who_waits_for_rows_makes_progress() -> None:
    said: list[str] = []
    dog = Watchdog(said.append, stalled=600)
    for minute in range(1000):
        dog.check_progress(60.0 * minute, {"a": None, "b": ("micro-batch", minute)}, None)
    assert said == []


def test_a_cluster_without_executors() -> None:
    said: list[str] = []
    dog = Watchdog(said.append)
    for second in range(0, 300, 10):
        # Without work there may be none: they are let go.
        dog.check_progress(second, {"a": None}, 0)
    assert said == []
    for second in range(300, 500, 10):
        dog.check_progress(second, {"a": ("micro-batch 3", 2)}, 0)
    assert said == [
        "The cluster has had no executors for 60 s; models with rows to read wait for them.",
        "The cluster has had no executors for 2 min; models with rows to read wait for them.",
    ]
    dog.check_progress(500, {"a": ("micro-batch 3", 2)}, 2)
    for second in range(510, 560, 10):
        dog.check_progress(second, {"a": ("micro-batch 3", 2)}, 0)
    assert len(said) == 2, "they were there meanwhile"
