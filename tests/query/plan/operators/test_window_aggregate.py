"""GROUP BY over windows: what a state keeps for it, and what makes two of them the same."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.plan.operators.window_aggregate import WindowAggregate
from dbt.adapters.spark_streaming.query.plan.state.sessions import SessionWindows
from dbt.adapters.spark_streaming.query.plan.state.sliced import SlicedWindows
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of


def window(kind: str, *lengths: str, **options: Any) -> str:
    return expansion.expand_window("bids", window_arguments.make_window(kind, "ts", *lengths, **options))


def planned(rows: str, aggregate: str = "count(*)", above: str = "") -> list[WindowAggregate]:
    text = f"select window_start, window_end, k, {aggregate} as n from {rows} group by 1, 2, 3"
    found = plan_of(f"select * from ({text}){above}").dataflow.window_operators
    return [each for each in found if isinstance(each, WindowAggregate)]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (window("tumble", "1 hour"), SlicedWindows),
        (window("hop", "5 minutes", "1 hour"), SlicedWindows),
        (window("session", "5 minutes", partition_by=["k"]), SessionWindows),
    ],
)
def test_windows_whose_bounds_depend_on_rows_are_kept_as_sessions(rows: str, kind: type) -> None:
    (found,) = planned(rows)
    assert type(found.window_steps()) is kind


def test_partial_aggregates_are_kept_per_slice_and_distinct_values_apart() -> None:
    (found,) = planned(window("hop", "5 minutes", "1 hour"), "count(distinct v)")
    names = [each.name for each in found.window_steps().parts()]
    assert names == [f"{found.name}_slices", f"{found.name}_distinct_v"]


def test_what_is_defined_is_independent_of_other_windows() -> None:
    (alone,) = planned(window("tumble", "1 hour"))
    text = (
        f"select window_end, k, count(*) as n from {window('tumble', '2 hours')} group by window_start, 1, 2"
    )
    union = planned(
        window("tumble", "1 hour"), above=f" union all select null, window_end, k, n from ({text})"
    )
    assert alone.definition({}) in [each.definition({}) for each in union]
    (summed,) = planned(window("tumble", "1 hour"), "sum(v)")
    assert alone.name == summed.name and alone.definition({}) != summed.definition({})
