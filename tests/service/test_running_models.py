"""A table that isn't there is waited for, where somebody is going to make it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.service.failures import Failure, classify_failure
from dbt.adapters.spark_streaming.service.preparation import PreparationError
from dbt.adapters.spark_streaming.service.running_models import RunningModel, RunningModels
from dbt.adapters.spark_streaming.service.supervisor import Attempt, NotReady
from dbt.adapters.spark_streaming.stream.common.model import StreamModel

GONE = "[TABLE_OR_VIEW_NOT_FOUND] There is no table or view `lake`.`shop`.`Sizes`: a model or seed has to be built first"


class Refusing:
    """Prepares nothing."""

    def __init__(self, says: str) -> None:
        self.says = says

    def prepare(self, name: str, is_asked_to_stop: Any) -> None:
        raise PreparationError(self.says)


def problem(stream: RunningModel, *others: RunningModel, says: str = GONE) -> BaseException:
    streams = {each.name: each for each in (stream, *others)}
    preparer: Any = Refusing(says)
    with pytest.raises(Exception) as raised:
        RunningModels(streams, preparer, lambda: pytest.fail(), "1 second").run(stream.name, Attempt())
    return raised.value


def test_a_table_of_the_project_is_waited_for() -> None:
    found = problem(RunningModel("m", frozenset(), frozenset({"shop.sizes"})))
    assert isinstance(found, NotReady) and str(found) == "It reads shop.sizes: no table yet."
    found = problem(RunningModel("m", frozenset({"n"})), RunningModel("n", frozenset()))
    assert isinstance(found, NotReady) and str(found) == "It reads n: no table yet."


def test_a_table_that_nothing_makes_is_a_mistake() -> None:
    found = problem(RunningModel("m", frozenset(), frozenset({"shop.colours"})))
    assert classify_failure(found) is Failure.PERMANENT


@pytest.mark.parametrize("says", [GONE, "Source raw.x: there is no folder /in. It is the 'path' that"])
def test_what_was_there_comes_again(tmp_path: Path, says: str) -> None:
    model = StreamModel("m", "shop.m", "shop.m__state", Storage(str(tmp_path), lambda: None), ())
    stream = RunningModel("m", frozenset())
    assert classify_failure(problem(RunningModel("m", frozenset()), says=says)) is Failure.PERMANENT
    stream.model = model
    assert classify_failure(problem(stream, says=says)) is Failure.TRANSIENT
    assert classify_failure(problem(stream, says="[UNRESOLVED_COLUMN] x")) is Failure.PERMANENT
