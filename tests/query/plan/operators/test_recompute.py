"""What keeps all rows needs an end, unless what it reads ends."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import UnboundedStateError
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.join import Join
from dbt.adapters.spark_streaming.query.plan.operators.over_aggregate import OverAggregate
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.plan.operators.set_operation import SetOperation
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.auctions import AUCTIONS, BEST, GROUPED_BIDS, A, B, auction_flow, keeping


@pytest.mark.parametrize(
    ("text", "kinds", "sentence"),
    [
        (
            f"select * from (select *, row_number() over (partition by x order by y) as rn from {B})",
            [Recompute],
            "'ROW_NUMBER() OVER (PARTITION BY x ORDER BY y)' ranks all rows that ever come; say how many are asked for: "
            "WHERE rn <= 10",
        ),
        (
            f"select * from (select *, rank() over (order by n) as r from ({GROUPED_BIDS})) where n > 3",
            [GroupAggregate, Recompute],
            "it keeps something for every value of item, bidder",
        ),
        (
            f"select x, lag(y) over (partition by x order by ts) as l from {B}",
            [OverAggregate],
            "it keeps the last row for every value of x",
        ),
        (
            f"select * from (select *, rank() over (order by x) as a, rank() over (order by y) as b from {B}) where a < 3",
            [Recompute],
            "ranks all rows that ever come; say how many are asked for: WHERE a <= 10",
        ),
        (f"select distinct * from {B}", [SetOperation], "it keeps every different row that ever comes"),
        (
            f"select b.x from {B} b left join {A} a on a.x = b.x",
            [Recompute],
            "it keeps every row of both sides that ever comes",
        ),
        (
            f"select b.x from {B} b full join {A} a on a.x = b.x",
            [Recompute],
            "it keeps every row of both sides that ever comes",
        ),
        (
            f"select b.x from {B} b join (select x, count(*) as n from {A} group by x) a on a.x = b.x",
            [GroupAggregate, Join],
            "it keeps something for every value of x that ever comes",
        ),
        (
            f"select x from {B} union select x from {A}",
            [SetOperation],
            "it keeps every different row that ever comes",
        ),
        (
            f"select b.x from {B} b join {BEST} a on a.x = b.x",
            [Join],
            "or bound the time between them on both sides, as in a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR",
        ),
    ],
)
def test_what_keeps_all_rows_needs_only_an_end(text: str, kinds: list[type[Operator]], sentence: str) -> None:
    """Flink's planner has these, too; of whole streams they are refused where nothing bounds what is kept."""
    with pytest.raises(UnboundedStateError) as refusal:
        plan_query.plan(text, AUCTIONS)
    assert sentence in str(refusal.value)
    assert keeping(auction_flow(text)) == keeping(auction_flow(text, DAY)) == kinds
    plan_query.plan(text, AUCTIONS, DAY)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (f"select percentile(x, 0.5) from {BEST}", [Recompute]),
        (f"select x from {B} union all select x from {BEST}", []),
    ],
)
def test_what_rows_that_change_bound_needs_no_end(text: str, kinds: list[type[Operator]]) -> None:
    found = plan_query.plan(text, AUCTIONS).dataflow
    assert found is not None and found.root.relation.changes
    assert keeping(found) == kinds
