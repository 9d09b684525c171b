"""Joins of rows with the version that was valid at their time."""

from __future__ import annotations

from collections.abc import Mapping

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.windows.expansion import expand_as_of, expand_window
from dbt.adapters.spark_streaming.query.windows.window_arguments import make_window
from tests.planned import tree_of

KNOWN = {"bids": RelationInfo("ts"), "asks": RelationInfo("ts", ("item",)), "asks_again": RelationInfo("ts")}
BIDS = "(select /*+ STREAM */ * from bids) as b"
ASKS = expand_as_of("asks", "`b`.`ts`", "ts", ("item",))
AT_END = expand_as_of("asks", "`b`.`window_time`", "ts", ("item",))
TUMBLED = expand_window("bids", make_window("tumble", "ts", "10 minutes"))
MET = """(select b.ts, b.item, b.bidder as n, c.price as p from {} as b {} join (select /*+ STREAM */ * from asks_again) as c
        on c.item = b.item and c.ts between b.ts - interval 2 minutes and b.ts)"""
BID = "(select /*+ STREAM */ * from bids)"
OWN = expand_as_of("bids", "`b`.`ts`", "ts", ("bidder", "item"))

QUERIES = {
    "left": f"""select b.ts, b.item, b.bidder, b.price as p, a.price as q, a.ts as since
        from {BIDS} left join {ASKS} as a on a.item = b.item""",
    "inner": f"select b.item, b.price as p, a.price as q from {BIDS} join {ASKS} as a on b.item = a.item",
    "stars": f"select b.*, a.* except (item, ts, price), a.price as q from {BIDS} left join {ASKS} as a on a.item = b.item",
    "other conditions": f"""select b.item, b.price as p, a.price as q
        from {BIDS} left join {ASKS} as a on a.item = b.item and a.price < b.price and b.bidder > 1""",
    "a key that may be NULL": f"""select b.ts, b.item, b.price as p, a.price as q
        from {BIDS} left join {ASKS} as a on a.item <=> nullif(b.item, 'a')""",
    "an expression": f"""select b.bidder, a.price as q
        from {BIDS} join {ASKS} as a on a.item = case when b.bidder > 2 then 'a' else b.item end""",
    "where": f"""select b.item, b.price as p, a.price as q from {BIDS} left join {ASKS} as a on a.item = b.item
        where b.price > 20 and (a.price is null or a.price > 10)""",
    "its own versions": f"""select b.ts, b.item, b.bidder, o.price as p
        from {BIDS} left join {OWN} as o on o.item = b.item and o.bidder = b.bidder""",
    "twice": f"""select b.item, b.price as p, a.price as q, o.price as r from {BIDS}
        left join {ASKS} as a on a.item = b.item left join {OWN} as o on o.item = b.item and o.bidder = b.bidder""",
    "grouped": f"""select b.item, count(*) as n, sum(b.price * a.price) as s
        from {BIDS} join {ASKS} as a on a.item = b.item group by b.item""",
    "ranked": f"""select * from (select b.item, b.bidder, b.ts, a.price as q, row_number() over (partition by b.item
        order by a.price desc nulls last, b.ts, b.bidder, b.price) as place
        from {BIDS} left join {ASKS} as a on a.item = b.item) where place <= 2""",
    "over": f"""select item, ts, q, count(*) over (partition by item order by ts range between unbounded preceding
        and current row) as n from (select b.item, b.ts, a.price as q from {BIDS} join {ASKS} as a on a.item = b.item)""",
    "a filtered stream": f"""select b.item, b.price as p, a.price as q
        from (select * from {BIDS} where price > 10) as b left join {ASKS} as a on a.item = b.item""",
    "a union": f"""select b.item, a.price as q from {BIDS} join {ASKS} as a on a.item = b.item
        union all select item, price from {BIDS}""",
    "of a union": f"""select b.n, b.item, a.price as q from (select ts, item, bidder as n from {BIDS}
        union all select ts, item, price from (select /*+ STREAM */ * from asks_again) as c) as b
        left join {ASKS} as a on a.item = b.item""",
    "of an interval join": f"""select b.n, b.p, a.price as q
        from {MET.format(BID, "")} as b left join {ASKS} as a on a.item = b.item""",
    "of an outer interval join": f"""select b.n, b.p, a.price as q
        from {MET.format(BID, "left")} as b join {ASKS} as a on a.item = b.item""",
    "of a union with an interval join": f"""select b.n, b.item, a.price as q from (select ts, item, n from
        {MET.format(BID, "")} union all select ts, item, price from {BID}) as b left join {ASKS} as a on a.item = b.item""",
    "a constant": f"select b.item, a.price as q from {BIDS} left join {ASKS} as a on a.item = 'a'",
    "a field": f"""select b.i, a.price as q from (select ts, struct(bidder as x, item as y) as i from {BIDS}) as b
        left join {ASKS} as a on a.item = b.i.y""",
    "stars in calls": f"""select b.item, struct(a.*) as q from {BIDS} left join {ASKS} as a on a.item = b.item""",
    "a table before": f"""select b.item, d.name, a.price as q
        from {BIDS} join dims as d on d.k = b.item left join {ASKS} as a on a.item = d.k""",
    "a table first": f"""select b.*, d.name, a.price as q
        from dims as d join {BIDS} on d.k = b.item left join {ASKS} as a on a.item = b.item""",
    "a table after": f"""select b.item, d.name, a.price as q
        from {BIDS} left join {ASKS} as a on a.item = b.item left join dims as d on d.k = a.item and d.factor < a.price""",
    "all rows counted": f"""select b.item, count(*) as n, count(a.price) as m
        from {BIDS} left join {ASKS} as a on a.item = b.item group by b.item""",
    "counted next to a subquery": f"""select b.item, count(*) as n, max((select max(factor) from dims)) as m
        from {BIDS} left join {ASKS} as a on a.item = b.item where b.item in (select k from dims) group by b.item""",
    "windows": f"""select b.window_time, b.item, b.n, a.price as q from (select window_start, window_end, window_time, item,
        count(*) as n from {TUMBLED} group by window_start, window_end, window_time, item) as b
        left join {AT_END} as a on a.item = b.item""",
    "ends of windows": f"""select b.window_end, b.item, b.n, a.price as q from (select window_start, window_end, item,
        count(*) as n from {TUMBLED} group by window_start, window_end, item) as b
        left join {AT_END.replace("window_time", "window_end")} as a on a.item = b.item""",
}


def planned(name: str, known: Mapping[str, RelationInfo] = KNOWN) -> Plan:
    return tree_of(QUERIES[name], known, None, ("item", "bidder"))
