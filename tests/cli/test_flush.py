"""What is said of a flush."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.cli.flush import flush_sentence
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "select window_end, count(*) as n from WINDOW group by window_start, window_end",
            "its windows are closed",
        ),
        ("select * from WINDOW", "it emits each row as it arrives, so nothing was held back"),
        (
            "select item, count(*) as n from (select /*+ STREAM */ * from bids) group by item",
            "it has no windows, and holds no rows back now",
        ),
    ],
)
def test_what_a_flush_says(text: str, said: str) -> None:
    window = expansion.expand_window("bids", window_arguments.make_window("tumble", "ts", "5 minutes"))
    plan = plan_query.plan(text.replace("WINDOW", window), ttl=DAY, known={"bids": RelationInfo("ts")})
    assert flush_sentence("m", 3, plan) == f"m: 3 rows out; {said}."
