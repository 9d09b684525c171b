"""A row that is dropped for its time (NULL, before the year 1, after 9999) changes nothing of what others come to, in a
stream and in batch, on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.corpus.unwindowed import KNOWN, A, B
from tests.corpus.windows import window
from tests.differential import duck
from tests.differential.outcome import Rows, compare
from tests.differential.tables import Row
from tests.differential.two_streams import ASKS, BIDS
from tests.planned import plan_of
from tests.thorough import mostly_thorough

SESSIONS = expansion.expand_window(
    "bids", window_arguments.make_window("session", "ts", "10 minutes", partition_by=["item"])
)
BY_WINDOW = "group by window_start, window_end"
QUERIES = {
    **{
        name: f"select window_start, window_end, count(*) as n, sum(price) as s from {over} {BY_WINDOW}"
        for name, over in {
            "tumble": window("tumble", "5 minutes"),
            "hop": window("hop", "5 minutes", "15 minutes"),
            "cumulate": window("cumulate", "5 minutes", "30 minutes"),
            "session": window("session", "10 minutes"),
            "dynamic cumulate": window("dynamic_cumulate", "5 minutes", "10 minutes"),
        }.items()
    },
    "a session of a key": f"""select window_start, window_end, item, count(*) as n, count(distinct price) as d
        from {SESSIONS} {BY_WINDOW}, item""",
    "a session of kept rows": f"""select window_start, window_end, percentile(price, 0.5) as p
        from {window("session", "10 minutes")} {BY_WINDOW}""",
    "rows of a session": f"select window_start, window_end, item, price from {window('session', '10 minutes')}",
    "first of a session": f"""select window_start, window_end, item, price from (select *, row_number() over (
        partition by window_start, window_end order by price, item) as rn from {window("session", "10 minutes")})
        where rn = 1""",
    "over": f"select ts, item, price, lag(price) over (partition by item order by ts) as before from {B}",
    "running": f"""select ts, item, sum(price) over (partition by item order by ts rows between 1 preceding and current row)
        as s from {B}""",
    "over a range": f"""select ts, item, count(*) over (partition by item order by ts
        range between interval '10' minute preceding and current row) as n from {B}""",
    "near": f"""select b.ts, b.item, b.price, a.price as ask from {B} as b join {A} as a
        on a.item = b.item and a.ts between b.ts - interval '5' minute and b.ts""",
    "near or alone": f"""select b.ts, b.item, b.price, a.price as ask from {B} as b left join {A} as a
        on a.item = b.item and a.ts between b.ts - interval '5' minute and b.ts""",
    "near, full": f"""select b.ts, b.price, a.price as ask from {B} as b full join {A} as a
        on a.item = b.item and a.ts between b.ts - interval '5' minute and b.ts""",
    "near, right": f"""select b.price, a.price as ask from {B} as b right join {A} as a
        on a.item = b.item and a.ts between b.ts - interval '5' minute and b.ts""",
    "nothing near": f"""select b.ts, b.price from {B} as b where not exists (select 1 from {A} as a
        where a.item = b.item and a.ts between b.ts - interval '5' minute and b.ts - interval '1' minute)""",
    "in what is near": f"""select b.ts, b.price from {B} as b where b.item in (select a.item from {A} as a
        where a.ts between b.ts - interval '5' minute and b.ts)""",
    "near, of queries": f"""with x as (select ts as at, item, price + 1 as p from {B} where price > 2)
        select x.at, x.p, y.price from x left join (select * from {A} where price > 0) as y
        on x.item = y.item and y.ts between x.at - interval '5' minute and x.at""",
    "first": f"select * from (select *, row_number() over (partition by item order by ts) as rn from {B}) where rn = 1",
    "first by qualify": f"select * from {B} qualify row_number() over (partition by item order by ts) = 1",
    "over, of a query": f"""with x as (select ts as at, item, price from {B} where price < 1000)
        select at, price - lag(price) over (partition by item order by at) as d from x""",
    "over, named": f"""select ts, price, lag(price) over w as l, sum(price) over w as s from {B}
        window w as (partition by item order by ts rows between 1 preceding and current row)""",
    "over a join": f"""select b.ts, b.price, d.factor, lag(b.price) over (partition by b.item order by b.ts) as l
        from {B} as b join dims as d on d.k = b.item and d.factor = 1""",
    "groups of over": f"""select item, sum(before) as s from (select item, lag(price) over (partition by item order by ts)
        as before from {B}) group by item""",
}
KEPT = {
    "groups": f"select item, count(*) as n, sum(price) as s from {B} group by item",
    "rows": f"select * from {B}",
    "groups beside over": f"""select 'all' as k, count(*) as n from {B} union all select item, lag(price) over (
        partition by item order by ts) as n from {B}""",
    "the last": f"""select * from (select *, row_number() over (partition by item order by ts desc) as rn from {B})
        where rn = 1""",
    "groups of the first": f"""select price, count(*) as n from (select *, row_number() over (partition by item order by ts)
        as rn from {B}) where rn = 1 group by price""",
    "the first two": f"""select * from (select *, row_number() over (partition by item order by ts) as rn from {B})
        where rn <= 2""",
    "first of all": f"select ts, item, price from {B} order by ts limit 1",
    "the highest": f"""select * from (select *, row_number() over (partition by item order by price desc, ts) as rn
        from {B}) where rn <= 2""",
    "met at any time": f"select b.price, a.price as ask from {B} as b left join {A} as a on a.item = b.item",
}
"""Queries in which a row without a time is a row."""
AT = datetime(2024, 3, 4, 8)
EARLY = datetime(1, 1, 1, 0, 0, 30)
LATE = datetime(9999, 12, 31, 23, 58)


def pieces_of(columns: int) -> list[list[Row]]:
    def row(ts: datetime, item: str, price: int) -> Row:
        return (ts, 1, item, price) if columns == 4 else (ts, item, price)

    return [
        [row(EARLY, "a", 1), row(AT, "a", 5), row(AT + timedelta(minutes=4), "b", 6)],
        [row(AT + timedelta(minutes=8), "a", 7), row(AT + timedelta(minutes=20), "a", 3)],
        [row(AT + timedelta(minutes=50), "a", 2), row(LATE, "a", 4)],
    ]


TIMES = (
    "null",
    "make_timestamp(-62135596800000001)",
    "make_timestamp(-62135596830000000)",
    "make_timestamp(253402300800000000)",
    "make_timestamp(253402300830000000)",
)


@pytest.fixture(scope="module")
def laboratory() -> Iterator[duck.Laboratory]:
    made = duck.Laboratory()
    yield made
    made.base.close()


def put(laboratory: duck.Laboratory, dropped: bool) -> None:
    laboratory.put("bids", BIDS, pieces_of(4))
    laboratory.put("asks", ASKS, pieces_of(3))
    for piece in range(3) if dropped else ():
        for time in TIMES:
            laboratory.base.execute(f"insert into bids__pieces values ({time}, 1, 'a', 99, {piece})")
            laboratory.base.execute(f"insert into asks__pieces values ({time}, 'a', 99, {piece})")


_IN_CI = ["session", "rows of a session", "over", "near", "groups"]


@pytest.mark.parametrize("name", mostly_thorough([*QUERIES, *KEPT], _IN_CI))
def test_what_is_dropped_changes_nothing(laboratory: duck.Laboratory, name: str) -> None:
    query = {**QUERIES, **KEPT}[name]
    plan = plan_of(query, KNOWN)
    batch, program = whole_query.batch_sql(plan), generate.generate_program(plan)
    standing = whole_query.text_in_batch(query, known=KNOWN)

    def rows(text: str) -> Rows:
        return duck.rows_of(laboratory.base.execute(duck.translated(text)).fetchall())

    found, tables = {}, {}
    for dropped in (False, True):
        put(laboratory, dropped)
        found[dropped] = laboratory.steps(batch, program, 3, timedelta(hours=1))[-1]
        tables[dropped] = rows(batch)
        assert not compare(tables[dropped], found[dropped])
        assert not compare(tables[dropped], rows(standing))
    assert found[False].total()
    if name in QUERIES:
        assert not compare(found[False], found[True])
    else:
        assert compare(found[False], found[True])
