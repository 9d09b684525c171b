"""Rows behind the last of a full ranking are not looked at."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.auctions import GROUPED_BIDS, auction_plan, bid_ranking


@pytest.mark.parametrize(
    ("over", "ttl", "descends"),
    [
        ("row_number() over (partition by item order by s desc, n)", None, True),
        ("rank() over (partition by item order by lo)", None, False),
        ("row_number() over (order by s desc)", None, True),
        # As many rows may be as many values, or fewer.
        ("dense_rank() over (partition by item order by s desc)", None, None),
        # Which rankings are touched isn't known by the keys of the groups.
        ("rank() over (partition by n order by s desc)", None, None),
        # A ranking that rows are behind in isn't touched: its members may be forgotten.
        ("rank() over (partition by item order by s desc)", DAY, None),
    ],
)
def test_which_rows_are_behind_the_last_of_a_full_ranking(
    over: str, ttl: int | None, descends: bool | None
) -> None:
    text = f"select * from (select *, {over} as place from ({GROUPED_BIDS})) where place <= 3"
    assert bid_ranking(text, ttl).descends is descends
    steps = generate.generate_program(auction_plan(text, ttl), ttl=ttl).items_of_kind(Step)
    (candidates,) = (step for step in steps if step.name.endswith("_candidates"))
    assert ("__last_first" in candidates.sql) is (descends is not None)
    # Of an empty state there is no last one.
    assert "__last_first" not in (candidates.initial or "")
