"""What has no key is never idle: a total, and the first of all rows, stay while a time to live lets other rows go, on
DuckDB."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from tests.corpus.unwindowed import KNOWN, B
from tests.differential import duck
from tests.differential.outcome import EQUAL, Outcome
from tests.differential.two_streams import BIDS, put
from tests.thorough import mostly_thorough

OF_A = f"(select * from {B} where item = 'a')"
TTL = 30 * 60_000_000
QUERIES = {
    "a total": f"select count(*) as n, sum(price) as s from {OF_A}",
    "different values": f"select count(distinct price) as n, count(*) as c from {OF_A}",
    "a total of groups": f"""select count(*) as n, max(s) as s from (
        select bidder, sum(price) as s from {OF_A} group by bidder)""",
    "the first": f"select price from {OF_A} order by price desc, bidder limit 1",
    "compared": f"select b.item, b.price from {B} as b where b.price > (select avg(price) from {OF_A})",
    "compared with the first": f"select price from {B} where price > (select price from {OF_A} order by price limit 1)",
    "totals": f"select (select count(*) from {OF_A}) as n, (select max(price) from {B}) as m",
    "joined, outer": f"select b.item, t.n from {B} as b left join (select count(*) as n from {OF_A}) as t on t.n < b.price",
    "exists": f"select price from {B} where exists (select 1 from {OF_A} having count(*) > 2)",
    "not in": f"select price from {B} where price not in (select price from {OF_A} order by price desc, bidder limit 2)",
}


PIECES = [
    [(0, 1, "a", 5), (1, 1, "c", 5), (2, 3, "a", 6)],
    [(20, 2, "b", 1), (21, 2, "b", 7)],
    [(40, 2, "b", 2)],
    [(60, 1, "b", 9)],
    [(80, 2, "b", 8), (82, 2, "b", 6)],
    [(100, 2, "a", 3), (100, 2, "b", 4), (120, 4, "a", 7), (121, 2, "b", 5)],
]


def outcome(text: str, rows: str | None = None) -> Outcome:
    """What a query over the pieces comes to; `rows`: a query of what it has to be, None: what it gives in batch."""
    at = datetime(2024, 3, 4, 8)
    made = duck.Laboratory()
    put(made)
    made.put("bids", BIDS, [[(at + timedelta(minutes=n), *row) for n, *row in piece] for piece in PIECES])
    plan = plan_query.plan(text, KNOWN, TTL, ())
    batch = whole_query.batch_sql(plan) if rows is None else rows
    found = made.stream(
        batch, generate.generate_program(plan, ttl=TTL), len(PIECES), delay=timedelta(minutes=1)
    )
    made.base.close()
    return found


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, ["a total of groups", "the first"]))
def test_what_has_no_key_is_never_idle(name: str) -> None:
    found = outcome(QUERIES[name])
    assert found.kind == EQUAL, f"{found.kind}: {found.detail}"


def test_rows_meet_a_total_that_was_idle_for_longer_than_they_are_kept() -> None:
    text = f"select b.price, t.n from {B} as b cross join (select count(*) as n from {OF_A}) as t"
    # The total becomes 4 when the rows of the first hour are forgotten: these keep what they met.
    met = ", ".join(f"({price}, 2)" for price in (5, 5, 6, 1, 7, 2))
    meets = ", ".join(f"({price}, 4)" for price in (9, 8, 6, 3, 4, 7, 5))
    found = outcome(text, f"select * from values {met}, {meets} as t(price, n)")
    assert found.kind == EQUAL, f"{found.kind}: {found.detail}"


def test_a_total_of_kept_rows_begins_anew_and_takes_the_place_of_the_old_one() -> None:
    text = f"select price from {B} where price > (select percentile(price, 0.5) from {OF_A})"
    # It is 3, DuckDB's of 3 and 7, for 5 and 6 are forgotten. What it is compared with is there: something always came.
    found = outcome(text, "select * from values (5), (5), (6), (7), (9), (8), (6), (4), (7), (5) as t(price)")
    assert found.kind == EQUAL, f"{found.kind}: {found.detail}"
