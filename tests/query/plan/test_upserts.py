"""What identifies a row of the table, and when a row is retracted as it was."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import plan_of
from tests.query.auctions import GROUPED_BIDS, B, auction_flow, auction_plan, keeping


def test_a_group_that_can_not_be_found_again_is_taken_away_as_the_row_it_was() -> None:
    upsert = generate.generate_program(auction_plan(f"select count(*) as n from {B} group by x")).upsert
    assert upsert is not None
    assert (upsert.key, upsert.change) == (None, "result_change")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("select item, median(price) as m from {} group by item", ("item",)),
        ("select item, median(price) as m from {} as t group by t.item", ("item",)),
        (
            "select item, bidder, max(price) as m, grouping_id() as i from {} group by cube (item, bidder)",
            ("bidder", "i", "item"),
        ),
        (
            "select item, bidder, median(price) as m, grouping_id() as i from {} group by cube (item, bidder)",
            ("bidder", "i", "item"),
        ),
        # A subtotal and a group whose key is NULL look alike, and so do groups by a part of their key.
        ("select item, bidder, median(price) as m from {} group by rollup (item, bidder)", None),
        ("select item, median(price) as m from {} group by grouping sets ((item), (item))", None),
        ("select upper(item) as item, median(price) as m from {} group by item", None),
        ("select median(price) as m from {} group by item", None),
        # A rank that isn't selected.
        ("select * from {} order by price limit 5", None),
        (
            "select * except (n) from (select *, row_number() over (order by ts) as n from {}) where n <= 5",
            None,
        ),
        ("select * from (select *, row_number() over (order by ts desc) as n from {}) where n <= 5", ("n",)),
    ],
)
def test_what_tells_groups_apart(text: str, key: tuple[str, ...] | None) -> None:
    upsert = generate.generate_program(auction_plan(text.format(B), DAY), ttl=DAY).upsert
    assert upsert is not None
    assert upsert.key == key


@pytest.mark.parametrize("rows", ["stack(2, 1, 2)", "inline(array(struct(1)))", "explode(array(1))"])
def test_a_row_that_becomes_several_has_no_key(rows: str) -> None:
    """Nothing tells what it becomes apart: the table and what changes are added up."""
    upsert = generate.generate_program(
        auction_plan(f"select item, bidder, n, {rows} from ({GROUPED_BIDS})", DAY), ttl=DAY
    ).upsert
    assert upsert is not None
    assert (upsert.key, upsert.change) == (None, "result_change")


def test_rows_of_a_feed_that_nothing_tells_apart() -> None:
    known = {"raw.bid": RelationInfo(None, (), changes=True)}
    assert keeping(auction_flow(f"select sum(n) as n from {B}", known=known)) == [GroupAggregate]
    # One of the equal rows is taken away.
    found = plan_of(f"select n from {B}", known)
    assert keeping(found.dataflow) == []
    upsert = generate.generate_program(found).upsert
    assert upsert is not None
    assert (upsert.key, upsert.change) == (None, "result_change")
