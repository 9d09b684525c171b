"""Two commits that touch the same file: the one that came too late is made once more."""

from __future__ import annotations

from typing import Any

import pytest
from dbt_common.exceptions import DbtDatabaseError

from dbt.adapters.spark_streaming import connections
from dbt.adapters.spark_streaming.connections import Handle

CONFLICT = "org.apache.iceberg.exceptions.ValidationException: Missing required files to delete: a.parquet"


class Environment:
    """Turns statements away so many times."""

    def __init__(self, message: str, times: int) -> None:
        self._message, self._times = message, times
        self.tries = 0

    def run(self, *_: Any) -> str:
        self.tries += 1
        if self.tries <= self._times:
            raise RuntimeError(self._message)
        return "rows"


def handle(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Handle:
    monkeypatch.setattr(connections, "_PAUSES", (0.0, 0.0, 0.0))
    return Handle(environment, "model")


@pytest.mark.parametrize(("times", "tries"), [(0, 1), (2, 3)])
def test_a_conflict_is_tried_again(times: int, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Environment(CONFLICT, times)
    handle(environment, monkeypatch).execute("merge …")
    assert environment.tries == tries


@pytest.mark.parametrize(("message", "tries"), [(CONFLICT, 4), ("division by zero", 1)])
def test_but_not_for_ever_and_nothing_else_is(
    message: str, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment(message, 99)
    with pytest.raises(DbtDatabaseError):
        handle(environment, monkeypatch).execute("merge …")
    assert environment.tries == tries
