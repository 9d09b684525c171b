"""Predicates on the time that goes by."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from tests.planned import tree_of

KNOWN = {"bids": RelationInfo("ts"), "asks": RelationInfo("ts")}
B, A = ("(select /*+ STREAM */ * from bids) as b", "(select /*+ STREAM */ * from asks) as a")
DAY = 86_400_000_000
RECENT = f"(select * from {B} where ts > current_timestamp() - interval '20' minute)"

QUERIES = {
    "groups of groups": f"""select n, count(*) as c from (select item, count(*) as n from {B}
        where ts > current_timestamp() - interval '20' minute and price > 10 group by item) group by n""",
    "rows far ahead": f"""select item, count(*) as n, max(price) as m from {B}
        where ts > current_timestamp() - interval '-600' second group by item""",
    "at the very bound": f"""select item, bidder, count(*) as n from {B}
        where current_timestamp() - interval '600' second <= ts group by item, bidder""",
    "a join of both sides": f"""select b.item, b.price as p, a.price as q from {RECENT} as b join (select * from {A}
        where ts >= current_timestamp() - interval '40' minute) as a on a.item = b.item and a.price < b.price""",
    "a left join": f"""select b.item, b.price as p, a.price as q from {RECENT} as b left join (select * from {A}
        where ts > current_timestamp() - interval '5' minute) as a on a.item = b.item and a.price = b.price""",
    "exists": f"""select b.item, b.bidder from {B} where ts > current_timestamp() - interval '30' minute and price > 3
        and not exists (select 1 from {A} where a.item = b.item and a.price > b.price)""",
    "topn, then groups": f"""select item, sum(price) as s from (select *, row_number() over (partition by item
        order by price desc, ts, bidder) as place from {RECENT} as b) where place <= 3 group by item""",
    "distinct": f"select distinct item, bidder from {B} where ts > current_timestamp() - interval '10' minute",
    "except all": f"""select item from {RECENT} as b except all (select item from {A}
        where ts > current_timestamp() - interval '20' minute)""",
    "beside what stays": f"""select item, price from {RECENT} as b union all
        select item, max(price) from {A} group by item""",
    "distinct values": f"""select n, count(*) as c from (select item, count(distinct bidder) as n, min(price) as m
        from {RECENT} as b group by item) group by n""",
    "beside what waits": f"""select item, price from {RECENT} as b union all
        select item, lag(price) over (partition by item order by ts, price) from {A}
        where ts is not null""",
}
WAITS = "beside what waits"
TTL = {"exists", "beside what stays"}


def ttl_of(name: str) -> int | None:
    return DAY if name in TTL else None


def planned(name: str) -> Plan:
    return tree_of(QUERIES[name], KNOWN, ttl_of(name), ("item",))
