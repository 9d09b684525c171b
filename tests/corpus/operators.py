"""Queries put together from any parts."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.plan.plan import Plan
from dbt.adapters.spark_streaming.query.sql.functions import QueryRunner
from dbt.adapters.spark_streaming.query.windows.expansion import expand_window
from dbt.adapters.spark_streaming.query.windows.window_arguments import make_window
from tests.corpus.unwindowed import DAY, FIRST, GROUPS, KNOWN, A, B, first
from tests.corpus.windows import window
from tests.planned import tree_of


def per(kind: str, *lengths: str, of: str = "bids", keys: str = "item") -> str:
    return f"""select window_start, window_end, {keys}, count(*) as n, sum(price) as total
        from {window(kind, *lengths, of=of)} group by window_start, window_end, {keys}"""


FIVE, TEN = per("tumble", "5 minutes"), per("tumble", "10 minutes")
ITEMS = f"select item, count(*) as n, max(price) as most, count(distinct bidder) as d from {B} group by item"

FIRST_ROWS = f"""select item, bidder, ts, price from (
    select *, row_number() over (partition by bidder order by ts, price, item) as place from {B}) where place = 1"""

LAST_ROWS = f"""(select * from (select *, row_number() over (partition by bidder, price order by ts desc, item) as rn
    from {B}) where rn = 1)"""
MATCHED = f"(select b.ts, b.item, b.bidder, a.price from {B} as b join {A} as a on a.item = b.item and a.price = b.price)"
MINUTES = f"(select date_trunc('minute', ts) as ts, item, count(*) as n from {B} group by date_trunc('minute', ts), item)"


JOINED = f"""select x.item, x.n, y.m from ({GROUPS}) as x left join
    (select item, count(*) as m from {A} group by item) as y on x.item = y.item"""
FOUND = f"""(select b.ts, b.item, b.price from {B} as b where b.price < 30 and exists (select 1 from {A} as a
    where a.item = b.item and a.price > b.price and a.ts between b.ts and b.ts + interval '2' minute))"""
AROUND = "a.item = b.item and a.ts between b.ts - interval '40' second and b.ts + interval '1' minute"
"""Whether an ask is near a bid in time."""
NEAR = f"(select b.ts, b.item, b.price, a.price as ask from {B} as b left join {A} as a on {AROUND} and a.price < b.price)"
EITHER = f"""(select coalesce(b.ts, a.ts) as ts, coalesce(b.item, a.item) as item, b.price, a.price as ask from {B} as b
    full join {A} as a on {AROUND} and a.price < b.price where coalesce(b.price, a.price) > 10)"""
ALONE = (
    f"(select b.ts, b.item, b.price from {B} as b left anti join {A} as a on {AROUND} and a.price > b.price)"
)
SAME_COLUMNS = f"""(select a.price as q, b.*, b.item as item from {B} as b
    join {A} as a on a.item = b.item and a.price = b.price)"""
NEAR_OF_FIVE = f"""select window_end, item, count(*) as n, count(ask) as asks, sum(price - coalesce(ask, 0)) as more
    from {window("tumble", "5 minutes", of=NEAR)} group by window_start, window_end, item"""
LAST_MOMENTS = f"(select window_end - interval 1 microsecond as ts, * from ({NEAR_OF_FIVE}))"
SMALL = """(select window_time as ts, item, count(*) as n, sum(price) as total from {}
    group by window_start, window_end, window_time, item)"""
STACK = """(select window_start, window_end, item, sum(n) as n, max(total) as most from {}
    group by window_start, window_end, item)"""


def stack(of: str) -> str:
    """Windows over windows of a stream."""
    small = SMALL.format(window("tumble", "5 minutes", of=of))
    return STACK.format(window("tumble", "20 minutes", of=small))


NAMES = "(select * from values ('a', 'x', 1), ('a', 'y', 2), ('b', 'x', 3), ('zz', 'n', 4) as t (item, name, factor))"

QUERIES = {
    "groups of windows": f"""select item, sum(n) as n, max(total) as most, count(distinct n) as d from ({FIVE})
        group by item""",
    "topn of windows": first("n desc, total, window_end", of=FIVE),
    "limit of windows": f"select window_end, item, n from ({FIVE}) order by n desc, window_end, item limit 5",
    "last window": first("window_end desc", "rn = 1", of=FIVE),
    "distinct of windows": f"select distinct item, n from ({FIVE})",
    "lag over windows": f"""select item, window_end, n, n - lag(n) over (partition by item order by window_end) as more,
        sum(n) over (partition by item order by window_end) as so_far from ({FIVE})""",
    "windows of two lengths": f"""select a.window_end, a.item, a.n, b.n as m from ({FIVE}) as a
        left join ({TEN}) as b on a.window_end = b.window_end and a.item = b.item""",
    "windows of two kinds": f"""select a.window_end, a.item, a.n, b.n as m from ({TEN}) as a
        join ({per("cumulate", "5 minutes", "20 minutes")}) as b on a.window_end = b.window_end and a.item = b.item""",
    "q7": f"""select b.bidder, b.price, b.ts, w.window_end from {B} as b join (
        select max(price) as most, window_start, window_end from {window("tumble", "10 minutes")}
        group by window_start, window_end) as w
        on b.price = w.most and b.ts between w.window_end - interval '10' minute and w.window_end""",
    "windows with groups": f"""select w.window_end, w.item, w.n, g.n as of_all from ({FIVE}) as w
        join ({ITEMS}) as g on w.item = g.item where w.n * 20 > g.n""",
    "left join of windows and groups": f"""select g.item, g.n, w.window_end, w.total from ({ITEMS}) as g
        left join (select * from ({FIVE}) where n > 3) as w on w.item = g.item""",
    "groups of groups": f"""select item, avg(least) as a, count(*) as n, max(total) as most, min(n) as fewest,
        count(distinct n) as d from ({GROUPS}) group by item""",
    "groups of groups without keys": f"select count(*) as n, max(total) as t, avg(least) as a from ({GROUPS}) where n > 14",
    "groups of groups of groups": f"""select d, count(*) as items, sum(n) as n from (select item, count(distinct n) as d,
        count(*) as n from ({GROUPS}) group by item) group by d""",
    "percentile of groups": f"select item, percentile(total, 0.5) as p from ({GROUPS}) group by item",
    "collected groups": f"select item, to_json(sort_array(collect_list(total))) as l from ({GROUPS}) group by item",
    "lists in order": f"""select l, count(*) as n from (select item, listagg(string(bidder), ',') within group
        (order by n % 3, bidder) as l from ({GROUPS}) group by item) group by l""",
    "groups of topn": f"""select bidder, count(*) as n, sum(total) as total from ({first("total desc, bidder")})
        group by bidder""",
    "groups of topn that improves": f"""select bidder, count(*) as n, sum(rn) as places
        from ({first("n desc, item, bidder")}) group by bidder""",
    "groups of topn by a value": f"""select rn, count(*) as n, max(total) as most, sum(bidder) as b from (
        select rn, bidder, total from (select total, bidder, row_number() over (partition by n % 2 order by total, item)
        as rn from ({GROUPS}) as g where n <> 3) where rn <= 3) group by rn""",
    "topn of groups and groups": f"""select t.rn, t.bidder, t.total, i.n from (select rn, item, bidder, total from (
        select dense_rank() over (partition by item order by total % 5) as rn, item, bidder, total from ({GROUPS}) as g)
        where rn <= 2) as t join ({ITEMS}) as i on i.item = t.item""",
    "groups of first rows": f"select item, count(*) as n, sum(price) as s from ({FIRST_ROWS}) group by item",
    "topn of first rows": first("price desc nulls last, bidder", of=FIRST_ROWS),
    "topn of a join of groups": first(
        "n desc, item, bidder",
        of=f"select x.item, x.bidder, x.n, y.most from ({GROUPS}) as x join ({ITEMS}) as y on x.item = y.item",
    ),
    "rank of rank": f"""select * from (select *, dense_rank() over (order by total desc) as place
        from ({first("n desc", "rn <= 3", rank="rank")})) where place <= 4""",
    "full join of groups": f"""select coalesce(x.item, y.item) as item, x.n, y.n as m
        from (select item, count(*) as n from {B} where price > 50 group by item) as x
        full join (select item, count(*) as n from {A} where price > 60 group by item) as y on x.item = y.item""",
    "semi join of groups": f"""select * from ({ITEMS}) as g left semi join
        (select item, count(*) as m from {A} group by item having count(*) > 20) as a on a.item = g.item""",
    "anti join of rows": f"""select b.item, b.bidder, b.ts from {B} as b left anti join {A} as a
        on a.item = b.item and a.price = b.price""",
    "left join of rows": f"""select b.item, b.ts, a.ts as at from {B} as b left join {A} as a on a.price = b.price
        where b.item = 'a'""",
    "exists": f"""select item, bidder, n from ({GROUPS}) as g where exists
        (select 1 from {A} as a where a.item = g.item and a.price > g.total / 8)""",
    "two columns in a subquery": f"""select item, bidder, n from ({GROUPS}) as g where (g.item, g.bidder) in
        (select c.item, c.bidder from {B} as c where c.price > 40)""",
    "not exists": f"""select item, bidder, n from ({GROUPS}) as g where not exists
        (select 1 from {A} as a where a.item = g.item and a.price > g.total / 8)""",
    "in": f"select ts, item, bidder from {B} as b where b.bidder in (select bidder from {B} as c where price > 95)",
    "not in": f"""select item, n from ({ITEMS}) where n not in
        (select m from (select item, count(*) as m from {A} group by item))""",
    "scalar": f"select item, n from ({ITEMS}) as g where n > (select avg(n) from ({ITEMS}) as h)",
    "scalar in the select list": f"select item, n, (select max(price) from {A}) as most from ({ITEMS}) as g",
    "scalar beside a count": f"""select upper(item) as i, count(*) * 100 / (select count(*) from {A}) as share from {B}
        group by 1 having share > (select min(price) from {A} where price < 10) and max(price) > 1""",
    "scalar beside a count of windows": f"""select window_end, item, count(*) as n, (select max(price) from {A}) as most
        from {window("tumble", "5 minutes")} group by window_start, window_end, item""",
    "groups with a key that others have": f"""select item, count(*) as n from {B} group by item
        having item in (select a.item from {A} as a where a.price > 98)""",
    "union of groups": f"""select item, n from ({ITEMS}) union all select item, m from
        (select item, count(*) as m from {A} group by item)""",
    "union of all": f"""select item, n from ({ITEMS}) union select item, n from ({FIVE})""",
    "intersect": f"select item, bidder from {B} where price > 30 intersect select item, bidder from {B} where price < 40",
    "intersect all": f"select item from {B} intersect all select item from {A}",
    "except": f"select item, bidder from {B} except select item, bidder from {B} where price > 80",
    "except all": f"select item from {B} except all select item from {A} where price > 20",
    "distinct of groups": f"select distinct n % 5 as r from ({GROUPS})",
    "groups of a union": f"""select item, sum(n) as n from (select item, n from ({ITEMS}) union all
        select item, n from ({FIVE})) group by item""",
    "a cte twice": f"""with g as ({GROUPS}) select a.item, a.bidder, a.n, b.most from g as a join
        (select item, max(n) as most from g group by item) as b on a.item = b.item and a.n = b.most""",
    "rollup without its id": f"""select item, bidder, sum(n) as n from ({FIVE.replace("item", "item, bidder")})
        group by rollup (item, bidder)""",
    "lag in order of time": f"""select item, ts, price, bidder, lag(price) over (partition by item order by ts, price,
        bidder) as before, lag(price, 3, 0) over (partition by item order by ts, price, bidder) as third from {B}""",
    "sum of an hour": f"""select *, sum(price) over (partition by item order by ts range between interval 7 minutes
        preceding and current row) as s, count(*) over (partition by item order by ts) as n from {B} where price > 20""",
    "over of over": f"""select item, window_end, n, d, sum(d) over (partition by item order by window_end rows 2 preceding)
        as s from (select item, window_end, n, n - lag(n) over (partition by item order by window_end) as d
        from ({FIVE}))""",
    "groups of lags": f"""select item, count(*) as n, max(price - before) as most from (select item, price,
        lag(price) over (partition by item order by ts, price, bidder) as before from {B}) group by item""",
    "running sum of rows": f"""select item, ts, price, sum(price) over (partition by item order by ts, price, bidder
        rows between unbounded preceding and current row) as s from {B}""",
    "running totals": f"""select item, ts, price, bidder, sum(price) over (partition by item order by ts) as s,
        count(*) over (partition by item order by ts) as n, count(price, bidder) over (partition by item
        order by ts, price, bidder rows unbounded preceding) as given,
        min(price) over (partition by item order by ts) as least,
        max(case when price > 20 then bidder end) over (partition by item order by ts) as most,
        round(100 / avg(price + 1) over (partition by item order by ts), 9) as mean from {B}
        where price > 5 or price is null""",
    "running totals of decimals": f"""select item, ts, bidder, sum(cast(price / 3 as decimal(9, 2))) over (order by ts) as s,
        cast(round(avg(cast(price / 3 as decimal(9, 2))) over (order by ts), 4) as double) as a,
        sum(cast(price as double)) over (order by ts) as d,
        sum(price) over (order by ts, bidder, item, price rows between unbounded preceding and current row) as r,
        sum(case when price > 50 then price end) over (order by ts) as many from {B}""",
    "running totals beside all columns": f"""select *, count(*) over (partition by item order by ts) as place,
        sum(price) over (partition by item order by ts) as s from {B}""",
    "running totals of windows": f"""select *, sum(n) over (partition by item order by window_end) as so_far,
        max(total) over (partition by item order by window_end) as most from ({FIVE})""",
    "groups of running totals": f"""select item, max(n) as n, sum(s) as s from (select item, count(*) over (partition by item
        order by ts) as n, sum(price) over (partition by item order by ts) as s from {B}) group by item""",
    "join of three": f"""select x.item as named, x.*, y.m, z.* except (item)
        from (select item, count(*) as n from {B} group by item) as x
        join (select item, count(*) as m from {A} group by item) as y on x.item = y.item
        join (select item, count(distinct bidder) as k from {B} group by item) as z on z.item = y.item""",
    "decimals of groups": f"""select item, sum(d) as d, avg(d) as a, sum(distinct d) as s, avg(n) as n, string(sum(w)) as w,
        string(avg(w)) as v, round(sum(half), 6) as h from (select item, bidder, count(*) as n, avg(price) / 2 as half,
        sum(cast(price / 8 as decimal(10, 3))) as d,
        if(count(*) < 9, double('NaN'), if(count(*) < 12, double('Infinity'), count(*))) as w
        from {B} group by item, bidder) group by item""",
    "stddev of groups": f"""select item, round(stddev(total), 6) as d, max_by(bidder, total) as b
        from ({GROUPS}) group by item""",
    "topn of topn of windows": f"""select * from (select *, row_number() over (order by n desc, item, window_end) as place
        from ({first("n desc, window_end", of=FIVE)})) where place <= 3""",
    "sessions in groups": f"""select item, count(*) as sessions, max(n) as longest from (
        select window_start, window_end, item, count(*) as n from
        {expand_window("bids", make_window("session", "ts", "1 minute", partition_by=["item"]))}
        group by window_start, window_end, item) group by item""",
    "windows of first rows": per("tumble", "5 minutes", of=FIRST),
    "windows of last rows": per("tumble", "5 minutes", of=LAST_ROWS),
    "growing windows of a join": f"""select *, n / sum(n) over (partition by window_end) as share
        from ({per("cumulate", "5 minutes", "20 minutes", of=MATCHED)})""",
    "windows of groups by minute": f"""select window_end, max(n) as most, percentile(n, 0.5) as p
        from {window("hop", "5 minutes", "10 minutes", of=MINUTES)} group by window_start, window_end""",
    "sessions of last rows": f"""select window_start, window_end, item, count(*) as n from
        {expand_window(LAST_ROWS, make_window("session", "ts", "1 minute", partition_by=["item"]))}
        group by window_start, window_end, item""",
    "topn of windows of a join": f"""select * from (select *, row_number() over (partition by window_end order by n desc,
        item) as rn from ({per("tumble", "10 minutes", of=MATCHED)})) where rn <= 2""",
    "groups of names of groups": f"""select d.name, sum(g.n) as n, max(g.most) as most from ({GROUPS}) as x
        join ({ITEMS}) as g on g.item = x.item left join {NAMES} as d on d.item = g.item group by d.name""",
    "a full join of rows, and names": f"""select b.item, b.ts, a.ts as at, d.name from {B} as b
        full join {A} as a on a.price = b.price and a.item = b.item left join {NAMES} as d on d.item = a.item
        where coalesce(b.item, 'b') = 'b'""",
    "what exists with a name": f"""select b.item, b.bidder, b.ts from {B} as b where exists (
        select 1 from {A} as a join {NAMES} as d on d.item = a.item where a.item = b.item and d.factor > 1)""",
    "groups of what is in rows with names": f"""select b.item, count(*) as n from {B} as b where b.item not in (
        select a.item from {A} as a left join {NAMES} as d on d.item = a.item where d.factor > 1) group by b.item""",
    "names of what exists": f"""select b.item, b.ts, d.factor * 2 as f from {B} as b join {NAMES} as d on d.item = b.item
        where exists (select 1 from {A} as a where a.item = b.item and a.price = b.price)""",
    "topn of names": f"""select * from (select d.name, x.bidder, x.n, row_number() over (partition by d.name
        order by x.n desc, x.bidder, x.item) as rn from ({GROUPS}) as x semi join ({ITEMS}) as g on g.item = x.item
        join {NAMES} as d on d.item = x.item and d.factor < x.n) where rn <= 2""",
    "steps with new rows": f"""select w.window_end, i, sum(x.n) as n, percentile(price, 0.5) as p,
        count(distinct bidder) as d from (select window_start, window_end, upper(item) as i, item, price, bidder from
        {expand_window(LAST_ROWS, make_window("cumulate", "ts", "1 minute", "20 minutes", emit="on_change"))}
        ) as w left join (select item, 1 as n from {NAMES}) as x on x.item = w.item
        group by w.window_start, w.window_end, i""",
    "different rows at steps with new ones": f"""select distinct window_start, window_end, item from
        {window("cumulate", "1 minute", "20 minutes", emit="on_change")} where price < 20""",
    "steps with new rows on a clock": f"""select item, sum(n) as n from (select window_end, item, max_by(bidder, price) as b,
        collect_set(price) as s, count(*) as n from
        {window("cumulate", "30 minutes", "1 day", emit="on_change", time_zone="America/New_York")}
        group by window_start, window_end, item) group by item""",
    "over, beside a percentile of groups": f"""select item, percentile(n, 0.5) as p, sum(count(*)) over () as of_all,
        count(*) * 100 / sum(count(*)) over () as share from ({JOINED}) as j group by item""",
    "percentiles, the first two": f"""select item, percentile(n, 0.5) as p from ({JOINED}) as j group by item
        having count(*) > 1 order by p, item limit 2""",
    "over, beside groups of what came together": f"""select w.window_end, sum(w.n) as n, sum(sum(w.n)) over () as of_all
        from (select a.window_end, a.n from ({FIVE}) as a join ({TEN}) as b on a.window_end = b.window_end) as w
        group by w.window_end""",
    "full join in time": f"""select b.item, b.ts, a.ts as at, a.price from {B} as b full join {A} as a
        on a.item = b.item and a.ts between b.ts - interval '40' second and b.ts + interval '1' minute""",
    "left join by a difference of times": f"""select b.item, b.ts, a.price from {B} as b left join {A} as a
        on a.item = b.item and b.ts - a.ts between interval 0 minutes and interval 2 minutes""",
    "exists in time": per("tumble", "5 minutes", of=FOUND),
    "not exists in time": f"""select b.item, b.bidder, b.ts from {B} as b where b.price > 5 and not exists (
        select 1 from {A} as a where a.item = b.item and a.ts > b.ts + interval 30 seconds
        and a.ts < b.ts + interval 1 minute)""",
    "right join in time": f"""select b.item, b.ts, a.ts as at, a.price from {B} as b right join {A} as a on {AROUND}
        where coalesce(b.price, 50) > 20""",
    "windows of a left join in time": NEAR_OF_FIVE,
    "windows of a full join in time": f"""select window_start, window_end, count(*) as n, count(price) as bids,
        count(ask) as asks, percentile(ask, 0.5) as p from {window("hop", "5 minutes", "10 minutes", of=EITHER)}
        group by window_start, window_end""",
    "windows of what is alone in time": per("cumulate", "5 minutes", "20 minutes", of=ALONE),
    "topn of windows of a left join in time": f"""select * from (select *, row_number() over (partition by window_end
        order by n desc, item) as rn from ({NEAR_OF_FIVE})) where rn <= 2""",
    "lag over windows of a left join in time": f"""select *, lag(n) over (partition by item order by window_end) as before
        from ({NEAR_OF_FIVE})""",
    "windows of windows of a left join in time": f"""select window_end, sum(n) as n, count(distinct item) as items
        from {window("tumble", "10 minutes", of=LAST_MOMENTS)} group by window_start, window_end""",
    "windows of two left joins in time": f"""select l.window_end, l.item, l.n, r.n as m from ({NEAR_OF_FIVE}) as l
        full join ({per("tumble", "10 minutes", of=ALONE)}) as r on l.window_end = r.window_end and l.item = r.item""",
    "windows of a union with a join in time": per(
        "tumble",
        "5 minutes",
        of=f"(select ts, item, price from {A} union all select ts, item, price from {NEAR})",
    ),
    "rows of windows of a left join in time": f"""select bidders, window_end, n from (select window_start, window_end,
        count(distinct price) as bidders, count(*) as n from {window("tumble", "5 minutes", of=NEAR)}
        group by window_start, window_end) where n > 1""",
    "topn of two relations with the same columns": f"""select n, place from (select *, b.price as n, row_number() over (
        partition by b.bidder order by b.price desc, a.ts, b.ts, b.item) as place from {B} as b join {A} as a
        on a.item = b.item and a.price = b.price) where place <= 2""",
    "percentile over groups with the same columns": f"""select m, percentile(o, 0.5) as p from (select *, x.n as o,
        y.n % 5 as m from ({GROUPS}) as x join ({ITEMS}) as y using (item)) group by m""",
    "windows of two relations with the same columns": f"""select window_end, count(*) as n, percentile(q, 0.5) as p from
        {window("tumble", "5 minutes", of=SAME_COLUMNS)} group by window_start, window_end""",
    "groups of a join of windows": f"""select item, sum(n) as n, max(total) as most from (select x.item, x.n, y.total
        from ({FIVE}) as x join ({per("tumble", "5 minutes", of="asks")}) as y
        on x.window_start = y.window_start and x.window_end = y.window_end and x.item = y.item) group by item""",
    "groups of two stacks of windows": f"""select item, min(n) as n, max(most) as most from (select x.item, x.n, y.most
        from {stack("bids")} as x
        join {stack("asks")} as y
        on x.window_start = y.window_start and x.window_end = y.window_end and x.item = y.item) group by item""",
    "rows of windows of last rows": f"select bidder, window_end, price from {window('tumble', '5 minutes', of=LAST_ROWS)}",
}
WITHOUT_TTL = {
    "groups of windows", "topn of windows", "limit of windows", "last window", "windows of two lengths",
    "windows of two kinds",
    "groups of groups", "groups of groups without keys", "groups of topn", "groups of topn that improves",
    "groups of topn by a value", "topn of groups and groups", "topn of first rows", "topn of a join of groups",
    "rank of rank", "full join of groups", "semi join of groups", "not in", "a cte twice", "rollup without its id",
    "join of three", "full join in time", "not exists in time", "decimals of groups", "stddev of groups",
    "sessions in groups", "exists in time", "right join in time", "windows of a left join in time",
    "windows of a full join in time", "windows of what is alone in time", "topn of windows of a left join in time",
    "windows of two left joins in time", "windows of a union with a join in time",
    "rows of windows of a left join in time",
    "running sum of rows", "running totals", "running totals of decimals",
    "running totals beside all columns", "running totals of windows",
    "groups of running totals",
}  # fmt: skip
"""The others keep rows, or values, for which only a time bounds the state."""
TTL = QUERIES.keys() - WITHOUT_TTL
AT_CLOSE = {
    "windows of two relations with the same columns": 0,
    "windows of first rows": 0, "windows of last rows": 0, "growing windows of a join": 0, "windows of groups by minute": 0,
    "sessions of last rows": 0, "topn of windows of a join": 0, "exists in time": 120,
    "windows of a left join in time": 60, "windows of what is alone in time": 60,
}  # fmt: skip
"""Their rows come so many seconds after the ends of windows: when what they are made of can't change any more."""
DOMAINS = ("item", "bidder")


def planned(name: str, ask: QueryRunner | None = None) -> Plan:
    return tree_of(QUERIES[name], KNOWN, 30 * DAY if name in TTL else None, DOMAINS, ask)
