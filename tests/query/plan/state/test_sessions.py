"""State of sessions: their bounds stand with their rows, and what they are partitioned by with those."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.plan.operators.window_aggregate import WindowAggregate
from dbt.adapters.spark_streaming.query.plan.state.sessions import SessionWindows
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of


def planned(kind: str, *lengths: str) -> SessionWindows:
    rows = expansion.expand_window(
        "bids", window_arguments.make_window(kind, "ts", *lengths, partition_by=["k"])
    )
    text = f"select window_start, window_end, k, sum(v) as s from {rows} group by 1, 2, 3"
    (found,) = plan_of(text).dataflow.window_operators
    assert isinstance(found, WindowAggregate)
    steps = found.window_steps()
    assert isinstance(steps, SessionWindows)
    return steps


@pytest.mark.parametrize("window", [("session", "5 minutes"), ("dynamic_cumulate", "5 minutes", "5 minutes")])
def test_open_sessions_are_known_before_rows_of_the_micro_batch_are_put_into_them(
    window: tuple[str, ...],
) -> None:
    steps = planned(*window)
    (known,) = steps.open_sessions()
    assert "state" in known.sql and known.name in steps.rows_sql("select * from raw", clock=True)


def test_a_late_row_may_put_two_sessions_together() -> None:
    bounds = planned("session", "5 minutes").sessions.bounds_as_instants(["s"])
    assert "merge_from" in bounds
