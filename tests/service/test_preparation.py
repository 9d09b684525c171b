"""Models that ask to be prepared at about the same time are, by one `dbt run`; each hears what became of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dbt.adapters.spark_streaming.service.preparation import (
    Outcome,
    PreparationError,
    Preparer,
    SkippedError,
    hand_over,
    is_preparing,
    preparing,
)

READY: Any = object()


class Dbt:
    """Notes what is run, and does what a test says."""

    def __init__(self) -> None:
        self.runs: list[list[str]] = []
        self.go = threading.Event()
        self.says: dict[str, Outcome] = {}
        self.problem: BaseException | None = None

    def run(self, names: Sequence[str], note: Callable[[Outcome], None]) -> None:
        self.runs.append(list(names))
        for name in names:
            if name in self.says:
                note(self.says[name])
        self.go.wait(10)
        if self.problem:
            raise self.problem
        for name in names:
            # dbt's end repeats what its events have said.
            note(self.says.get(name) or Outcome(name, "success", prepared=READY))


def asked(preparer: Preparer, name: str, found: dict[str, Any]) -> threading.Thread:
    def ask() -> None:
        try:
            found[name] = preparer.prepare(name)
        except BaseException as problem:
            found[name] = problem

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread


def test_the_first_run_is_of_all_and_those_that_are_done_do_not_wait_for_it() -> None:
    dbt, found = Dbt(), dict[str, Any]()
    dbt.says = {
        "b": Outcome("b", "error", "Model b: [PARSE_SYNTAX_ERROR]"),
        "c": Outcome("c", "skipped"),
    }
    preparer = Preparer(dbt.run, ["a", "b", "c"])
    threads = {name: asked(preparer, name, found) for name in ("c", "a")}
    time.sleep(0.2)
    assert dbt.runs == []
    threads["b"] = asked(preparer, "b", found)
    threads["b"].join(5)
    threads["c"].join(5)
    assert dbt.runs == [["a", "b", "c"]]
    assert isinstance(found["b"], PreparationError) and isinstance(found["c"], SkippedError)
    assert "a" not in found
    # What is asked meanwhile is in the next run.
    again = [asked(preparer, name, found) for name in ("b", "c")]
    time.sleep(0.2)
    dbt.says = {}
    dbt.go.set()
    for thread in (*threads.values(), *again):
        thread.join(5)
    assert found == {"a": READY, "b": READY, "c": READY}
    assert dbt.runs[1] == ["b", "c"]


def test_what_concerns_all_is_told_to_each() -> None:
    dbt, found = Dbt(), dict[str, Any]()
    dbt.problem = RuntimeError("the catalog is away")
    dbt.go.set()
    preparer = Preparer(dbt.run, ["a", "b"])
    for thread in [asked(preparer, name, found) for name in ("a", "b")]:
        thread.join(5)
    assert found == {"a": dbt.problem, "b": dbt.problem}


def test_who_is_asked_to_stop_is_not_waited_for() -> None:
    dbt, found = Dbt(), dict[str, Any]()
    dbt.go.set()
    preparer = Preparer(dbt.run, ["a", "b"])
    assert preparer.prepare("a", lambda: True) is None
    asked(preparer, "b", found).join(5)
    assert found == {"b": READY}
    assert dbt.runs == [["b"]]


def test_a_model_of_which_dbt_says_nothing() -> None:
    preparer = Preparer(lambda names, note: None)
    with pytest.raises(PreparationError, match="dbt gave no reason"):
        preparer.prepare("a")


def test_streams_are_handed_over_only_while_models_are_prepared() -> None:
    assert not hand_over("model.shop.a", READY)
    with preparing() as found:
        assert is_preparing()
        assert hand_over("model.shop.a", READY)
    assert not is_preparing()
    assert found == {"model.shop.a": READY}


def test_whatever_dbt_raises_the_next_request_is_served() -> None:
    dbt, found = Dbt(), dict[str, Any]()
    dbt.go.set()
    dbt.problem = SystemExit(2)
    preparer = Preparer(dbt.run)
    asked(preparer, "a", found).join(5)
    assert isinstance(found["a"], SystemExit)
    dbt.problem = None
    asked(preparer, "a", found).join(5)
    assert found["a"] is READY
