"""A source whose rows replace each other, put together with anything."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.planner import plan_query
from tests.corpus.unwindowed import DAY, KNOWN, A, B
from tests.corpus.windows import window

UPSERTS = {**KNOWN, "bids": RelationInfo("ts", key=("bidder", "item"))}
LAST = """(select * except (n) from (select *, row_number() over (partition by bidder, item
    order by ts desc, struct(ts, bidder, item, price) desc) as n from bids) where n = 1)"""
GROUPS = f"(select item, count(*) as n, sum(price) as total from {A} group by item)"
QUERIES = {
    "joined with groups": f"select b.item, b.price, a.n from {B} as b join {GROUPS} as a on a.item = b.item",
    "joined with a stream": f"""select b.item, b.bidder, b.price, a.ts as at from {B} as b join {A} as a
        on a.item = b.item and a.price = b.price""",
    "joined with itself": f"""select x.item, x.bidder, y.price from {B} as x left join {B} as y
        on x.item = y.item and x.price < y.price""",
    "a union": f"select item, price from {B} union all select item, price from {A}",
    "except": f"select item, price from {B} except select item, price from {A}",
    "groups of different rows": f"select item, count(*) as n from (select distinct item, price from {B}) group by item",
    "groups of groups": f"""select item, max(total) as most from (select item, bidder % 2 as odd, sum(price) as total
        from {B} group by item, bidder % 2) group by item""",
    "percentiles": f"select item, percentile(price, 0.5) as p from {B} group by item",
    "windows": f"""select window_end, item, count(*) as n, sum(price) as s from {window("tumble", "10 minutes", of=B)}
        group by window_start, window_end, item""",
    "groups of topn": f"""select bidder, count(*) as n from (select * from (select *, row_number() over (partition by item
        order by price desc, bidder) as rn from {B}) where rn <= 2) group by bidder""",
    "exists": f"""select b.item, b.price from {B} as b where exists (select 1 from {A} as a
        where a.item = b.item and a.price > b.price)""",
    "lag": f"select item, bidder, lag(price) over (partition by item order by bidder) as before from {B}",
}
BOUNDED = {
    "joined with groups",
    "groups of groups",
    "windows",
    "groups of topn",
    "joined with itself",
    "percentiles",
}
"""Those that need no time to live: the keys' values are few."""


def ttl_of(name: str) -> int | None:
    return None if name in BOUNDED else 30 * DAY


def planned(name: str) -> Plan:
    return plan_query.plan(QUERIES[name], UPSERTS, ttl_of(name), ("item", "bidder"))
