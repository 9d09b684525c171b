"""State of windows per slice: what is kept of distinct values, and until when."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.plan.operators.window_aggregate import WindowAggregate
from dbt.adapters.spark_streaming.query.program import StatePart
from dbt.adapters.spark_streaming.query.sql.intervals import HOUR
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of


def parts(kind: str, *lengths: str, aggregate: str = "count(distinct v)") -> dict[str, StatePart]:
    rows = expansion.expand_window("bids", window_arguments.make_window(kind, "ts", *lengths))
    text = f"select window_start, window_end, k, {aggregate} as n from {rows} group by 1, 2, 3"
    (found,) = plan_of(text).dataflow.window_operators
    assert isinstance(found, WindowAggregate)
    return {each.name.removeprefix(f"{found.name}_"): each for each in found.window_steps().parts()}


def test_a_value_is_kept_once_per_slice() -> None:
    assert parts("hop", "5 minutes", "1 hour")["distinct_v"].lasts is None


def test_a_growing_window_keeps_the_first_occurrence_of_a_value_only() -> None:
    found = parts("cumulate", "5 minutes", "1 hour")["distinct_v"]
    assert found.lasts == HOUR, "no row of it is merged with another: they only expire"
    assert "_first" in found.append


def test_plain_aggregates_keep_no_values() -> None:
    assert [*parts("hop", "5 minutes", "1 hour", aggregate="sum(v)")] == ["slices"]


def test_slices_that_were_emitted_become_one() -> None:
    fold = parts("cumulate", "5 minutes", "1 hour", aggregate="sum(v)")["slices"].fold
    assert "group by" in fold.lower() and "slice_end" in fold
