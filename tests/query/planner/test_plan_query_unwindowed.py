"""Queries without windows that are refused, each with a sentence."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.auctions import AUCTIONS, BEST, B, auction_plan


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select * from (select *, row_number() over (partition by x) as rn from {B}) where rn <= 3",
            "has no ORDER BY, so any row could come first",
        ),
        (f"select * from {B} limit 10", "'LIMIT 10' over a stream without ORDER BY"),
        (f"select * from {B} order by x offset 3", "sets no upper bound; write LIMIT and a number"),
        (
            f"select x from {BEST} where ts > now() - interval 1 day",
            "over an updating input is not supported; put it into the model that computes that input",
        ),
        (f"select * from {B} order by all limit 3", "name the columns to order by"),
        (
            f"with r as (select *, uuid() as id from {B}) select a.x from r a join r b on a.id = b.id",
            "joins streams and calls a non-deterministic function",
        ),
        (
            f"select x, count(*) over (partition by x) * (select max(f) from dims) as n from {B}",
            "reads a table, and is computed again when its rows change: with the table as it is then, not as it was.",
        ),
    ],
)
def test_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        auction_plan(text)
    assert sentence in str(refusal.value)
    with pytest.raises(QueryError) as refusal:
        plan_query.plan(text, AUCTIONS, DAY)
    assert sentence in str(refusal.value)
