"""A source whose rows replace each other, put together with anything, on DuckDB: as a stream in cuts it has the rows of its
last rows."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from tests.corpus.unwindowed import A, B
from tests.corpus.upsert_sources import LAST, QUERIES, UPSERTS, planned, ttl_of
from tests.corpus.windows import window
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.two_streams import ASKS, BIDS, put
from tests.thorough import mostly_thorough

IDLE = {
    "groups": f"select item, count(*) as n, sum(price) as s from {B} group by item",
    "different rows": f"select distinct item, price from {B}",
    "groups of groups": f"""select item, max(s) as s from (select item, bidder, sum(price) as s
        from {B} group by item, bidder) group by item""",
    "a join": f"""select b.item, b.price, g.n from {B} as b
        left join (select item, count(*) as n from {B} group by item) as g on g.item = b.item""",
    "windows": f"""select window_end, count(*) as n, sum(price) as s from {window("tumble", "10 minutes", of=B)}
        group by window_start, window_end""",
    "topn": f"""select item, count(*) as n from (select *, row_number() over (partition by item
        order by price desc, bidder) as rn from {B}) where rn <= 2 group by item""",
}


TTL = 30 * 60_000_000


def check_last_rows(made: duck.Laboratory, text: str) -> None:
    """Passes a query that has the rows of the last rows, in six cuts and with a time to live of half an hour."""
    plan = plan_query.plan(text, UPSERTS, TTL, ("item", "bidder"))
    batch = re.sub(r"\bbids\b", LAST, whole_query.batch_sql(plan))
    outcome = made.stream(batch, generate.generate_program(plan, ttl=TTL), 6, delay=timedelta(minutes=1))
    made.base.close()
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


@pytest.mark.parametrize("name", mostly_thorough(IDLE, ["topn"]))
def test_rows_that_stay_are_not_forgotten(name: str) -> None:
    """A time to live is for rows that only come: what is idle in a table is there, and is taken away when it goes."""
    at = datetime(2024, 3, 4, 8)
    pieces = [
        [(0, 1, "a", 5), (1, 1, "c", 5), (2, 3, "a", 6)],
        [(300, 2, "b", 1)],
        [(310, 2, "b", 2)],
        [(600, 1, "a", 7)],
        [(601, 1, "a", 9), (602, 3, "a", 1)],
        [(1200, 2, "b", 3)],
    ]
    made = duck.Laboratory()
    put(made)
    made.put("bids", BIDS, [[(at + timedelta(minutes=n), *row) for n, *row in piece] for piece in pieces])
    check_last_rows(made, IDLE[name])


ASKED = {
    "exists": f"""select a.item, a.price from {A} as a
        where exists (select 1 from {B} as b where b.item = a.item)""",
    "except": f"select item, price from {A} except select item, price from {B}",
    "intersect": f"select item, price from {A} intersect select item, price from {B}",
    "not in": f"select item, price from {A} where item not in (select item from {B})",
    "a last value": f"""select a.price, (select max(b.price) from {B} as b where b.item = a.item and b.price < 50) as m
        from {A} as a""",
    "percentiles": f"""select a.price, (select percentile(b.price, 0.5) from {B} as b where b.item = a.item) as m
        from {A} as a""",
    "an outer join": f"""select a.item, a.price, b.price as bid from {A} as a left join {B} as b on b.item = a.item""",
}


@pytest.mark.parametrize("name", mostly_thorough(ASKED, ["exists"]))
def test_a_stream_meets_rows_that_were_idle_for_longer_than_its_own_are_kept(name: str) -> None:
    at = datetime(2024, 3, 4, 8)
    made = duck.Laboratory()
    made.put("bids", BIDS, [[(at, 1, "a", 5), (at, 1, "c", 6)], [(at + timedelta(hours=9), 1, "d", 7)]])
    asks = [(1, "b", 1), (2, "c", 2), (200, "a", 3), (201, "b", 4), (400, "c", 6), (420, "a", 6)]
    made.put("asks", ASKS, [[(at + timedelta(minutes=n), *row)] for n, *row in asks])
    check_last_rows(made, ASKED[name])


ASKS_FOR = {
    "exists": f"select b.item, b.price from {B} as b where exists (select 1 from {A} as a where a.item = b.item)",
    "a count of exists": f"""select count(*) as n from {B} as b
        where exists (select 1 from {A} as a where a.item = b.item)""",
    "a count of not exists": f"""select count(*) as n from {B} as b
        where item = 'a' and not exists (select 1 from {A} as a where a.item = b.item)""",
    "counts of an outer join": f"""select count(*) as n, count(ap) as m from (
        select a.price as ap from {B} as b left join {A} as a on a.item = b.item where b.item = 'a')""",
    "a full join": f"""select b.price, a.price as ap from {B} as b full join {A} as a on a.item = b.item
        where coalesce(a.item, b.item) = 'a'""",
    "intersect": f"select item from {B} intersect select item from {A}",
    "intersect all": f"select item from {A} where item = 'a' intersect all select item from {B}",
    "a count of except": f"""select count(*) as n from (
        select item from {B} where item = 'a' except select item from {A})""",
    "joined once it has met": f"""select e.item, a.price from (
        select item from {B} as b where exists (select 1 from {A} as a where a.item = b.item)) as e
        left join {A} as a on a.item = e.item""",
    "an intersection, joined": f"""select x.item, a.price from (select item from {B} intersect select item from {A}) as x
        join {A} as a on a.item = x.item""",
    "asked for twice": f"""select item, price from (
        select item, price from {B} as b where exists (select 1 from {A} as a where a.item = b.item)) as e
        where exists (select 1 from {A} as c where c.item = e.item and c.price = 3)""",
    "groups of an outer join": f"""select item, count(*) as n, count(ap) as m from (
        select b.item, a.price as ap from {B} as b left join {A} as a on a.item = b.item) group by item""",
    "a scalar subquery": f"select b.item, (select max(price) from {A} as a where a.item = b.item) as m from {B} as b",
}


@pytest.mark.parametrize("ends", mostly_thorough(["there", "changed"], ["changed"]))
@pytest.mark.parametrize(
    "name",
    mostly_thorough(ASKS_FOR, ["intersect"]),
)
def test_rows_that_stay_keep_what_they_have_met(name: str, ends: str) -> None:
    """What rows of a table have met is kept while they are there, however long nothing came to it."""
    at = datetime(2024, 3, 4, 8)
    last = {"there": [(200, 9, "z", 2)], "changed": [(200, 1, "a", 50)]}[ends]
    bids = [[(0, 1, "a", 5)], [(100, 9, "z", 1)], [(150, 9, "z", 1)], last, [(300, 8, "z", 3)], []]
    asks = [
        [(0, "a", 1)],
        [(100, "y", 2)],
        [(150, "y", 2)],
        [(200, "y", 3)],
        [(300, "a", 3)],
        [(310, "z", 9)],
    ]
    made = duck.Laboratory()
    for stream, columns, pieces in (("bids", BIDS, bids), ("asks", ASKS, asks)):
        made.put(
            stream, columns, [[(at + timedelta(minutes=n), *row) for n, *row in each] for each in pieces]
        )
    check_last_rows(made, ASKS_FOR[name])


@pytest.mark.parametrize("pieces", mostly_thorough([1, 2], [2]))
@pytest.mark.parametrize("prices", [(7, 3), (3, 7)])
def test_of_two_rows_of_one_time_the_greater_is_there(pieces: int, prices: tuple[int, int]) -> None:
    at = datetime(2024, 3, 4, 8)
    made = duck.Laboratory()
    put(made)
    rows = [[(at, 1, "a", price)] for price in prices]
    made.put("bids", BIDS, rows if pieces == 2 else [[*rows[0], *rows[1]]])
    plan = plan_query.plan(
        f"select item, price from {B} union all select item, price from {B}",
        UPSERTS,
        None,
        ("item", "bidder"),
    )
    batch = "select 'a' as item, 7L as price union all select 'a', 7L"
    outcome = made.stream(batch, generate.generate_program(plan), 6, delay=timedelta(minutes=1))
    made.base.close()
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, ["joined with groups", "windows"]))
@pytest.mark.parametrize("cuts", [5])
def test_a_stream_has_the_rows_of_the_last_rows(name: str, cuts: int) -> None:
    made = duck.Laboratory()
    put(made)
    plan = planned(name)
    batch = re.sub(r"\bbids\b", LAST, whole_query.batch_sql(plan))
    outcome = made.stream(
        batch, generate.generate_program(plan, ttl=ttl_of(name)), cuts, delay=timedelta(hours=1)
    )
    made.base.close()
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"
