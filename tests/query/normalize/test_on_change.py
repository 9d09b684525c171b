"""Windows with emit='on_change' under queries whose select lists have other queries."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.planner.plan_query import plan
from dbt.adapters.spark_streaming.query.windows.expansion import expand_window
from dbt.adapters.spark_streaming.query.windows.window_arguments import make_window

ON_CHANGE = expand_window(
    "lake.clicks", make_window("cumulate", "ts", "1 minute", "1 hour", emit="on_change")
)
TUMBLE = expand_window("lake.clicks", make_window("tumble", "ts", "1 hour"))


@pytest.mark.parametrize("window", [ON_CHANGE, TUMBLE])
def test_a_query_with_a_star_in_a_select_list_is_no_star_of_the_window(window: str) -> None:
    below = f"select ts, k, window_start, window_end, (select * from lake.one) as one from {window} as o"
    text = f"select window_start, window_end, k, count(*) as n from ({below}) group by window_start, window_end, k"
    assert plan(text).dataflow.windows is not None
