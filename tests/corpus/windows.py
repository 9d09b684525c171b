"""Queries over windows, stacked in all ways."""

from __future__ import annotations

from typing import Any

from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.sql.functions import QueryRunner
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of


def window(kind: str, *lengths: str, of: str = "bids", **options: Any) -> str:
    return expansion.expand_window(of, window_arguments.make_window(kind, "ts", *lengths, **options))


TUMBLE, HOP = window("tumble", "10 minutes"), window("hop", "5 minutes", "15 minutes")
CUMULATE = window("cumulate", "10 minutes", "1 hour")
SESSION = window("session", "4 minutes", partition_by=["bidder"])
DYNAMIC = window("dynamic_cumulate", "2 minutes", "4 minutes", partition_by=["bidder"])
BY_ITEM = "select window_start, window_end, item, {} as n from {} group by window_start, window_end, item"


def joined(
    kind: str, other: str, columns: str = "l.window_start, l.window_end, l.item, l.n, r.n as m"
) -> str:
    left = BY_ITEM.format("count(*)", f"(select * from {TUMBLE} where price > 30)")
    right = BY_ITEM.format("count(distinct price)", f"(select * from {other} where price < 60)")
    return f"""select {columns} from ({left}) as l {kind} join ({right}) as r
        on l.window_start = r.window_start and l.window_end = r.window_end and l.item = r.item"""


TWO_STREAMS = window("tumble", "10 minutes", of="asks")
COALESCED = (
    "coalesce(l.window_start, r.window_start) as window_start, coalesce(l.window_end, r.window_end) as window_end, "
    "coalesce(l.item, r.item) as item, l.n, r.n as m"
)
ONE_SIDE = "l.window_start, l.window_end, l.item, l.n"


def top(source: str, partition: str = "item", where: str = "rn <= 3", rank: str = "row_number") -> str:
    return f"""select * from (select *, {rank}() over (
        partition by window_start, window_end, {partition} order by price desc nulls last) as rn from {source})
        where {where}"""


QUERIES = {
    **{
        f"{kind} join of {name}": joined(kind, other, columns)
        for name, other in (("one stream", TUMBLE), ("two streams", TWO_STREAMS))
        for kind, columns in (
            ("inner", ONE_SIDE + ", r.n as m"),
            ("left", ONE_SIDE + ", r.n as m"),
            ("right", "r.window_start, r.window_end, r.item, l.n, r.n as m"),
            ("full", COALESCED),
            ("left semi", ONE_SIDE),
            ("left anti", ONE_SIDE),
        )
    },
    "a join of rows of two streams": f"""select l.window_start, l.window_end, l.item, l.bidder, r.ts
        from {TUMBLE} as l join {TWO_STREAMS} as r
        on l.window_start = r.window_start and l.window_end = r.window_end and l.item = r.item and l.price < r.price""",
    "first row of a window": top(TUMBLE, where="rn = 1").replace("price desc nulls last", "ts"),
    "last row of a cumulate": top(CUMULATE, where="rn = 1").replace("price desc nulls last", "ts desc"),
    "topn of hop rows": top(HOP),
    "topn of cumulate rows with ranks": top(CUMULATE, rank="rank"),
    "topn of session rows": top(SESSION, partition="bidder", rank="dense_rank"),
    "a range of ranks": top(TUMBLE, where="rn between 2 and 4"),
    "qualify": f"""select * from {TUMBLE}
        qualify row_number() over (partition by window_start, window_end, item order by price desc nulls last) <= 2""",
    "topn of an aggregate": f"""select window_end, item, n from (
        select *, rank() over (partition by window_start, window_end order by n desc) as rn
        from ({BY_ITEM.format("sum(price)", CUMULATE)})) where rn < 3""",
    "topn of a join": f"""select * from (
        select *, row_number() over (partition by window_start, window_end order by n desc, m) as rn
        from ({joined("inner", TUMBLE)})) where rn <= 2""",
    "union of windows": f"""{BY_ITEM.format("count(*)", TUMBLE)}
        union all {BY_ITEM.format("count(*)", window("tumble", "1 hour"))}""",
    "windows over windows": f"""with small as (
          select window_start as s, window_time as ts, item, count(distinct bidder) as n from {TUMBLE}
          group by window_start, window_end, window_time, item)
        select window_start, window_end, item, max(n) as most, count(*) as parts
        from {window("tumble", "1 hour", of="small")} group by window_start, window_end, item""",
    "two stacks of windows": f"""with small as (
          select window_time as ts, item, count(*) as n, sum(price) as total from {TUMBLE}
          group by window_start, window_end, window_time, item),
        other as (
          select window_time as ts, item, count(*) as n, sum(price) as total from {window("tumble", "5 minutes", of="asks")}
          group by window_start, window_end, window_time, item)
        select x.window_start, x.window_end, x.item, x.n, y.most from (
          select window_start, window_end, item, sum(n) as n from {window("tumble", "1 hour", of="small")}
          group by window_start, window_end, item) as x
        join (select window_start, window_end, item, max(total) as most from {window("tumble", "1 hour", of="other")}
          group by window_start, window_end, item) as y
        on x.window_start = y.window_start and x.window_end = y.window_end and x.item = y.item""",
    "sessions of windows": f"""with small as (
          select window_time as ts, item, count(*) as n from {window("tumble", "2 minutes")}
          group by window_start, window_end, window_time, item)
        select window_start, window_end, item, sum(n) as n
        from {window("session", "2 minutes", of="small", partition_by=["item"])}
        group by window_start, window_end, item""",
    "percentiles keep rows": BY_ITEM.format("percentile(price, 0.5)", HOP),
    "percentiles of sessions": f"""select window_start, window_end, bidder, percentile(price, 0.5) as p
        from {SESSION} group by window_start, window_end, bidder""",
    "sessions of all rows": f"""select window_start, window_end, count(*) as n
        from {window("session", "30 seconds")} group by window_start, window_end""",
    "sessions of all rows, grouped": f"""select window_start, window_end, item, count(*) as n, count(distinct bidder) as d
        from {window("session", "30 seconds")} group by window_start, window_end, item""",
    "dynamic_cumulate of all rows, grouped": f"""select window_start, window_end, item, count(*) as n,
        count(distinct bidder) as d from {window("dynamic_cumulate", "1 minute", "2 minutes")}
        group by window_start, window_end, item""",
    "sessions by more than their key": f"""select window_start, window_end, bidder, item, count(distinct price) as n
        from {SESSION} group by window_start, window_end, bidder, item""",
    "sessions with a filter above": f"""select window_start, window_end, bidder, count(*) as n
        from {SESSION} where price > 50 group by window_start, window_end, bidder""",
    "sessions of all, by their bounds": f"""select window_start, window_end, count(*) as n, count(distinct item) as d
        from {SESSION} group by window_start, window_end, grouping sets ((bidder), ())""",
    "dynamic_cumulate": f"""select window_start, window_end, bidder, count(*) as n, count(distinct item) as d,
        count(distinct item) filter (where price > 50) as e
        from {DYNAMIC} group by window_start, window_end, bidder having count(*) > 1""",
    "dynamic_cumulate without its key": f"""select window_start, window_end, count(*) as n
        from {DYNAMIC} group by window_start, window_end, item""",
    "dynamic_cumulate by a column called as its key": f"""select window_start, window_end, bidder, count(*) as n,
        count(distinct price) as d from (select window_start, window_end, item as bidder, price from {DYNAMIC})
        group by window_start, window_end, bidder""",
    "dynamic_cumulate by its key, called otherwise": f"""select window_start, window_end, item, count(*) as n,
        count(distinct price) as d from (select window_start, window_end, bidder as item, price from {DYNAMIC})
        group by window_start, window_end, item""",
    "grouping sets of sessions": f"""select window_start, window_end, bidder, item, grouping_id() as g, count(*) as n,
        count(distinct price) as d from {SESSION} group by window_start, window_end, rollup(bidder, item)""",
    "grouping sets of dynamic_cumulate": f"""select window_start, window_end, bidder, item, count(*) as n,
        count(distinct price) filter (where price > 50) as d
        from {DYNAMIC} group by window_start, window_end, bidder, cube(item)""",
    "grouping sets of cumulate": f"""select window_start, window_end, bidder, item, grouping_id() as g, count(*) as n,
        count(distinct price) as d, count(distinct price) filter (where price > 50) as e, sum(distinct price) as s
        from {CUMULATE} group by window_start, window_end, cube(bidder, item)""",
    "grouping sets with a key in common": f"""select window_start, window_end, bidder, item, sum(distinct price) as s,
        count(distinct price, ts) filter (where price > 50) as e
        from {CUMULATE} group by window_start, window_end, item, rollup(bidder)""",
    "grouping sets without a finest": f"""select window_start, window_end, bidder, item, count(distinct price) as d
        from {CUMULATE} group by window_start, window_end, grouping sets ((bidder), (item), ())""",
    "grouping sets of hop": f"""select window_start, window_end, bidder, item, count(*) as n,
        count(distinct price) as d, count(distinct price) filter (where price > 50) as e
        from {HOP} group by window_start, window_end, grouping sets ((item), (bidder, item), ())""",
    "rows with their windows": f"select window_start, window_end, bidder, price from {HOP}",
    "rows with their sessions": f"select window_start, window_end, bidder, price, item from {SESSION}",
}


def planned(name: str, ask: QueryRunner | None = None) -> Plan:
    return plan_of(QUERIES[name], ask=ask)
