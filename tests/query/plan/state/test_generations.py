"""How long an idle key is kept: in event time, on the session's clock."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.operators.join import Join
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY, HOUR
from tests.planned import plan_of
from tests.query.auctions import B


def test_how_long_is_measured_in_event_time() -> None:
    with pytest.raises(
        QueryError, match="no stream of this query says which column that is; give one its event_time in YAML"
    ):
        plan_of(f"select x, count(*) from {B} group by x", {}, DAY)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Europe/Berlin"])
def test_a_day_of_the_session_may_have_25_hours(zone: str) -> None:
    """Spark counts days on the session's clock: on 25 October 2026 a row may find one 25 hours later."""
    text = (
        "select a.id, b.x from (select /*+ STREAM */ * from raw.a) as a join (select /*+ STREAM */ * from raw.b) as b "
        "on a.id = b.id and b.ts between a.ts and a.ts + interval '1' day"
    )

    def ask(query: str) -> tuple[str, ...]:
        return (zone,) if query == "select current_timezone()" else ("struct<id:int,x:int,ts:timestamp>",)

    plan = plan_query.plan(text, {"raw.a": RelationInfo("ts"), "raw.b": RelationInfo("ts")}, ask=ask)
    join = plan.dataflow.root
    assert isinstance(join, Join)
    longer = 3 * HOUR if zone == "Europe/Berlin" else 0
    assert [until[-1][1] for until in join.until] == [DAY + longer, 0]
