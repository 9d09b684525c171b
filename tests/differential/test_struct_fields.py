"""Fields of a struct that are called as other columns of the row: streams have batch's rows, on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from tests.differential import duck
from tests.differential.outcome import compare
from tests.differential.test_struct_times import BY_WINDOW, over
from tests.planned import plan_of
from tests.thorough import mostly_thorough

EVENTS = "(select /*+ STREAM */ * from events)"
W = over("tumble", "5 minutes", time="at")
S = over("session", "10 minutes", time="at", partition_by=["k"])
C = over("cumulate", "5 minutes", "15 minutes", time="at")


def ranked(order: str, of: str = W, by: str = "", what: str = "k, v", rank: str = "row_number") -> str:
    return f"""select * from (select window_start, window_end, {what}, {rank}() over (
        partition by window_start, window_end{by} order by {order}) as r from {of} as e) where r <= 2"""


def first(order: str, by: str = "k", what: str = "k, v") -> str:
    return f"""select * from (select {what}, row_number() over (partition by {by} order by {order}) as r
        from {EVENTS} as e) where r <= 1"""


QUERIES = {
    "window rank": ranked("m.v, v, k"),
    "window rank, qualified": ranked("e.m.v desc, e.v, e.k"),
    "window rank by a struct's key": ranked("v desc, k", by=", m.k"),
    "window rank by a nested field": ranked("m.s.v, v, k"),
    "window rank, all columns": f"""select * from (select *, row_number() over (
        partition by window_start, window_end order by m.v) as r from {W} as e) where r <= 2""",
    "window rank of ties": ranked("m.k", rank="rank", what="k, v"),
    "window rank over a session": ranked("m.v, v, k", S),
    "window rank over cumulate": ranked("m.v desc, v, k", C),
    "window rank, field in list": ranked("m.v, v, k", what="m.k, m.v"),
    "window groups": f"select window_start, window_end, m.k, sum(m.v) as s, sum(v) as t from {W} {BY_WINDOW}, m.k",
    "window groups by both": f"""select window_start, window_end, k, m.k as mk, count(*) as n from {W} as e
        {BY_WINDOW}, k, m.k""",
    "window groups by both, qualified": f"""select window_start, window_end, e.k, e.m.k as mk, max(e.m.v) as x, max(e.v) as y
        from {W} as e {BY_WINDOW}, e.k, e.m.k""",
    "window groups by nested": f"""select window_start, window_end, m.s.v as a, m.v as b, v, count(*) as n from {W}
        {BY_WINDOW}, m.s.v, m.v, v""",
    "window having": f"select window_start, window_end, k, sum(v) as v from {W} {BY_WINDOW}, k having sum(m.v) > 30",
    "window filter": f"""select window_start, window_end, count(*) filter (where m.v > 20) as n,
        count(*) filter (where v > 20) as o from {W} {BY_WINDOW}""",
    "window distinct": f"""select window_start, window_end, count(distinct m.k) as n, count(distinct k) as o, min_by(m.v, at)
        as p, max_by(k, m.v) as q from {W} {BY_WINDOW}""",
    "window percentiles": f"""select window_start, window_end, m.k, percentile(m.v, 0.5) as p, percentile(v, 0.5) as q
        from {W} {BY_WINDOW}, m.k""",
    "window join": f"""select a.window_end, a.m, b.n from (
        select window_start, window_end, m.k as m, count(*) as n from {W} {BY_WINDOW}, m.k) as a join (
        select window_start, window_end, k, sum(m.v) as n from {W} {BY_WINDOW}, k) as b
        on a.window_start = b.window_start and a.window_end = b.window_end and a.m = b.k""",
    "where": f"select window_start, window_end, count(*) as n from {W} where m.v > 20 and v < 9 {BY_WINDOW}",
    "cumulate": f"select window_start, window_end, m.k, sum(m.v) as s from {C} {BY_WINDOW}, m.k",
    "groups": f"select m.k, sum(m.v) as s, sum(v) as t from {EVENTS} group by m.k",
    "groups by both": f"select e.k, e.m.k as mk, sum(e.m.v) as s from {EVENTS} as e group by e.k, e.m.k",
    "groups, order": f"select m.k, max(v) as t from {EVENTS} group by m.k order by max(m.v) desc, m.k limit 2",
    "groups, alias": f"select m.k as v, sum(m.v) as k from {EVENTS} group by m.k having sum(v) > 5",
    "distinct": f"select distinct m.k, v from {EVENTS}",
    "first": first("m.v, v"),
    "first by a field": first("v, m.v", by="m.k"),
    "first, qualified": first("e.m.v desc, e.v", by="e.m.k"),
    "limit": f"select k, v from {EVENTS} order by m.v, v limit 3",
    "join": f"""select a.v, b.v as w from {EVENTS} as a join {EVENTS} as b on a.m.k = b.k and a.m.v = b.m.v""",
    "join of times": f"""select a.v, b.v as w from {EVENTS} as a join {EVENTS} as b on a.k = b.m.k
        and b.at between a.at - interval 10 minutes and a.at""",
    "left join": f"""select a.v, b.m.v as w from {EVENTS} as a left join {EVENTS} as b on a.m.k = b.m.k and a.v = b.v""",
    "semi": f"select v from {EVENTS} as a where exists (select 1 from {EVENTS} as b where b.m.k = a.k and b.m.v > a.v + 20)",
    "in": f"select v from {EVENTS} as a where a.m.k in (select b.k from {EVENTS} as b where b.m.v > 20)",
    "lookup": f"select e.v, d.factor from {EVENTS} as e join dims as d on d.k = e.m.k",
    "lookup of a window": f"""select window_start, window_end, d.factor, sum(m.v) as s
        from {W} as e join dims as d on d.k = e.m.k {BY_WINDOW}, d.factor""",
    "lag": f"""select v, lag(m.v) over (partition by m.k order by at) as p,
        lag(v) over (partition by m.k order by at) as q from {EVENTS}""",
    "running": f"select v, sum(m.v) over (partition by k order by at) as p from {EVENTS}",
    "union": f"select m.k, v from {EVENTS} union select k, m.v from {EVENTS}",
    "except": f"select m.k from {EVENTS} except select k from {EVENTS} where m.v > 49",
    "of a query": f"select m.k, v from (select m, v + 1 as v, k from {EVENTS}) as x where x.m.v > 20",
    "an alias called as the struct": f"select m.k, m.v from {EVENTS} as m",
    "a group of an alias called as the struct": f"select m.k, sum(m.v) as s from {EVENTS} as m group by m.k",
    "a window of an alias called as the struct": f"""select window_start, window_end, m.k, sum(m.v) as s from {W} as m
        {BY_WINDOW}, m.k""",
    "a rank of an alias called as the struct": f"""select * from (select window_start, window_end, m.k, m.v,
        row_number() over (partition by window_start, window_end order by m.v, m.k) as r from {W} as m) where r <= 2""",
    "scalar": f"select v, (select max(b.m.v) from {EVENTS} as b where b.k = a.m.k) as x from {EVENTS} as a",
    "grouping sets": f"""select window_start, window_end, k, m.k as mk, count(*) as n from {W} as e
        group by window_start, window_end, grouping sets ((k), (m.k))""",
}


@pytest.fixture(scope="module")
def laboratory() -> Iterator[duck.Laboratory]:
    made = duck.Laboratory()
    made.base.execute("""create table events__pieces as select t as at,
        {'at': t + interval 7 minute, 'k': mk, 'v': mv, 's': {'v': 100 - mv - v}} as m, k, v,
        p as piece__ from (values (timestamp '2024-03-04 08:00:00', 'a', 1, 'b', 40, 0),
        ('2024-03-04 08:04:00', 'b', 2, 'a', 30, 0),
        ('2024-03-04 08:01:00', 'a', 3, 'a', 20, 0), ('2024-03-04 08:02:00', 'b', 4, 'c', 10, 0),
        ('2024-03-04 08:03:00', 'a', 5, 'b', 25, 1), ('2024-03-04 08:04:30', 'c', 6, 'a', 35, 1),
        ('2024-03-04 08:08:00', 'b', 7, 'a', 45, 1), ('2024-03-04 08:13:00', 'a', 8, 'c', 15, 1),
        ('2024-03-04 08:14:00', 'c', 9, 'b', 5, 2), ('2024-03-04 08:14:30', 'a', 10, 'b', 50, 2),
        ('2024-03-04 09:10:00', 'b', 11, 'c', 1, 2)) as t(t, k, v, mk, mv, p)""")
    made.base.execute("create view events as select * exclude (piece__) from events__pieces")
    yield made
    made.base.close()


_IN_CI = [
    "window rank",
    "window rank by a struct's key",
    "window groups by both",
    "first by a field",
    "lag",
    "join",
]


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_a_stream_has_the_rows_of_batch(laboratory: duck.Laboratory, name: str) -> None:
    plan = plan_of(QUERIES[name], {"events": RelationInfo("at")})
    found = laboratory.steps(
        whole_query.batch_sql(plan), generate.generate_program(plan), 3, timedelta(hours=1)
    )[-1]
    for text in (whole_query.batch_sql(plan), whole_query.text_in_batch(QUERIES[name]), QUERIES[name]):
        rows = duck.rows_of(laboratory.base.execute(duck.translated(text)).fetchall())
        assert rows.total()
        assert not compare(rows, found)
