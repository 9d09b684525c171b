"""Rows leave by a predicate on time."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.temporal_filter import TemporalFilter
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.auctions import AUCTIONS, B, keeping


def test_rows_leave_by_a_predicate_on_time() -> None:
    text = f"select x, count(*) from {B} where ts > now() - interval 1 day and x > 0 group by x"
    found = plan_query.plan(text, AUCTIONS).dataflow  # bounded
    assert found is not None and keeping(found) == [TemporalFilter, GroupAggregate]
    (recent,) = (each for each in found.operators if isinstance(each, TemporalFilter))
    assert (recent.lasts, recent.relation.changes) == (DAY, True)
