"""A query isn't restarted for ever for columns that a restart doesn't bring."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.progress.result import StreamResult
from dbt.adapters.spark_streaming.stream.sources.source_schemas import Restarts, SchemaChanged


def test_a_restart_that_changes_nothing_ends() -> None:
    restarts = Restarts()
    for _ in range(3):
        restarts.check(SchemaChanged("m", "raw.t", ["day"]))
    with pytest.raises(
        StreamError, match=r"\(day\)\. It has started again 3 times, and each time found"
    ) as raised:
        restarts.check(SchemaChanged("m", "raw.t", ["day"]))
    assert type(raised.value) is StreamError


def test_other_changes_and_micro_batches_in_between_go_on() -> None:
    restarts = Restarts()
    for number in range(10):
        restarts.check(SchemaChanged("m", "raw.t", [f"c{number}"]))
    for _ in range(10):
        problem = SchemaChanged("m", "raw.t", ["day"])
        problem.result = StreamResult(batches=1)
        restarts.check(problem)
