"""Queries over whole streams."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.sql.functions import QueryRunner
from tests.planned import plan_of

B = "(select /*+ STREAM */ * from bids)"
A = "(select /*+ STREAM */ * from asks)"
DAY = 86_400_000_000
KNOWN = {"bids": RelationInfo("ts"), "asks": RelationInfo("ts")}

GROUPS = f"select item, bidder, count(*) as n, sum(price) as total, min(price) as least from {B} group by item, bidder"


def first(
    order: str, where: str = "rn <= 2", rank: str = "row_number", of: str = GROUPS, by: str = "item"
) -> str:
    ranked = f"select *, {rank}() over (partition by {by} order by {order}) as rn from ({of}) as g"
    return f"select * from ({ranked}) where {where}"


FIRST = f"(select * from (select *, row_number() over (partition by price order by ts) as rn from {B}) where rn = 1)"
FIRST_GROUPS = f"(select item, bidder, count(*) as n, sum(price) as s from {FIRST} group by item, bidder)"


QUERIES = {
    # Rows that are put out once go into what is computed anew once.
    "groups of groups of first rows": f"""select item, count(*) as bidders, sum(n) as n, max(s) as s from {FIRST_GROUPS}
        group by item""",
    "a join of groups of first rows": f"""select x.item, x.bidder, x.n, y.n as m from {FIRST_GROUPS} as x
        full join (select item, count(distinct bidder) as n from {FIRST} group by item) as y on x.item = y.item""",
    "percentiles of first rows": f"select item, count(*) as n, percentile(price, 0.5) as p from {FIRST} group by item",
    "topn of first rows": f"""select bidder, price from (
        select *, row_number() over (partition by bidder order by price desc) as place from {FIRST}) where place <= 2""",
    "topn of groups of first rows": first("s desc nulls last, bidder", of=f"select * from {FIRST_GROUPS}"),
    "groups of a join in time": f"""select item, count(*) as n, max(at) as at from (
        select b.*, a.ts as at from {B} as b join {A} as a
        on b.price = a.price and a.ts between b.ts - interval 2 minutes and b.ts + interval '5' minute) group by item""",
    "groups": f"""select item, count(*) as n, count(price) as p, sum(price) as s, avg(price) as a, min(ts) as since,
        max_by(bidder, price) as best, round(stddev(price), 6) as d from {B} group by item""",
    "distinct values": f"""select item, count(distinct bidder) as b, count(distinct bidder, price) as bp,
        count(distinct bidder) filter (where price > 40) as high, sum(distinct price) as s from {B} group by item""",
    "no key": f"select count(*) as n, count(distinct item) as items from {B}",
    "having": f"select item, bidder, count(*) as n from {B} group by item, bidder having count(*) between 12 and 18",
    "a key that is computed": f"select date_trunc('hour', ts) as h, price > 50 as up, count(*) as n from {B} group by 1, 2",
    "grouping sets": f"""select item, bidder, grouping_id() as g, count(distinct price) as n
        from {B} group by rollup (item, bidder)""",
    "select distinct": f"select distinct item, bidder from {B} where price > 20",
    "union of streams": f"""select item, count(*) as n, max(price) as most
        from (select item, price from {B} union all select item, price from {A}) group by item""",
    "groups with a table": f"""select t.name, count(*) as n from {B} as b join values ('a', 'x'), ('b', 'y') as t(item, name)
        on b.item = t.item group by t.name""",
    "topn of rows with maps": f"""select item, bidder, m['n'] as m, rn from ({
        first("total desc", rank="rank", of=f"select *, map('n', string(total)) as m from ({GROUPS})")
    })""",
    "topn that improves": first("n desc, item, bidder"),
    "topn that may fall": first("total desc, bidder"),
    "topn of the least": first("total, n desc", "rn <= 3"),
    "rank": first("n desc", rank="rank"),
    "dense rank": first("total % 7", rank="dense_rank"),
    "the second": first("total desc", "rn = 2"),
    "a range": first("n desc, total", "rn between 2 and 3"),
    "topn of a filter": first("total desc", of=f"select * from ({GROUPS}) where n % 3 <> 0"),
    "topn by a value": f"""select bidder, n, rn from (
        select *, row_number() over (partition by n % 2 order by total desc, item) as rn from ({GROUPS}) as g)
        where rn <= 2""",
    "topn without its rank": f"select item, bidder, total from ({first('total desc')})",
    "limit": f"{GROUPS} order by total desc, item limit 4",
    "limit with offset": f"select bidder, count(*) as n from {B} group by bidder order by 2 desc, 1 limit 2 offset 1",
    "qualify by what is listed": f"""select bidder, ts, row_number() over (partition by bidder order by ts) as n from {B}
        qualify row_number() over (partition by bidder order by ts) <= 2""",
    "limit of rows": f"select ts, item, price from {B} order by price desc nulls last, ts limit 5",
    "topn of rows": first("price desc nulls last, ts", of=f"select ts, item, price from {B}"),
    "rank of rows": first("price % 20 desc nulls last", rank="rank", of=f"select ts, item, price from {B}"),
    "first row": first("ts", "rn = 1", of=B, by="bidder"),
    "last row": first("ts desc, price", "rn = 1", of=B, by="bidder"),
    "groups of groups": f"select item, avg(least) as a, count(*) as n from ({GROUPS}) group by item",
    "a join of groups": f"""select x.item, x.n, y.n as m from (select item, count(*) as n from {B} group by item) as x
        left join (select item, count(distinct price) as n from {A} group by item) as y on x.item = y.item""",
    "topn of topn": first(
        "total desc", "rn <= 3", of=f"select item, bidder, total from ({first('total desc')})", by="bidder"
    ),
    "percentiles by cube": f"""select item, bidder, percentile(price, 0.5) as p, grouping_id() as i
        from {B} group by cube (item, bidder)""",
    "percentiles by grouping sets": f"""select item, bidder, percentile(price, 0.5) as p, count(*) as n, grouping_id() as i
        from {B} group by grouping sets ((item, bidder), (item))""",
    "percentiles": f"select item, percentile(price, 0.5) as p from {B} group by item",
    "a join in time": f"""select b.ts, b.item, b.price, a.price as ask from {B} as b join {A} as a
        on b.item = a.item and a.ts between b.ts - interval 2 minutes and b.ts + interval '5' minute""",
    "a left join in time": f"""select b.ts, b.bidder, b.price, a.price as ask from {B} as b left join {A} as a
        on b.item = a.item and b.price > a.price and a.ts >= b.ts and a.ts < b.ts + interval 3 minutes""",
    "a join": f"select b.ts, b.bidder, a.ts as at from {B} as b join {A} as a on b.price = a.price where b.item = 'a'",
    "groups of a join": f"""select b.bidder, count(*) as n, max(a.price) as most from {B} as b, {A} as a
        where b.price = a.price group by b.bidder""",
    "topn of a join": f"""select * from (select b.item, b.ts, a.price, row_number() over (
        partition by b.item order by a.price desc, b.ts, a.ts) as rn from {B} as b join {A} as a on b.price = a.price)
        where rn <= 3""",
}
TTL = {
    "groups of groups of first rows",
    "topn of groups of first rows",
    "groups of a join in time",
    "percentiles",
    "percentiles by cube",
    "percentiles by grouping sets",
    "a join",
    "groups of a join",
    "topn of a join",
    "last row",
    "distinct values",
    "topn that may fall",
}


def planned(name: str, ask: QueryRunner | None = None) -> Plan:
    return plan_of(QUERIES[name], KNOWN, DAY if name in TTL else None, ask=ask)
