"""Rows of a join in time are kept until they can meet none any more."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.plan.operators.join import Join
from dbt.adapters.spark_streaming.query.plan.operators.outer_interval_join import OuterIntervalJoin
from dbt.adapters.spark_streaming.query.sql.intervals import DAY, HOUR, MINUTE
from tests.query.auctions import A, B, auction_flow


@pytest.mark.parametrize(
    ("condition", "lasts"),
    [
        ("a.ts between b.ts - interval '5' minute and b.ts + interval 1 hour", (HOUR, 5 * MINUTE)),
        (
            "a.ts between b.ts - interval 1 hour 5 minutes and b.ts + interval 1 hour",
            (HOUR, HOUR + 5 * MINUTE),
        ),
        ("a.ts >= b.ts and a.ts < b.ts + interval '10 minutes'", (10 * MINUTE, 0)),
        ("b.ts <= a.ts + interval 2 minutes and b.ts > a.ts - interval 1 day", (DAY, 2 * MINUTE)),
        ("a.ts = b.ts", (0, 0)),
    ],
)
def test_how_long_rows_are_kept_for_a_join_in_time(condition: str, lasts: tuple[int, int]) -> None:
    found = auction_flow(f"select b.x from {B} as b join {A} as a on a.x = b.x and {condition}").root
    assert isinstance(found, Join)
    assert found.until == tuple((("ts", each),) for each in lasts)
    assert found.growth is None


def test_a_left_join_keeps_what_may_be_missing_until_it_is() -> None:
    text = f"select b.x from {B} as b left join {A} as a on a.x = b.x and a.ts between b.ts - interval 1 hour and b.ts"
    found = auction_flow(text).root
    assert isinstance(found, OuterIntervalJoin)
    # Those on the left that have met none come when the watermark is there: they can meet none any more.
    assert found.until == found.matchable_until == ((("ts", 0),), (("ts", HOUR),))
    assert [each is not None for each in found.unmatched_rows_sql] == [True, False]
    assert (found.growth, found.relation.changes) == (None, False)
