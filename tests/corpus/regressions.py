"""Queries that once gave other rows as a stream than in batch, as the random test found them, made small."""

from __future__ import annotations

from typing import Any

from tests.differential.tables import STREAMS
from tests.differential.tree import (
    TIME,
    UPSTREAM,
    Call,
    Case,
    Column,
    Expr,
    Item,
    Model,
    Select,
    Stream,
    Written,
)

TUMBLE = Call("tumble", "ts", ("10 minutes",))
CURVE = Call("cumulate", "ts", ("10 minutes", "1 hour"))
HOP = Call("hop", "ts", ("5 minutes", "15 minutes"))


def stream(name: str) -> str:
    """A stream in FROM."""
    return f"(select /*+ STREAM */ * from {name})"


def _case(text: str, names: str, cuts: int = 3, **config: object) -> Case:
    kinds = {column.name: column.kind for columns in STREAMS.values() for column in columns}
    kinds |= {"window_start": TIME, "window_end": TIME}
    columns = tuple(Column(name, kinds.get(name, "bigint")) for name in names.split())
    return Case(Model(Written(text, columns), tuple(config.items())), cuts=cuts)


def of_windows(name: str) -> str:
    """Groups of a stream's windows."""
    return f"""(select window_start, window_end, k, count(*) as n, max(u) as u from {TUMBLE.expand(name)}
      group by window_start, window_end, k)"""


FIRST = f"""(select * from (
    select *, row_number() over (partition by v order by ts) as rn from {stream("clicks")}) where rn = 1)"""
LAST = f"""(select * from (
    select *, row_number() over (partition by k, u order by ts desc, v) as rn from {stream("clicks")}) where rn = 1)"""
BY_K = f"(select k, u, count(*) as n, sum(w) as total from {FIRST} group by k, u)"
LONG = "1000 days"
TEXTS = f"""(select cast(u as string) as s, v, k from {stream("orders")}
  union all select concat('0', cast(u as string)) as s, v, k from {stream("orders")} where u > 0)"""
OF_TIMES = f"""select window_start as ws, window_time as wt, window_end - interval 1 hour as earlier, k, count(*) as n,
  min(ts) as mt from {TUMBLE.expand("clicks")} group by window_start, window_end, window_time, k"""
OF_TABLE = f"""(select c.k, c.v, {{}} from {stream("clicks")} c join (
  select k, timestamp '2024-03-04 07:00:00' + interval 1 minute * factor as ts from dims) d on c.k = d.k)"""


_COUNTS = (Column("ts", TIME), Column("n", "bigint"))
EXAMPLES = {
    # All rows are looked at in each step, and only those of the last one were kept.
    "rows of a model that changes, multiplied": Case(
        Model(
            Select(
                Stream(UPSTREAM, _COUNTS),
                (Item(Expr.of(_COUNTS[1]), "n"), Item(Expr("part", "bigint", frozenset({"part"})), "part")),
                explode=Item(Expr("array(n, 1)", "array", frozenset({"n"})), "part"),
            )
        ),
        Model(
            Written(f"select ts, count(*) as n from {stream('clicks')} group by ts", _COUNTS),
            (("changelog", True), ("constant_domains", ("ts",))),
        ),
        cuts=3,
    ),
    "groups of groups of first rows": _case(
        f"select k, count(*) as n, max(n) as most from {BY_K} group by k", "k n most", 4, state_ttl=LONG
    ),
    "a join of groups of first rows": _case(
        f"""select x.k, x.u, x.n, y.most from {BY_K} as x
        full join (select k, count(distinct u) as most from {FIRST} group by k) as y on x.k = y.k""",
        "k u n most",
        4,
        state_ttl=LONG,
    ),
    "different values of queries inside": _case(
        f"""select distinct k, (select t.v + (select 1)) as w, (select u where v > 50) as u
          from {stream("clicks")} as t""",
        "k w u",
        state_ttl=LONG,
    ),
    "queries without FROM in brackets, and of one number": _case(
        f"""select t.k, l.a, x.b, count(*) as n from {stream("clicks")} as t join ((select 1 as a)) as l on l.a < t.u
          cross join (select * from ((select 5 as b)) as y) as x where exists (((select 1 where t.v > 2)))
          group by t.k, l.a, x.b, (select 2)""",
        "k a b n",
        state_ttl=LONG,
    ),
    "what is asked in a key that is put out": _case(
        f"""select u + (select v where v > 1) as e, exists (select 1 where v > 50) as big,
          (select max(o.v) from {stream("orders")} as o where o.k = t.k) as m, count(*) as n from {stream("clicks")} as t
          group by u + (select v where v > 1), exists (select 1 where v > 50),
          (select max(o.v) from {stream("orders")} as o where o.k = t.k)""",
        "e big m n",
        state_ttl=LONG,
    ),
    "columns that don't say whose they are": _case(
        f"""select k, count(*) as n, sum(ov) as total from {stream("clicks")}
          join (select k as ok, v as ov from {stream("orders")}) on k = ok and w > 1 and ov > 0 group by k""",
        "k n total",
        state_ttl=LONG,
    ),
    "rows that queries inside are asked for by different columns": _case(
        f"""select k, u, v from {stream("clicks")} as t
          where exists (select 1 from (select k as ok, v as ov from {stream("orders")}) where ok = k and ov <> v)
          and not exists (select 1 from (select k as lk, v as lv from {stream("loose")}) where lv = u)""",
        "k u v",
        state_ttl=LONG,
    ),
    "rows of the keys of groups": _case(
        f"""select k, sum(v) as total from {stream("clicks")} as t
          where k in (select k from {stream("orders")} group by k having count(*) > 3) group by k""",
        "k total",
        4,
        state_ttl=LONG,
    ),
    "a join of rows that have the least of a join": _case(
        f"""select c.k, c.v, l.u from {stream("clicks")} as c join {stream("orders")} as l on l.k = c.k and l.u = c.u
          where c.v <= (select min(o.v) from {stream("orders")} as o join {stream("loose")} as x on x.k = o.k and x.g
            where o.k = c.k)""",
        "k v u",
        state_ttl=LONG,
    ),
    "rows above the least of all that another stream has": _case(
        f"""select k, v from {stream("clicks")} as t where v > (select min(o.v) from {stream("orders")} as o)
          and exists (select 1 from {stream("loose")} as l where l.k = t.k and l.v < t.v)""",
        "k v",
        state_ttl=LONG,
    ),
    "queries in a query inside": _case(
        f"""select k, u from {stream("clicks")} as t where u in (
          select o.u from {stream("orders")} as o where o.k in (select l.k from {stream("loose")} as l where l.g)
          and o.v >= (select min(x.v) from {stream("loose")} as x where x.k = o.k))""",
        "k u",
        state_ttl=LONG,
    ),
    "the first groups, which are forgotten one day": _case(
        f"select k, sum(v) as total from {stream('clicks')} as t group by k order by total desc limit 3",
        "k total",
        4,
        state_ttl=LONG,
    ),
    "the first rows of a UNION": _case(
        f"select k, v from {stream('clicks')} union all select k, u from {stream('orders')} order by v desc, 1 limit 5",
        "k v",
    ),
    "the first rows beside OVER": _case(
        f"""select k, u, sum(v) - max(sum(v)) over (partition by k) as v from {stream("clicks")} as t group by k, u, day
          order by v desc, k, day limit 7""",
        "k u v",
        4,
        state_ttl=LONG,
    ),
    "the first rows by a column that both sides of a join have": _case(
        f"""select c.k, c.v, o.u from {stream("clicks")} as c join {stream("orders")} as o on c.k = o.k and c.u = o.u
          order by v desc, k, 3 limit 5""",
        "k v u",
        state_ttl=LONG,
    ),
    "the first rows by the second of all columns": _case(
        f"select * from (select k, count(*) as n from {stream('clicks')} as t group by k) as g order by 2 desc, k limit 2",
        "k n",
        constant_domains=("k",),
    ),
    "aggregates of what equals a row": _case(
        f"""select t.k, t.u, (select count(*) from {stream("orders")} as o where o.k = t.k and o.v > 2) as n,
          (select max(o.v) - min(o.v) from {stream("orders")} as o where o.k = t.k and o.u = t.u) as v
          from {stream("clicks")} as t where t.v > 1""",
        "k u n v",
        state_ttl=LONG,
    ),
    "an average of doubles of what equals a row": _case(
        f"""select * from (select k, v, f from {stream("clicks")}) as t
          where f > (select 0.5 * avg(o.f) from {stream("orders")} as o where o.k = t.k)""",
        "k v f",
        4,
        state_ttl=LONG,
    ),
    "groups that are asked for in HAVING and beside them": _case(
        f"""select t.k, count(*) as n, (select max(o.v) from {stream("orders")} as o where o.k = t.k) as v
          from {stream("clicks")} as t group by t.k
          having exists (select 1 from {stream("loose")} as l where l.k = t.k and l.v > 2)""",
        "k n v",
        4,
        state_ttl=LONG,
    ),
    "groups that a table is asked for": _case(
        f"""select t.k, count(*) as n, (select max(d.factor) from dims as d where d.k = t.k) as v
          from {stream("clicks")} as t group by t.k
          having t.k in (select k from dims) and count(*) > (select min(factor) from dims)""",
        "k n v",
        4,
        constant_domains=("k",),
    ),
    "rows of a stream that is asked for, which a table is asked for": _case(
        f"""select t.k, t.v from {stream("clicks")} as t where exists (select 1 from {stream("orders")} as o
          where o.k = t.k and o.u in (select u from levels) and o.v > 2)""",
        "k v",
        state_ttl=LONG,
    ),
    "the first rows of what equals a row": _case(
        f"""select t.k, t.v, (select o.v from {stream("orders")} as o where o.k = t.k and o.v > 1
            order by o.ts desc, o.v, o.u limit 1) as u
          from {stream("clicks")} as t where t.u in (select o.u from {stream("orders")} as o where o.k = t.k
            order by o.v desc, o.ts, o.u limit 2)""",
        "k v u",
        4,
        state_ttl=LONG,
    ),
    "a name of the select list that a group's column might have": _case(
        f"""select e.k, e.v as count, count + 1 as u, (select count(*) from {stream("orders")} as o where o.k = e.k) as n
          from {stream("clicks")} as e""",
        "k count u n",
        state_ttl=LONG,
    ),
    "a name of the select list that a needed group's column might have": _case(
        f"""select e.u, e.v as max_v, max_v * 2 as v from {stream("clicks")} as e
          where e.v >= (select max(o.v) from {stream("orders")} as o where o.k = e.k)""",
        "u max_v v",
        state_ttl=LONG,
    ),
    "the first rows by the number of an item called as its own column": _case(
        f"select -v as v, k, u, ts from {stream('clicks')} order by 1 desc, 2, 3, 4 limit 5", "v k u ts"
    ),
    "the first rows by all items, one called as its own column": _case(
        f"select -v as v, k, u, ts from {stream('clicks')} order by all desc limit 5", "v k u ts"
    ),
    "the first groups by the numbers of items that swap names": _case(
        f"""select u as v, v as u, count(*) as n from {stream("clicks")} as clicks group by clicks.u, clicks.v
          order by 1 desc, 2, 3 limit 3""",
        "v u n",
        state_ttl=LONG,
    ),
    "the first groups by the number of an aggregate called as what it is of": _case(
        f"select k, max(v) as v from {stream('clicks')} group by k order by 2 desc, 1 limit 3",
        "k v",
        constant_domains=("k",),
    ),
    "the first rows of those that QUALIFY leaves": _case(
        f"""select k, u, v, ts from {stream("clicks")} qualify row_number() over (partition by k order by v, ts, u) <= 2
          order by u, k, v, ts limit 3""",
        "k u v ts",
        constant_domains=("k",),
    ),
    "an average of what equals a field of a row": _case(
        f"""select a.k, a.v from {stream("odd")} as a
          where a.v > (select avg(o.v) from {stream("orders")} as o where o.u = a.rec.a)""",
        "k v",
        state_ttl=LONG,
    ),
    "rows of a join that a field of one of its sides is asked for": _case(
        f"""select a.k, c.v from {stream("odd")} as a join {stream("clicks")} as c on a.k = c.k
          where exists (select 1 from {stream("orders")} as o where o.u = rec.a)""",
        "k v",
        state_ttl=LONG,
    ),
    "groups that a field of a row is compared with": _case(
        f"""select e.k, e.v from {stream("odd")} as e
          where e.v in (select max(o.v) from {stream("orders")} as o group by o.u having o.u = e.rec.a)""",
        "k v",
        state_ttl=LONG,
    ),
    "groups of a stream by its own name, which a query inside reads, too": _case(
        f"""select clicks.k, count(*) as n from {stream("clicks")} as clicks group by clicks.k
          having count(*) > (select max(c2.v) - 90 from {stream("clicks")} as c2 where c2.k = clicks.k)""",
        "k n",
        state_ttl=LONG,
    ),
    "a sum over columns of the row around it": _case(
        f"""select k, v, w from {stream("clicks")} as e
          where 0 < (select sum(o.v + w) from {stream("orders")} as o where o.u = e.u)""",
        "k v w",
        state_ttl=LONG,
    ),
    "a count where the row around it says so": _case(
        f"""select k, v from {stream("clicks")} as e lateral view explode(array(1, 5, 20)) t as x
          where e.v > (select count(*) from {stream("orders")} as o where x > 4)""",
        "k v",
        state_ttl=LONG,
    ),
    "the first groups, which are forgotten, with several rows of a table": _case(
        f"""select g.k, n, d.name from (
          select k, count(*) as n from {stream("clicks")} group by k order by n desc, k limit 3) as g
          join dims as d on d.k = g.k""",
        "k n name",
        state_ttl=LONG,
    ),
    # DuckDB takes what USING joins, Spark asks which is meant.
    "what USING joins beside an average of what equals a row": _case(
        f"""select k, a.v, b.u from {stream("clicks")} as a join (select k, u from {stream("orders")}) as b using (k)
          where a.v > (select avg(o.v) from {stream("orders")} as o where o.k = a.k)""",
        "k v u",
        state_ttl=LONG,
    ),
    # '1' and '01' both equal 1; each was a partition of its own.
    "a LEFT JOIN of numbers with texts": _case(
        f"select t.k, t.u, l.v from {stream('clicks')} as t left join {TEXTS} as l on l.s = t.u",
        "k u v",
        state_ttl=LONG,
    ),
    "a count of texts that equal a number": _case(
        f"select k, u, (select count(*) from {TEXTS} as l where l.s = t.u) as n from {stream('clicks')} as t",
        "k u n",
        state_ttl=LONG,
    ),
    "texts that USING joins with numbers": _case(
        f"""select k, v, n from {stream("clicks")} as t left join (
          select s as u, count(*) as n from {TEXTS} as l group by s) as l using (u)""",
        "k v n",
        state_ttl=LONG,
    ),
    "an aggregate of what equals a row, which is asked for": _case(
        f"""select k, u from {stream("clicks")} as t
          where v in (select max(o.v) from {stream("orders")} as o where o.k = t.k)""",
        "k u",
        state_ttl=LONG,
    ),
    "a table that is asked for beside an average, without names": _case(
        f"""select k, v, (select max(name) from (select k as dk, name from dims) as d where dk = k) as name
          from {stream("clicks")} as t
          where v > (select avg(ov) from (select k as ok, v as ov from {stream("orders")}) as o where ok = k)
          and exists (select 1 from (select k as dk, factor from dims) as d where dk = k and factor = 1)""",
        "k v name",
        state_ttl=LONG,
    ),
    "the first rows of those that QUALIFY leaves, by other columns": _case(
        f"""select k, v from {stream("orders")} qualify row_number() over (partition by k order by v, ts, u) <= 3
          order by v desc, ts, u limit 2""",
        "k v",
        constant_domains=("k",),
    ),
    "different rows of those that QUALIFY leaves": _case(
        f"select distinct k, v from {stream('clicks')} qualify row_number() over (partition by k order by ts, u) <= 9",
        "k v",
        state_ttl=LONG,
    ),
    "rows that there are first ones for, in brackets": _case(
        f"""select k, v from {stream("clicks")} as e
          where exists ((select o.v from {stream("orders")} as o where o.k = e.k and o.v > 7 order by o.v limit 1))""",
        "k v",
        state_ttl=LONG,
    ),
    "the first rows of what equals a row that is called as they are": _case(
        f"""select limited.u, limited.v from {stream("clicks")} as limited where limited.u in (
          select o.v from {stream("orders")} as o where o.u = limited.v order by o.ts, o.v limit 1)""",
        "u v",
        state_ttl=LONG,
    ),
    "texts that equal a sum of two relations' numbers": _case(
        f"""select t.k, (select count(*) from {TEXTS} as l where l.s = t.u + o.u) as n
          from {stream("clicks")} as t join {stream("orders")} as o on t.k = o.k""",
        "k n",
        state_ttl=LONG,
    ),
    # Rows that no column tells apart, though they are groups.
    "a grouping set that stands there twice": _case(
        f"select g, count(distinct f, v) as n from {stream('clicks')} as t group by grouping sets ((g), (g))",
        "g n",
        2,
        state_ttl=LONG,
    ),
    "subtotals beside groups whose key is NULL": _case(
        f"select g, f, median(v) as n from {stream('clicks')} as t group by rollup (g, f)",
        "g f n",
        state_ttl=LONG,
    ),
    "subtotals that say what they are": _case(
        f"select g, f, median(v) as n, grouping_id() as i from {stream('clicks')} as t group by rollup (g, f)",
        "g f n i",
        state_ttl=LONG,
    ),
    "groups whose key isn't selected": _case(
        f"select median(m) as n from (select g, k, max(v) as m from {stream('clicks')} as t group by g, k) as t group by g",
        "n",
        state_ttl=LONG,
    ),
    "groups whose key is selected in part": _case(
        f"select v % 2 as h, median(u) as n from {stream('clicks')} as t group by v", "h n", state_ttl=LONG
    ),
    "distinct rows of groups": _case(
        f"select distinct v % 2 as h, median(u) as n from {stream('clicks')} as t group by v",
        "h n",
        state_ttl=LONG,
    ),
    "by the window of a relation that has no row": _case(
        f"""select y.window_end, count(*) as n from {of_windows("clicks")} as x left join {of_windows("orders")} as y
          on x.window_start = y.window_start and x.window_end = y.window_end and x.k = y.k group by y.window_end""",
        "window_end n",
    ),
    "a ranking of groups beside a table": _case(
        f"""select * from (select *, row_number() over (partition by name order by n desc, k) as rn from (
          select g.k, g.n, d.name from (select k, count(*) as n from {stream("clicks")} as t group by k) as g
          join dims as d on g.k = d.k)) where rn <= 1""",
        "k n name rn",
        state_ttl=LONG,
    ),
    # The one within was left as it was, and asked of each micro-batch alone.
    "QUALIFY over QUALIFY": _case(
        f"""select k, n from (
          select k, count(*) as n from (select k, v, u from {stream("clicks")}
            qualify row_number() over (partition by k, v order by u) <= 2) group by k)
        qualify row_number() over (order by n, k) <= 2""",
        "k n",
        state_ttl=LONG,
    ),
    "QUALIFY over QUALIFY in windows": _case(
        f"""select window_start, window_end, k, n from (
          select window_start, window_end, k, count(*) as n from (select window_start, window_end, k, u
            from {TUMBLE.expand("clicks")}
            qualify row_number() over (partition by window_start, window_end, k order by u) <= 2) group by all)
        qualify row_number() over (partition by window_start, window_end order by n, k) <= 2""",
        "window_start window_end k n",
    ),
    "columns in the place of rows": _case(
        f"""select * from (select k, count(*) as n, count(v) as m from {stream("clicks")} as t group by k)
          unpivot (val for name in (n, m))""",
        "k name val",
        state_ttl=LONG,
    ),
    "a ranking by a column that isn't the one of its name": _case(
        f"""select * from (select * except (u), u % 2 as u, row_number() over (partition by u order by v, ts) as rn
          from (select v, u, ts from {stream("clicks")} as t)) where rn <= 2""",
        "v ts u rn",
        state_ttl=LONG,
    ),
    "columns that WITH names": _case(
        f"""with g(n, k) as (select k, count(*) as n from {stream("clicks")} as t group by k) select n, k from g""",
        "n k",
        state_ttl=LONG,
    ),
    "values of groups that change, with state_ttl": _case(
        f"""select v, min(f) as f, count(distinct total) as n from (
          select l.v, l.total, r.f
          from (select u as v, count(distinct z, v) as total from {stream("clicks")} group by u) as l
          join {stream("clicks")} as r on l.v = r.u) group by v""",
        "v f n",
        6,
        state_ttl=LONG,
    ),
    "values of all groups that change, with state_ttl": _case(
        f"""select min(f) as f, max(total) filter (where u > 1) as n from (
          select l.u, l.total, r.f from (select u, count(distinct z, v) as total from {stream("clicks")} group by u) as l
          join {stream("clicks")} as r on l.u = r.u)""",
        "f n",
        6,
        state_ttl=LONG,
    ),
    "one ranking read with two bounds": _case(
        f"""with r as (select k, u, v, ts, row_number() over (partition by k order by v, ts, u) as rn
          from {stream("clicks")})
        select k, count(*) as n, sum(v) as s
        from (select k, v from r where rn = 1 union all select k, v from r where rn <= 3) group by k""",
        "k n s",
        state_ttl=LONG,
    ),
    "rankings with two bounds, joined": _case(
        f"""select a.k, a.v, b.v as m from (
          select k, v from (select k, v, row_number() over (partition by k order by v, ts, u) as rn
            from {stream("clicks")}) where rn = 1) as a
        join (
          select k, v from (select k, v, row_number() over (partition by k order by v, ts, u) as rn
            from {stream("clicks")}) where rn <= 3) as b on a.k = b.k""",
        "k v m",
        state_ttl=LONG,
    ),
    "IN whose query names its own columns without alias": _case(
        f"""select a.k, a.v from {stream("clicks")} as a
        where a.k in (select k from {stream("orders")} as o where o.u = v)""",
        "k v",
        6,
        state_ttl=LONG,
    ),
    "EXISTS whose query names its own columns without alias": _case(
        f"""select a.k, a.v from {stream("clicks")} as a
        where exists (select 1 from {stream("orders")} as b where b.k = a.k and b.u = v)""",
        "k v",
        6,
        state_ttl=LONG,
    ),
    "LEFT JOIN and an equality in WHERE": _case(
        f"""select a.k, a.u, b.u as u2, b.v from {stream("clicks")} as a
        left join {stream("orders")} as b on a.k = b.k where coalesce(b.u, 1) = a.u""",
        "k u u2 v",
        6,
        state_ttl=LONG,
    ),
    "LEFT JOIN and an equality of NULLs in WHERE": _case(
        f"""select a.k, a.u, b.u as u2, b.v from {stream("clicks")} as a
        left join {stream("orders")} as b on a.k = b.k where a.u <=> b.u""",
        "k u u2 v",
        6,
        state_ttl=LONG,
    ),
    "LEFT JOINs, the second on columns of the first": _case(
        f"""select a.k, a.u, b.d, c.v from {stream("clicks")} as a
        left join {stream("orders")} as b on a.k = b.k and a.u = coalesce(b.u, 1) and b.v = 7
        left join {stream("clicks")} as c on a.k = c.k and coalesce(b.u, 1) = c.u and c.v = 7""",
        "k u d v",
        6,
        state_ttl=LONG,
    ),
    "a window's key beside a table that repeats its rows": _case(
        f"""select w.window_end, w.k, w.name, w.factor from (
          select x.window_end, x.k, x.u, d.name, d.factor from (
            select window_start, window_end, k, count(*) as n, max(u) as u from {TUMBLE.expand("clicks")}
            group by window_start, window_end, k) as x join dims as d on x.k = d.k
          where x.window_end <= timestamp '2024-03-04 08:40:00') as w
        left semi join (select u, count(*) as total from {stream("clicks")} group by u having count(*) > 20) as g
        on w.factor = g.u""",
        "window_end k name factor",
        6,
        state_ttl=LONG,
    ),
    "a key beside LATERAL VIEW under OVER": _case(
        f"""select k, total, e, count(*) over (partition by total) as n
        from (select k, sum(v) as total from {stream("clicks")} group by k) as t
        lateral view explode(array(1, 1, 2)) as e""",
        "k total e n",
        6,
        state_ttl=LONG,
    ),
    "DISTINCT over a key and rows made of it": _case(
        f"""select distinct a.v, b.u, explode(array(1, 1)) as e
        from (select v, count(*) as total from {stream("clicks")} group by v) as a
        join (select u, count(*) as n from {stream("clicks")} group by u) as b on a.v = b.u""",
        "v u e",
        6,
        state_ttl=LONG,
    ),
    "a window over two streams: the watermark is the slower one's": _case(
        f"""with both as (
          select ts, k from {stream("clicks")} union all select ts, k from {stream("loose")}
        )
        select window_start, window_end, count(*) as n
        from {HOP.expand("both")} group by window_start, window_end""",
        "window_start window_end n",
    ),
    # Columns of one name, of which one stands in a subquery without its relation.
    "sums of two columns of one name": _case(
        f"""with prices as (select k, factor as v from dims), sales as (select k, u, v from {stream("clicks")})
        select s.u, sum(s.v) as sold, sum(p.v) as cost from sales s join prices p on s.k = p.k group by s.u""",
        "u sold cost",
        state_ttl=LONG,
    ),
    "group keys of one name": _case(
        f"""select a.k, d.k as dk, count(*) as n from (select k, v, u from {stream("clicks")}) a
        join (select k, factor from dims) d on a.u = d.factor group by a.k, d.k""",
        "k dk n",
        state_ttl=LONG,
    ),
    "group keys of one name in windows": _case(
        f"""select a.window_start, a.window_end, a.k, d.k as dk, sum(a.v) as n, count(*) filter (where d.k = 'a') as m
        from (select window_start, window_end, k, v, u from {TUMBLE.expand("clicks")}) a
        join (select k, factor from dims) d on a.u = d.factor group by a.window_start, a.window_end, a.k, d.k""",
        "window_start window_end k dk n m",
    ),
    "a group key of USING beside that of one side": _case(
        f"""select k, d.k as dk, count(*) as n from {stream("clicks")} c left join dims d using (k)
        group by k, d.k""",
        "k dk n",
        state_ttl=LONG,
    ),
    # A filter on a column that is called like another relation's rank.
    "two rankings of windows of one name": _case(
        f"""with r as (select window_start, window_end, k, v,
          row_number() over (partition by window_start, window_end, k order by ts, u, v) as rn
          from {TUMBLE.expand("clicks")})
        select a.window_end, a.k, a.v, b.v as v2 from r a join r b on a.k = b.k
        and a.window_start = b.window_start and a.window_end = b.window_end where a.rn = 1 and b.rn = 2""",
        "window_end k v v2",
    ),
    "two rankings of one name": _case(
        f"""select a.k, a.u, b.v, b.rn
        from (select k, u, v, ts, row_number() over (partition by k order by ts, u, v) as rn from {stream("clicks")}) a
        join (select k, u, v, ts, row_number() over (partition by k order by ts desc, u, v) as rn from {stream("clicks")}) b
        on a.k = b.k where a.rn = 1 and b.rn <= 3""",
        "k u v rn",
        state_ttl=LONG,
    ),
    "a ranking beside a group's column of its name": _case(
        f"""select a.k, a.u, a.rn, b.rn as least
        from (select k, u, v, ts, row_number() over (partition by k order by ts, u, v) as rn from {stream("clicks")}) a
        join (select k, min(u) as rn from {stream("clicks")} group by k) b on a.k = b.k where b.rn <= 2""",
        "k u rn least",
        state_ttl=LONG,
    ),
    "one ranking read twice": _case(
        f"""with r as (select k, u, v, row_number() over (partition by k order by ts, u, v) as rn from {stream("clicks")})
        select a.k, a.u, b.v, b.rn from r a join r b on a.k = b.k where a.rn = 1 and b.rn <= 3""",
        "k u v rn",
        state_ttl=LONG,
    ),
    "a ranking of groups in a join": _case(
        f"""select a.k, a.u, a.n, b.u as v from
        (select k, u, n, row_number() over (partition by k order by n desc, u) as rn
          from (select k, u, count(*) as n from {stream("clicks")} group by k, u)) a
        join (select k, u, n, row_number() over (partition by k order by n, u) as rn
          from (select k, u, count(*) as n from {stream("clicks")} group by k, u)) b
        on a.k = b.k where a.rn <= 3 and b.rn = 1""",
        "k u n v",
        state_ttl=LONG,
    ),
    "the first of distinct rows": _case(
        f"select count(*) as n, sum(u) as s from (select distinct u from {stream('clicks')} order by u desc limit 3)",
        "n s",
        state_ttl=LONG,
    ),
    "the first distinct rows of groups": _case(
        f"""select count(*) as n, sum(c) as s from (
          select distinct count(*) as c from {stream("clicks")} group by u, g order by count(*) limit 3)""",
        "n s",
        state_ttl=LONG,
    ),
    "the first groups": _case(
        f"""select count(*) as n, sum(c) as s from (
          select u, count(*) as c from {stream("clicks")} group by u order by sum(v) desc, u limit 3)""",
        "n s",
        state_ttl=LONG,
    ),
    "a count of all rows": _case(f"select count(*) as n from {stream('clicks')} t", "n"),
    "a count of all rows of a union": _case(
        f"select count(*) as n from (select k from {stream('clicks')} union all select k from {stream('orders')}) t",
        "n",
    ),
    "a count of all pairs": _case(
        f"""select count(*) as n from {stream("clicks")} a join {stream("orders")} b
        on a.k = b.k and b.ts between a.ts and a.ts + interval 10 minutes""",
        "n",
    ),
    "a count of all pairs of a LEFT JOIN": _case(
        f"select count(*) as n from {stream('clicks')} a left join {stream('orders')} b on a.k = b.k",
        "n",
        state_ttl=LONG,
    ),
    "a count of first rows": _case(f"select count(*) as n from {FIRST}", "n", state_ttl=LONG),
    "a count of no rows": _case(
        f"select count(v) as n, max(u) as m from {stream('clicks')} t where v > 1000", "n m"
    ),
    "a count of no rows, with state_ttl": _case(
        f"select count(v) as n, max(u) as m from {stream('clicks')} t where v > 1000", "n m", state_ttl=LONG
    ),
    "a count of no first rows": _case(
        f"select count(v) as n, max(u) as m from {FIRST} t where v > 1000", "n m", constant_domains=("v",)
    ),
    "what is computed from a count of no rows": _case(
        f"select n + 1 as n from (select count(v) as n from {stream('clicks')} t where v > 1000)", "n"
    ),
    "counts of no rows, side by side": _case(
        f"""select count(v) as n from {stream("orders")} t where v > 1000
        union all select count(distinct v) as n from {stream("orders")} t where v > 10000""",
        "n",
    ),
    "a join with a count that had no rows at first": _case(
        f"""select n, count(*) as c from (
          select a.k, b.n from (select k, count(*) as c from {stream("clicks")} group by k) a
          join (select count(*) as n from {stream("orders")} t where ts > timestamp '2024-03-04 09:00:00') b
          on a.c > b.n % 2) group by n""",
        "n c",
        6,
        state_ttl=LONG,
    ),
    "groups of LATERAL VIEW over groups": _case(
        f"""select z1, sum(n) as t from (select k, count(*) as n from {stream("clicks")} group by k) a
        lateral view explode(array(1, 2, 3)) x as z1 where z1 > 1 group by z1""",
        "z1 t",
        constant_domains=("k", "z1"),
    ),
    "groups of LATERAL VIEW over a join": _case(
        f"""select x.z1, count(*) as n from {stream("clicks")} a join {stream("orders")} b on a.k = b.k and a.u = b.u
        lateral view explode(array(1, 2, b.v)) x as z1 where z1 > 1 group by x.z1""",
        "z1 n",
        state_ttl=LONG,
    ),
    "a random column of WITH that is read twice": _case(
        f"""with r as (select *, uuid() as id from {stream("clicks")})
        select a.k, b.v from r a join r b on a.id = b.id and a.ts = b.ts""",
        "k v",
        state_ttl=LONG,
    ),
    "a random column of WITH that is read twice, in windows": _case(
        f"""with r as (select ts, k, uuid() as id from {stream("clicks")})
        select a.window_start, a.window_end, a.n from
        (select window_start, window_end, id, count(*) as n from {TUMBLE.expand("r")}
          group by window_start, window_end, id) a
        join (select window_start, window_end, id, max(k) as k from {TUMBLE.expand("r")}
          group by window_start, window_end, id) b
        on a.window_start = b.window_start and a.window_end = b.window_end and a.id = b.id""",
        "window_start window_end n",
    ),
    "a column that is called like one of the windows": _case(
        f"""select window_start, window_end, max(window_time) as m
        from (select window_start, window_end, u as window_time from {HOP.expand("clicks")})
        group by window_start, window_end""",
        "window_start window_end m",
    ),
    "LEFT JOIN with USING, bounded in WHERE": _case(
        f"""select a.ts, a.u, b.u as u2 from {stream("clicks")} a left join {stream("orders")} b using (k)
        where b.ts between a.ts and a.ts + interval 1 hour""",
        "ts u u2",
    ),
    "ORDER BY ALL with LIMIT": _case(
        f"select k, v, ts from {stream('clicks')} a order by all limit 3", "k v ts", state_ttl=LONG
    ),
    "the first rows, by their star": _case(
        f"select * from (select k, v from {stream('clicks')}) order by v, k limit 5", "k v"
    ),
    "a group key that a literal's name hides": _case(
        f"select 'all' as k, count(*) as n from {stream('clicks')} t group by k", "k n", state_ttl=LONG
    ),
    "a group key that a literal's name hides in a subquery": _case(
        f"select 'all' as k, count(*) as n from (select k, u from {stream('clicks')}) t group by k",
        "k n",
        state_ttl=LONG,
    ),
    "a literal as group key": _case(
        f"select 'all' as which, count(*) as n from (select k, u from {stream('clicks')}) t group by which",
        "which n",
        state_ttl=LONG,
    ),
    "a stream in the condition of a join": _case(
        f"""select a.k, count(*) as n from {stream("clicks")} as a
        join dims as b on a.k = b.k and exists (select 1 from {stream("orders")} as o where o.k = a.k and o.u = 3)
        group by a.k""",
        "k n",
        state_ttl=LONG,
    ),
    "a stream in LATERAL": _case(
        f"""select a.k, a.v, b.m from {stream("clicks")} as a,
        lateral (select max(o.u) as m from {stream("orders")} as o where o.k = a.k) as b""",
        "k v m",
        state_ttl=LONG,
    ),
    "ranks of equal rows that are given a frame": _case(
        f"""select k, v, u, ts,
          1 + dense_rank() over (partition by k order by u rows between unbounded preceding and current row) as d,
          1 + percent_rank() over (partition by k order by u rows between unbounded preceding and current row) as p,
          1 + rank() over (partition by k order by u desc rows between unbounded preceding and current row) as r
        from {stream("clicks")}""",
        "k v u ts d p r",
        state_ttl=LONG,
    ),
    # LATERAL, as joins.
    "the first rows of each in LATERAL": _case(
        f"""select a.k, a.v, b.u, b.w from {stream("clicks")} as a, lateral (
          select o.u, o.v as w from {stream("orders")} as o where o.k = a.k order by o.ts desc, o.v, o.u limit 2) as b""",
        "k v u w",
        state_ttl=LONG,
    ),
    "all of the first rows of each in LATERAL": _case(
        f"""select a.k, b.* from (select distinct k from {stream("clicks")}) as a left join lateral (
          select u, v, ts from {stream("orders")} as o where o.k = a.k order by ts, v, u limit 2) as b on b.u > 1""",
        "k u v ts",
        state_ttl=LONG,
    ),
    "the rows that pass in LATERAL": _case(
        f"""select a.k, a.v, b.w from {stream("clicks")} as a join lateral (
          select u, v as w from {stream("orders")} as o where o.k = a.k and o.v > a.v) as b on b.u < 3""",
        "k v w",
        state_ttl=LONG,
    ),
    # LATERAL that is no join is asked again for the rows that meet the same.
    "the last row before each in LATERAL": _case(
        f"""select a.k, a.v, a.ts, b.v as w from {stream("clicks")} as a left join lateral (select v
          from {stream("orders")} as o where o.k = a.k and o.ts < a.ts order by o.ts desc, o.v limit 1) as b on true""",
        "k v ts w",
        state_ttl=LONG,
    ),
    "the whole of the last row before each in LATERAL": _case(
        f"""select a.k, a.ts, b.u, b.v from {stream("clicks")} as a, lateral (select * from {stream("orders")} as o
          where o.k = a.k and o.ts < a.ts order by o.ts desc limit 1 offset 1) as b""",
        "k ts u v",
        state_ttl=LONG,
    ),
    "LATERAL of the row around in a query inside": _case(
        f"""select e.k, e.v, (select sum(l.c) from {stream("orders")} as o, lateral (
          select count(*) as c from {stream("clicks")} as r where r.k = o.k and r.v < e.v) as l where o.k = e.k) as m
        from {stream("clicks")} as e where e.v > 70""",
        "k v m",
        state_ttl=LONG,
    ),
    "counts of groups in IN": _case(
        f"""select k, v from {stream("clicks")} where v in (select count(*) from {stream("orders")} group by u, k)""",
        "k v",
        state_ttl=LONG,
    ),
    "the most frequent of each in LATERAL": _case(
        f"""select a.k, b.u, b.n from (select distinct k from {stream("clicks")}) as a, lateral (select u, count(*) as n
          from {stream("orders")} as o where o.k = a.k group by u order by count(*) desc, u limit 1) as b""",
        "k u n",
        state_ttl=LONG,
    ),
    "counts that a condition judges in LATERAL": _case(
        f"""select a.k, a.v, b.n from {stream("clicks")} as a left join lateral (select count(*) as n
          from {stream("orders")} as o where o.k = a.k and o.v > a.v) as b on b.n > 1""",
        "k v n",
        state_ttl=LONG,
    ),
    "OVER and UNION in LATERAL": _case(
        f"""select a.k, b.v, b.r, c.n from (select distinct k from {stream("clicks")}) as a, lateral (select v, row_number()
          over (order by ts desc, v, u) as r from {stream("orders")} as o where o.k = a.k) as b, lateral (
          select count(*) as n from {stream("orders")} as p where p.k = a.k union all
          select 10 + count(*) from {stream("clicks")} as q where q.k = a.k) as c where b.r <= 2""",
        "k v r n",
        state_ttl=LONG,
    ),
    "lists, medians and the row itself in LATERAL": _case(
        f"""select a.k, b.vs, b.s from {stream("clicks")} as a, lateral (select array_sort(collect_list(v)) as vs,
          sum(v) * a.u as s from {stream("orders")} as o where o.k = a.k having count(*) > 3) as b""",
        "k vs s",
        state_ttl=LONG,
    ),
    "groups of LATERAL that is no join": _case(
        f"""select k, count(*) as n, max(w) as w from (select a.k, b.v as w from {stream("clicks")} as a, lateral (select v
          from {stream("orders")} as o where o.k = a.k and o.v > a.v order by o.v, o.ts limit 2) as b) group by k""",
        "k n w",
        state_ttl=LONG,
    ),
    "a natural join of streams": _case(
        f"""select k, u, v, w from (select k, u, v from {stream("clicks")}) as a natural left join (
          select k, u, count(*) as w from {stream("orders")} group by k, u) as b""",
        "k u v w",
        state_ttl=LONG,
    ),
    "what is asked without FROM": _case(
        f"""select exists (select 1 from {stream("clicks")} where v > 90) as e,
          3 in (select u from {stream("orders")}) as i, (select max(v) from {stream("orders")}) as m,
          (select k from {stream("clicks")} order by ts, v, u, k limit 1) as f""",
        "e i m f",
        state_ttl=LONG,
    ),
    "a correlated query in FROM of one inside": _case(
        f"""select e.k, e.v, (select sum(t.x) from (select o.v + e.u as x from {stream("orders")} as o where o.k = e.k
          union all select e.v as x) as t) as s from {stream("clicks")} as e""",
        "k v s",
        state_ttl=LONG,
    ),
    "groups in LATERAL": _case(
        f"""select a.k, b.u, b.n from (select k, max(v) as v from {stream("clicks")} group by k) as a, lateral (
          select u, count(*) as n from {stream("orders")} as o where o.k = a.k group by u having count(*) > 1) as b""",
        "k u n",
        state_ttl=LONG,
    ),
    "a count of none in LATERAL": _case(
        f"""select a.k, a.v, b.n, b.m from {stream("clicks")} as a, lateral (
          select count(*) as n, max(v) as m from {stream("orders")} as o where o.k = a.k and o.u = 2) as b where b.n < 2""",
        "k v n m",
        state_ttl=LONG,
    ),
    "LATERAL of what LATERAL gives": _case(
        f"""select a.k, b.u, c.w from (select distinct k from {stream("clicks")}) as a, lateral (
          select u from {stream("orders")} as o where o.k = a.k order by o.ts, o.v limit 1) as b, lateral (
          select v as w from {stream("orders")} as p where p.u = b.u order by p.v desc limit 1) as c""",
        "k u w",
        state_ttl=LONG,
    ),
    # A result of one row, of all rows that are kept: where none pass in a micro-batch it stays as it is.
    "an array of the rows that pass": _case(
        f"""select array_sort(collect_list(v)) as vs, count(*) as n from {stream("clicks")} where v > 40""",
        "vs n",
        6,
        state_ttl=LONG,
    ),
    "an array of no rows": _case(
        f"""select array_sort(collect_list(v)) as vs from {stream("clicks")} where v > 4000""",
        "vs",
        state_ttl=LONG,
    ),
    "a stream in VALUES": _case(
        f"""select a.k, t.x from {stream("clicks")} as a
        join (values ((select max(v) from {stream("orders")}))) as t(x) on true""",
        "k x",
        state_ttl=LONG,
    ),
    "the first rows of a union": _case(
        f"select k, v from {stream('clicks')} union all select k, v from {stream('orders')} order by v, k limit 5",
        "k v",
        state_ttl=LONG,
    ),
    "the first window results of a union": _case(
        f"""select window_end, k, n from {of_windows("clicks")} as a
        union all select window_end, k, n from {of_windows("orders")} as b order by n, k, window_end limit 3""",
        "window_end k n",
    ),
    "a union of window results with their times swapped": _case(
        f"""select window_end, count(*) as n from (
        select window_start, window_end, k from {of_windows("clicks")} as a
        union all select window_end, window_start, k from {of_windows("orders")} as b) group by window_end""",
        "window_end n",
    ),
    "a window with a name": _case(
        f"select k, v, u, ts, lag(v) over w as p from {stream('clicks')} window w as (partition by k order by ts, v, u)",
        "k v u ts p",
        6,
        state_ttl=LONG,
    ),
    # Groups and joins of window results that go beyond one window.
    "groups of windows by the hour of their end": _case(
        f"""select date_trunc('hour', window_end) as h, sum(n) as s from {of_windows("clicks")} a
        group by date_trunc('hour', window_end)""",
        "h s",
    ),
    "groups of windows by a test of their end": _case(
        f"""select window_end > timestamp '2024-03-04 10:00:00' as h, sum(n) as s from {of_windows("clicks")} a
        group by window_end > timestamp '2024-03-04 10:00:00'""",
        "h s",
    ),
    "groups of windows by all": _case(
        f"select k, sum(n) as s from {of_windows('clicks')} a group by all", "k s"
    ),
    "groups of windows by all, the window's end among it": _case(
        f"select window_end, sum(n) as s from {of_windows('clicks')} a group by all", "window_end s"
    ),
    "subtotals of windows": _case(
        f"select window_end, k, sum(n) as s from {of_windows('clicks')} a group by rollup (window_end, k)",
        "window_end k s",
    ),
    "all subtotals of windows": _case(
        f"select window_end, k, sum(n) as s from {of_windows('clicks')} a group by cube (window_end, k)",
        "window_end k s",
    ),
    "grouping sets of which one is of all windows": _case(
        f"select window_end, k, sum(n) as s from {of_windows('clicks')} a group by grouping sets ((window_end), (k))",
        "window_end k s",
    ),
    "subtotals within each window": _case(
        f"select window_end, k, sum(n) as s from {of_windows('clicks')} a group by window_end, rollup (k)",
        "window_end k s",
    ),
    "HAVING over all windows": _case(
        f"select 'x' as a from {of_windows('clicks')} a having sum(n) > 100", "a"
    ),
    "a join of windows by an end that equals itself": _case(
        f"""select a.window_end, b.window_end as e2, a.k from {of_windows("clicks")} a
        join {of_windows("orders")} b on a.k = b.k and b.window_end = b.window_end""",
        "window_end e2 k",
    ),
    "a join of windows USING what is called window_end": _case(
        f"""select window_end, a.k, b.n from (select window_start as window_end, k from {of_windows("clicks")}) a
        join {of_windows("orders")} b using (window_end)""",
        "window_end k n",
    ),
    **{
        f"{call} over windows by {time}{', with state_ttl' if ttl else ''}": _case(
            f"""with w as ({OF_TIMES}) select window_start, window_end, sum(n) as s, count(*) as c
            from {Call(call, time, (length,)).expand("w")} group by window_start, window_end""",
            "window_start window_end s c",
            **dict[str, Any](ttl),
        )
        for call, time, length in (
            ("tumble", "ws", "4 minutes"),
            ("tumble", "mt", "5 minutes"),
            ("tumble", "earlier", "30 minutes"),
            ("session", "ws", "12 minutes"),
        )
        for ttl in ({}, {"state_ttl": LONG})
    },
    "tumble over whole windows by their starts": _case(
        f"""with w as ({OF_TIMES}) select window_start, window_end, sum(n) as s, count(*) as c
        from {Call("tumble", "ws", ("30 minutes",)).expand("w")} group by window_start, window_end""",
        "window_start window_end s c",
    ),
    # No more was read of a stream than what is named.
    **{
        f"windows over {what}": _case(
            f"""select window_start, window_end, count(*) as n from {TUMBLE.expand(below)}
            group by window_start, window_end""",
            "window_start window_end n",
            state_ttl=LONG,
        )
        for what, below in {
            "different rows": f"(select distinct * from {stream('clicks')})",
            "different rows of two": f"(select * from {stream('odd')} union select * from {stream('odd')} where v > 3)",
            "rows of both": f"(select * from {stream('orders')} intersect select * from {stream('orders')} where v > 3)",
            "different rows below others": f"""(select ts from (select distinct * from {stream("clicks")})
              where ts is not null)""",
        }.items()
    },
    # The time of a row is another relation's.
    **{
        f"windows by the time of a table, {call}": _case(
            f"""select window_start, window_end, count(*) as n
            from {Call("tumble", time, ("10 minutes",)).expand(OF_TABLE.format(f"d.ts as {time}"))}
            group by window_start, window_end""",
            "window_start window_end n",
        )
        for call, time in (("of the same name", "ts"), ("renamed", "t2"))
    },
    "a join in time by the time of a table": _case(
        f"""select a.k, b.v from {OF_TABLE.format("d.ts")} a join {stream("orders")} b
        on a.k = b.k and b.ts between a.ts and a.ts + interval 2 hours""",
        "k v",
        state_ttl=LONG,
    ),
    "a group by an aggregate that is called as a distinct column of another type": _case(
        f"""select k, count(*) as n from (
        select min(day) as k, count(distinct k) as d from {stream("clicks")}) group by k""",
        "k n",
    ),
    "a join in time by times in other case": _case(
        f"""select a.k, b.v from {stream("clicks")} a join {stream("orders")} b
        on a.k = b.k and b.TS between a.ts and A.Ts + interval 2 hours""",
        "k v",
    ),
}
"""What was wrong → the query. Each is equal today, or refused with a reason."""


def _short_lived(text: str, names: str) -> Case:
    return _case(text, names, 6, state_ttl="12 minutes")


COUNTED = f"(select k, v % 3 as h, count(*) as n from {stream('clicks')} group by k, v % 3)"
SHORT_LIVED = {
    "OVER": _short_lived(
        f"select ts, k, u, v, count(*) over (partition by k, u) as c from {stream('clicks')}", "ts k u v c"
    ),
    "OVER groups": _short_lived(
        f"select k, h, n, sum(n) over (partition by k) as s from {COUNTED}", "k h n s"
    ),
    "a ranking of groups behind a condition": _short_lived(
        f"""select u, k, n from (select *, row_number() over (partition by u order by n desc, k) as rn
        from (select u, k, count(*) as n from {stream("clicks")} group by u, k) where n % 2 = 0) where rn <= 1""",
        "u k n",
    ),
    "a ranking of groups by what changes": _short_lived(
        f"""select u, k, n from (select *, row_number() over (partition by n order by u, k) as rn
        from (select u, k, count(*) as n from {stream("clicks")} group by u, k)) where rn <= 1""",
        "u k n",
    ),
    "IN a ranking of groups": _short_lived(
        f"""select k, n from (select k, count(*) as n from {stream("clicks")} group by k) where k in (
        select k from (select k, max(v) as m from {stream("orders")} group by k) order by m desc, k limit 2)""",
        "k n",
    ),
    "the first of each partition": _short_lived(
        f"""select k, u, v from (select *, row_number() over (partition by k, u order by v, ts) as rn
        from (select k, u, v, ts from {stream("clicks")} union all
        select k, u, v, ts from {stream("clicks")})) where rn <= 2""",
        "k u v",
    ),
    "EXISTS": _short_lived(
        f"""select a.k, a.v from {stream("clicks")} as a
        where exists (select 1 from {stream("orders")} as b where b.k = a.k and b.u = a.u)""",
        "k v",
    ),
    "LEFT JOIN": _short_lived(
        f"""select a.k, a.u, b.u as u2, b.v from {stream("clicks")} as a
        left join {stream("orders")} as b on a.k = b.k and a.u = b.u""",
        "k u u2 v",
    ),
    "a join of groups": _short_lived(
        f"select l.k, l.n, r.ts, r.v from {COUNTED} as l join {stream('orders')} as r on l.k = r.k",
        "k n ts v",
    ),
    "groups of a join of groups": _short_lived(
        f"""select k, count(distinct n) as c, max(v) as m from (
        select l.k, l.n, r.v from {COUNTED} as l join {stream("orders")} as r on l.k = r.k) group by k""",
        "k c m",
    ),
    "medians of groups": _short_lived(f"select h, median(n) as m from {COUNTED} group by h", "h m"),
    "EXCEPT ALL": _short_lived(
        f"select k, u from {stream('clicks')} except all select k, u from {stream('orders')}", "k u"
    ),
    "windows of last rows": _short_lived(
        f"""select window_start, window_end, k, count(*) as n, max(v) as m from {HOP.expand(LAST)}
        group by window_start, window_end, k""",
        "window_start window_end k n m",
    ),
    "medians of windows of last rows": _short_lived(
        f"select window_start, window_end, median(v) as m from {HOP.expand(LAST)} group by window_start, window_end",
        "window_start window_end m",
    ),
    "INTERSECT of groups": _short_lived(
        f"select k, n from {COUNTED} intersect select k, v as n from {stream('orders')}", "k n"
    ),
}
"""Queries whose state expires while rows come."""

# Without state_ttl: what is kept of them is bounded by time.
IN_TIME = {
    "the best clicks of each window (Nexmark q7)": _case(
        f"""select b.ts, b.k, b.v, m.window_end from {stream("clicks")} b join (
          select window_start, window_end, max(v) as v from {TUMBLE.expand("clicks")} group by window_start, window_end
        ) m on b.v = m.v and b.ts between m.window_end - interval 10 minutes and m.window_end""",
        "ts k v window_end",
    ),
    "rows with the groups of each window that they are in": _case(
        f"""select c.k, c.ts, w.n, w.window_start from {stream("clicks")} c join (
          select window_start, window_end, k, count(*) as n from {HOP.expand("clicks")} group by window_start, window_end, k
        ) w on c.k = w.k and c.ts >= w.window_start and c.ts < w.window_end""",
        "k ts n window_start",
        4,
    ),
    "three streams one after the other": _case(
        f"""select c.ts, o.ts as o, x.ts as x, c.k from {stream("clicks")} c
        join {stream("orders")} o on c.k = o.k and o.ts between c.ts and c.ts + interval 7 minutes
        join {stream("clicks")} x on x.k = o.k and x.ts between o.ts - interval 3 minutes and o.ts + interval 2 minutes""",
        "ts o x k",
        4,
    ),
    "a join of a join": _case(
        f"""select j.ts, j.o, x.ts as x from (
          select c.k, c.ts, o.ts as o from {stream("clicks")} c
          join {stream("orders")} o on c.k = o.k and o.ts between c.ts and c.ts + interval 7 minutes
        ) j join {stream("clicks")} x on x.k = j.k and x.ts between j.o - interval 3 minutes and j.o + interval 2 minutes""",
        "ts o x",
        4,
    ),
    "a window and the one before it": _case(
        f"""select a.window_end, a.k, a.n, b.n as m from (
          select window_start, window_end, k, count(*) as n from {TUMBLE.expand("clicks")} group by all
        ) a join (
          select window_start, window_end, k, count(*) as n from {TUMBLE.expand("orders")} group by all
        ) b on a.k <=> b.k and a.window_start = b.window_end""",
        "window_end k n m",
    ),
    "rows of two streams": _case(
        f"""select a.k, a.ts, o.v from (
          select k, ts from {stream("clicks")} union all select k, ts from {stream("orders")}
        ) a join {stream("orders")} o on a.k = o.k and o.ts between a.ts - interval 4 minutes and a.ts""",
        "k ts v",
    ),
    "rows after those before them": _case(
        f"""select a.k, a.ts, a.p, o.v from (
          select k, ts, lag(ts) over (partition by k order by ts, u, v, d) as p from {stream("clicks")}
        ) a join {stream("orders")} o on a.k = o.k and o.ts between a.ts - interval 4 minutes and a.ts""",
        "k ts p v",
        constant_domains=("k",),
    ),
}
"""Joins of rows whose times its conditions bound."""
EXAMPLES |= IN_TIME
EXAMPLES["by how much a curve grows in each step"] = _case(
    f"""select window_start, window_end, k, n - coalesce(lag(n) over (partition by window_start, k order by window_end), 0)
    as new from (select window_start, window_end, k, count(*) as n from {CURVE.expand("clicks")} group by all)""",
    "window_start window_end k new",
)
EXAMPLES["aggregates of two streams, each of one row"] = _case(
    f"select (select count(*) from {stream('clicks')}) as n, 1 + (select max(v) from {stream('orders')}) as m",
    "n m",
)
EXAMPLES["a time behind a column that has no name in the one of two streams"] = _case(
    f"""select a.k, a.w, b.v from (
        select k, w, ts from {stream("clicks")} union all select k, w + 10, ts from {stream("clicks")}) a
      join {stream("orders")} b on b.k = a.k and b.ts between a.ts and a.ts + interval 4 minutes""",
    "k w v",
)

_PLACED = f"""(select k, u, n, row_number() over (partition by k order by n desc, u) as rn
  from (select k, u, count(*) as n from {stream("clicks")} group by k, u))"""
_RANKED = f"""(select k, u, v, ts, row_number() over (partition by k order by v desc, u, ts) as rn
  from {stream("clicks")} as c)"""
_FIRST_BY_TIME = f"""(select * from (
    select *, row_number() over (partition by k, u order by ts) as rn from {stream("clicks")}) where rn = 1)"""
_BESIDE = f"""{of_windows("clicks")} as l
  join (select k, count(*) as x from {stream("orders")} group by k) as r on l.k = r.k"""
BECAME_EQUAL = {
    # Looked at a second time, the groups were taken for a static table, which nobody makes.
    "groups of windows beside groups": _case(
        f"select l.k, sum(l.n * r.x) as s from {_BESIDE} group by l.k", "k s", state_ttl=LONG
    ),
    "windows beside groups and a table": _case(
        f"select l.window_end, l.k, l.n, r.x, d.name from {_BESIDE} left join dims as d on d.k = l.k",
        "window_end k n x name",
        state_ttl=LONG,
    ),
    "a ranking of windows beside groups": _case(
        f"""select * from (select l.window_end, l.k, l.n, r.x,
          row_number() over (partition by l.window_end order by l.n desc, l.k) as rn from {_BESIDE}) where rn <= 2""",
        "window_end k n x rn",
        state_ttl=LONG,
    ),
    # The rows of the second stream were read after a commit: a flush took those of the last micro-batch once more.
    "first rows, joined with a stream": _case(
        f"""select f.k, f.u, o.v from {_FIRST_BY_TIME} as f join {stream("orders")} as o
        on o.k = f.k and o.ts between f.ts and f.ts + interval 30 minutes""",
        "k u v",
        state_ttl=LONG,
    ),
    "first rows and those of a stream": _case(
        f"""select k, count(*) as n from (
          select k, u from {_FIRST_BY_TIME} union all select k, u from {stream("orders")}) group by k""",
        "k n",
        state_ttl=LONG,
    ),
    "groups of a join and of a stream": _case(
        f"""select k, count(*) as n from (
          select c.k from {stream("clicks")} as c join {stream("orders")} as o
            on o.k = c.k and o.ts between c.ts and c.ts + interval 5 minutes
          union all select k from {stream("orders")}) group by k""",
        "k n",
        state_ttl=LONG,
    ),
    # Bounds of a rank, in other words and other places.
    **{
        f"places of a rank: {test}": _case(
            f"select k, u, rn from {_PLACED} as r where {test}", "k u rn", state_ttl=LONG
        )
        for test in (
            "not rn > 2",
            "rn < 1 + 2",
            "rn - 1 < 2",
            "cast(rn as int) = 2",
            "rn <= 1 or (rn <= 3 and k = 'a')",
            "1 + rn <= 3.5 and rn <=> 2",
            "not (rn > 3 or u > 2)",
            "rn - 1 - 1 between -1 and 0L",
        )
    },
    "places of ranks below UNION ALL": _case(
        f"""select k, n from (select * from {_PLACED} as r union all select k, u, v as n, place from (
          select k, u, v, row_number() over (partition by k order by v desc, u) as place from {stream("orders")}) as o)
        where not rn > 2""",
        "k n",
        state_ttl=LONG,
    ),
    # No filter ends these: what aggregates pass over does, or `state_ttl`.
    "places that aggregates look at": _case(
        f"""select k, sum(v) filter (where rn = 1) as s, max(case when r.rn <= 2 then u end) as m,
          count(distinct if(rn < 4, u, null)) as d from {_RANKED} as r group by k""",
        "k s m d",
        state_ttl=LONG,
    ),
    "places of groups that aggregates look at": _case(
        f"""select g, max(case when place = 1 then n end) as one, max(if(place = 2, n, null)) as two
        from (select k as g, rn as place, n from {_PLACED} as r) group by 1""",
        "g one two",
        state_ttl=LONG,
    ),
    "places beside all that a group has": _case(
        f"""select u, count(*) as n, sum(v) filter (where rn = 1) as s, count_if(rn <= 3) as three
        from {_RANKED} as r group by u""",
        "u n s three",
        state_ttl=LONG,
    ),
    "places of different rows": _case(
        f"""select * from (select distinct k, u, dense_rank() over (partition by k order by v desc) as rn
          from {stream("clicks")} as c) where rn <= 2""",
        "k u rn",
        state_ttl=LONG,
    ),
    "a place as a column": _case(
        f"select k, u, v, rn, if(rn <= 3, 'first', 'others') as which from {_RANKED} as r",
        "k u v rn which",
        state_ttl=LONG,
    ),
    "a place of groups as a column": _case(f"select * from {_PLACED} as r", "k u n rn", state_ttl=LONG),
    "places of two ranks in one condition": _case(
        f"""select a.k, a.n, b.n as m from {_PLACED} as a left join {_PLACED} as b on b.k = a.k
        where not (a.rn > 2 or b.rn > 1 or a.n = b.n)""",
        "k n m",
        state_ttl=LONG,
    ),
    "places of a rank that another name has": _case(
        f"with s as (select k, u, rn as place from {_PLACED} as r) select k, u from s where place <= 2",
        "k u",
        state_ttl=LONG,
    ),
    "places of a rank behind a star": _case(
        f"with r as {_PLACED}, s as (select * from r), t as (select * from s) select k, u from t where rn = 1",
        "k u",
        state_ttl=LONG,
    ),
    "places of a rank in the condition of a join": _case(
        f"select o.k, o.v, r.u from {stream('orders')} as o join {_PLACED} as r on r.k = o.k and r.rn = 1",
        "k v u",
        state_ttl=LONG,
    ),
    "places of a rank in the condition of a LEFT JOIN": _case(
        f"select o.k, o.v, r.u from {stream('orders')} as o left join {_PLACED} as r on r.k = o.k and r.rn <= 2",
        "k v u",
        state_ttl=LONG,
    ),
    # Queries inside, that are asked for each row. (This one ended Spark's optimizer with "key not found".)
    "a query of its row in a select list": _case(
        f"select k, v, (select count(*) from {stream('orders')} as o where o.k = c.k) as n from {stream('clicks')} as c",
        "k v n",
        state_ttl=LONG,
    ),
    "a query in an aggregate": _case(
        f"select k, sum(v - (select max(v) from {stream('orders')})) as s from {stream('clicks')} as t group by k",
        "k s",
        state_ttl=LONG,
    ),
    # Of values that may be NULL, on both sides.
    "NOT IN in an aggregate": _case(
        f"""select k, count(case when u not in (select u from {stream("orders")}) then 1 end) as n,
          count(*) filter (where v not in (select v from {stream("orders")} as o where v > 3)) as m
        from {stream("clicks")} as c group by k""",
        "k n m",
        state_ttl=LONG,
    ),
    "a query of its row in an aggregate": _case(
        f"""select k, sum((select count(*) from {stream("orders")} as o where o.k = c.k)) as s,
          count(case when exists (select 1 from {stream("orders")} as o where o.k = c.k and o.v = c.v) then 1 end) as n
        from {stream("clicks")} as c group by k""",
        "k s n",
        state_ttl=LONG,
    ),
    "a query in a group key": _case(
        f"""select k, case when v > (select avg(v) from {stream("orders")}) then 'more' else 'less' end as which,
          count(*) as n from {stream("clicks")} as c group by 1, 2""",
        "k which n",
        state_ttl=LONG,
    ),
    "IN as a group key": _case(
        f"""select u in (select v from {stream("orders")}) as known, count(*) as n
        from {stream("clicks")} as c group by known""",
        "known n",
        state_ttl=LONG,
    ),
    # Queries over tables that are no streams.
    "EXISTS of a table beside that of a stream": _case(
        f"""select c.k, c.v, c.ts from {stream("clicks")} as c
        where exists (select 1 from {stream("orders")} as o where o.k = c.k and o.v > c.v)
          and exists (select 1 from dims as d where d.k = c.k and d.factor > 1)""",
        "k v ts",
        state_ttl=LONG,
    ),
    "a query over a table in an aggregate": _case(
        f"""select k, sum(v * (select max(factor) from dims as d where d.k = c.k)) as s
        from {stream("clicks")} as c group by k""",
        "k s",
        state_ttl=LONG,
    ),
    "a query over a table as a group key": _case(
        f"""select (select max(name) from dims as d where d.k = c.k) as name, count(*) as n
        from (select k, count(*) as n from {stream("clicks")} as c group by k) as c group by 1""",
        "name n",
        state_ttl=LONG,
    ),
    "a query in ORDER BY with LIMIT": _case(
        f"""select k, v, ts from {stream("clicks")} as c
        order by abs(v - (select max(v) from {stream("orders")})), k, ts, v limit 3""",
        "k v ts",
        state_ttl=LONG,
    ),
    "a query in an aggregate of windows": _case(
        f"""select window_start, window_end,
          count(case when k in (select k from {stream("orders")} where v = 7) then 1 end) as n
        from {TUMBLE.expand("clicks")} as c group by window_start, window_end""",
        "window_start window_end n",
        state_ttl=LONG,
    ),
    # Windows of which a ranking reads other rows than it looks like.
    "a ranking over windows that were unpivoted": _case(
        f"""select window_start, window_end, k, which, of from (
          select window_start, window_end, k, which, of,
            row_number() over (partition by window_start, window_end order by of desc, k, which) as rn
          from {TUMBLE.expand("clicks")} unpivot (of for which in (u, v))) where rn <= 3""",
        "window_start window_end k which of",
    ),
    "two rankings over one WITH query of windows": _case(
        f"""with w as (select * from {TUMBLE.expand("clicks")})
        select 'most' as which, window_start, window_end, k, v from (
          select *, row_number() over (partition by window_start, window_end order by v desc, k, ts) as rn from w)
        where rn <= 2
        union all
        select 'least' as which, window_start, window_end, k, v from (
          select *, row_number() over (partition by window_start, window_end order by v, k, ts) as rn from w)
        where rn <= 2""",
        "which window_start window_end k v",
    ),
    "letters that are not ASCII beside two windows": _case(
        f"""select a.window_start, a.window_end, a.k, a.n, b.n as m, 'Größe ≥ 日' as said
        from {of_windows("clicks")} as a join {of_windows("orders")} as b
          on a.window_start = b.window_start and a.window_end = b.window_end and a.k = b.k""",
        "window_start window_end k n m said",
    ),
    "a text like a window operator's name beside two windows": _case(
        f"""select a.window_start, a.window_end, a.k, a.n, b.n as m, 'window_1_slices' as window_2
        from {of_windows("clicks")} as a join {of_windows("orders")} as b
          on a.window_start = b.window_start and a.window_end = b.window_end and a.k = b.k""",
        "window_start window_end k n m window_2",
    ),
    "a row of a group's key and its count": _case(
        f"""select struct(k, count(*)) as s, rank() over (order by count(*), k) as place from {stream("clicks")} group by k
          having struct(k, count(*)) > struct('a', 2)""",
        "s place",
        state_ttl=LONG,
    ),
    "a row of a window's start and a key": _case(
        f"""select window_end, struct(window_start, k, count(*)) as s from {TUMBLE.expand("clicks")}
          group by window_start, window_end, k""",
        "window_end s",
    ),
    "groups of a join with a table in brackets": _case(
        f"select u, sum(v) as total from ({stream('clicks')} as t left semi join dims as d on d.k = t.k) group by u",
        "u total",
        state_ttl=LONG,
    ),
    "windows that are joined with a table in brackets": _case(
        f"""select window_start, window_end, count(*) as n from ({TUMBLE.expand("clicks")} as t
          left semi join dims as d on d.k = t.k) group by window_start, window_end""",
        "window_start window_end n",
    ),
    "a join in brackets that has a name": _case(
        f"""select z.u, z.v, l.label from ({stream("clicks")} as t join dims as d on d.name = t.k) as z
          left join levels as l on l.u = z.u""",
        "u v label",
    ),
}
"""Queries that were refused, or wrong, and have batch's rows today."""

GROUPS_OF_TWO_STREAMS = _case(
    f"""select k, count(*) as c, sum(n) as m from (select k, u, count(*) as n from (
    select k, u, ts from {stream("clicks")} union all select k, u, ts from {stream("orders")}) group by k, u) group by k""",
    "k c m",
    6,
    state_ttl=LONG,
)
