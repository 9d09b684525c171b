"""Whether ranks of groups only get better as rows come."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.auctions import bid_ranking, strategy, top


def test_forgotten_groups_come_back_worse() -> None:
    assert strategy(bid_ranking(top("n desc"), DAY)) == "RetractableTopN"
