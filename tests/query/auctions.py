"""Queries over bids and asks, planned without windows."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.dataflow import Dataflow
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.plan.operators.late_rows import LateRows
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.plan.operators.source import Source
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.plan.operators.union_all import UnionAll
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from tests.planned import plan_of

B, A = "(select /*+ STREAM */ * from raw.bid)", "(select /*+ STREAM */ * from raw.ask)"
AUCTIONS = {
    "raw.bid": RelationInfo("ts"),
    "raw.ask": RelationInfo("ts"),
    "raw.best": RelationInfo("ts", ("id",), changes=True),
}
BEST = "(select /*+ STREAM */ * from raw.best)"
METRICS = "count(*) as n, sum(price) as s, max(price) as hi, min(price) as lo"
GROUPED_BIDS = f"select item, bidder, {METRICS} from {B} group by item, bidder"
COUNTS = f"select item, count(*) as n, max(price) as hi from {B} group by item"


def auction_plan(text: str, ttl: int | None = None) -> Plan:
    return plan_of(text, AUCTIONS, ttl)


def auction_flow(text: str, ttl: int | None = None, known: dict[str, RelationInfo] = AUCTIONS) -> Dataflow:
    found = plan_of(text, known, ttl)
    assert found.dataflow.window_specs == ()
    return found.dataflow


def keeping(found: Dataflow) -> list[type[Operator]]:
    """The kinds of its operators that aren't row by row, inputs first."""
    stateless = (Source, Project, UnionAll, LateRows)
    return [type(each) for each in found.operators if not isinstance(each, stateless)]


def bid_ranking(text: str, ttl: int | None = None) -> TopN:
    (found,) = (each for each in auction_flow(text, ttl).operators if isinstance(each, TopN))
    return found


def strategy(found: TopN) -> str:
    """What Flink calls how it is kept up to date."""
    if not found.inputs[0].relation.changes:
        return "AppendOnlyTopN"
    return "UpdatableTopN" if found.improves else "RetractableTopN"


def top(order: str, of: str = f"({GROUPED_BIDS})", rank: str = "row_number", where: str = "rn <= 3") -> str:
    return f"select * from (select *, {rank}() over (partition by item order by {order}) as rn from {of}) where {where}"


FIRST = (
    f"select * from (select *, row_number() over (partition by z order by ts) as rn from {B}) where rn = 1"
)
