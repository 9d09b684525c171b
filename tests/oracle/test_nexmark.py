"""Nexmark's queries, as its authors' public definitions have them in SQL: a stream's rows are those of the text in batch.

Those that Flink's own rows are there for (q5, q8, q16, q18, q20) are among the cases of `test_oracle`, too. q12 counts by
the clock on the wall, which gives other rows each time: here by event time. In DuckDB; q7 and more on Spark in
`tests/functional/query/test_operators.py`.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY, SECOND
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.differential.duck import Laboratory, Streamed, rows_of, translated
from tests.differential.outcome import compare
from tests.differential.tree import TIME, Column, Model, Written
from tests.thorough import mostly_thorough

COLUMNS = {
    "bid": "ts:time auction:bigint bidder:bigint price:bigint channel:varchar extra:varchar",
    "auction": "ts:time id:bigint seller:bigint category:bigint expires:time item:varchar",
    "person": "ts:time id:bigint name:varchar city:varchar state:varchar",
}
STREAMS = {name: f"(select /*+ STREAM */ * from {name})" for name in COLUMNS}


def window(kind: str, relation: str, *lengths: str, **options: Any) -> str:
    return expansion.expand_window(relation, window_arguments.make_window(kind, "ts", *lengths, **options))


B, A, P = (STREAMS[name] for name in ("bid", "auction", "person"))
_OF_AUCTION = f"from {A} as a join {B} as b on a.id = b.auction and b.ts between a.ts and a.expires"
_RANKS = (("rank1", "price < 30"), ("rank2", "price >= 30 and price < 70"), ("rank3", "price >= 70"))
_COUNTS = ", ".join(
    f"count(*) filter (where {where}) as {name}_bids, count(distinct bidder) filter (where {where}) as {name}_bidders, "
    f"count(distinct auction) filter (where {where}) as {name}_auctions"
    for name, where in _RANKS
)
_TOTALS = "count(*) as total_bids, count(distinct bidder) as total_bidders, count(distinct auction) as total_auctions"
_IN_CI = ["q0", "q3", "q5", "q7", "q12", "q17"]
QUERIES = {
    "q0": f"select auction, bidder, price, ts, extra from {B}",
    "q1": f"select auction, bidder, cast(price * 2 as bigint) as price, ts, extra from {B}",
    "q2": f"select auction, price from {B} where auction % 3 = 0",
    "q3": f"select p.name, p.city, p.state, a.id from {A} as a join {P} as p on a.seller = p.id "
    "where a.category = 10 and (p.state = 'OR' or p.state = 'ID' or p.state = 'CA')",
    "q4": "select category, avg(final) as final from (select max(b.price) as final, a.category "
    f"{_OF_AUCTION} group by a.id, a.category) group by category",
    "q5": "select n.auction, n.num, n.window_end from (select auction, count(*) as num, window_start, window_end "
    f"from {window('hop', 'bid', '2 seconds', '10 seconds')} group by auction, window_start, window_end) as n join ("
    "select max(num) as most, window_start, window_end from (select auction, count(*) as num, window_start, window_end "
    f"from {window('hop', 'bid', '2 seconds', '10 seconds')} group by auction, window_start, window_end) "
    "group by window_start, window_end) as m "
    "on n.window_start = m.window_start and n.window_end = m.window_end and n.num >= m.most",
    "q7": f"select b.auction, b.price, b.bidder, b.ts, b.extra from {B} as b join (select max(price) as most, window_end "
    f"from {window('tumble', 'bid', '10 seconds')} group by window_start, window_end) as w "
    "on b.price = w.most and b.ts between w.window_end - interval '10' second and w.window_end",
    "q8": "select p.id, p.name, p.window_start from (select id, name, window_start, window_end from "
    f"{window('tumble', 'person', '10 seconds')} group by id, name, window_start, window_end) as p join ("
    f"select seller, window_start, window_end from {window('tumble', 'auction', '10 seconds')} "
    "group by seller, window_start, window_end) as a "
    "on p.id = a.seller and p.window_start = a.window_start and p.window_end = a.window_end",
    "q9": "select id, item, seller, category, auction, bidder, price from (select a.id, a.item, a.seller, a.category, "
    "b.auction, b.bidder, b.price, row_number() over (partition by a.id order by b.price desc, b.ts) as place "
    f"{_OF_AUCTION}) where place <= 1",
    "q11": "select bidder, count(*) as bids, window_start, window_end "
    f"from {window('session', 'bid', '10 seconds', partition_by=['bidder'])} group by bidder, window_start, window_end",
    "q12": "select bidder, count(*) as bids, window_start, window_end "
    f"from {window('tumble', 'bid', '10 seconds')} group by bidder, window_start, window_end",
    "q13": f"select b.auction, b.bidder, b.price, b.ts, s.value from {B} as b join side as s on b.auction % 5 = s.key",
    "q14": "select auction, bidder, price * 2 as price, case when hour(ts) >= 8 and hour(ts) <= 18 then 'dayTime' "
    "when hour(ts) <= 6 or hour(ts) >= 20 then 'nightTime' else 'otherTime' end as of_day, ts, extra, "
    f"length(extra) - length(replace(extra, 'c', '')) as c_counts from {B} where price > 20 and price < 90",
    "q15": f"select date(ts) as day, {_TOTALS}, {_COUNTS} from {B} group by date(ts)",
    "q16": f"select channel, date(ts) as day, max(minute(ts)) as minute, {_TOTALS}, {_COUNTS} from {B} "
    "group by channel, date(ts)",
    "q17": "select auction, date(ts) as day, count(*) as total_bids, "
    + ", ".join(f"count(*) filter (where {where}) as {name}" for name, where in _RANKS)
    + ", min(price) as min_price, max(price) as max_price, avg(price) as avg_price, sum(price) as sum_price "
    f"from {B} group by auction, date(ts)",
    "q18": "select auction, bidder, price, channel, ts from (select *, row_number() over (partition by bidder, auction "
    f"order by ts desc) as place from {B}) where place <= 1",
    "q19": "select auction, bidder, price, place from (select *, row_number() over (partition by auction order by price desc"
    f") as place from {B}) where place <= 10",
    "q20": "select b.auction, b.bidder, b.price, b.ts, a.item, a.seller, a.category "
    f"from {B} as b join {A} as a on b.auction = a.id where a.category = 10",
}


def columns_of(name: str) -> tuple[Column, ...]:
    listed = [each.split(":") for each in COLUMNS[name].split()]
    return tuple(Column(column, TIME if kind == "time" else kind) for column, kind in listed)


def events(cuts: int) -> dict[str, list[list[tuple[Any, ...]]]]:
    """People, auctions and bids of two minutes, in time order: a second apart at most, no two bids at once."""
    chance = random.Random("nexmark")
    begin = datetime(2024, 3, 4, 8)
    found: dict[str, list[list[tuple[Any, ...]]]] = {name: [[] for _ in range(cuts)] for name in COLUMNS}
    for number in range(240):
        at, cut = begin + timedelta(milliseconds=500 * number), number * cuts // 240
        if number % 12 == 0:
            place = chance.choice(["OR", "ID", "CA", "WA"])
            found["person"][cut].append((at, number // 12, f"name {number % 5}", f"city {number % 7}", place))
        elif number % 4 == 0:
            until = at + timedelta(seconds=chance.randint(1, 20))
            seller, category = chance.randint(0, number // 12), chance.choice([10, 11])
            found["auction"][cut].append((at, number // 4, seller, category, until, f"item {number % 9}"))
        else:
            auction, bidder = max(0, number // 4 - chance.randint(0, 9)), chance.randint(0, 6)
            extra = "".join(chance.choice("abc") for _ in range(5))
            row = (at, auction, bidder, chance.randint(1, 100), chance.choice(["web", "app"]), extra)
            found["bid"][cut].append(row)
    return found


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    made = Laboratory()
    for name, cuts in events(3).items():
        made.put(name, columns_of(name), cuts)
    made.base.execute("create table side as select range as key, 'value ' || range as value from range(5)")
    return made


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_a_stream_has_the_rows_of_batch(laboratory: Laboratory, name: str) -> None:
    text = QUERIES[name]
    known = {each: RelationInfo("ts") for each in COLUMNS}
    ttl = None
    try:
        program = generate.generate_program(plan_query.plan(text, known))
    except plan_query.UnboundedStateError:
        ttl = DAY
        program = generate.generate_program(plan_query.plan(text, known, ttl), ttl=ttl)
    listed = [item.alias_or_name for item in plan_query.parse(text).expressions]
    model = Model(Written(text, tuple(Column(each, "bigint") for each in listed)))
    for folds in (False, True):
        streamed = Streamed(model, program, laboratory.base.cursor(), folds, delay=2 * SECOND)
        for number in range(3):
            streamed.take((number, number + 1))
        streamed.flush()
        expected = rows_of(
            laboratory.base.cursor().execute(translated(whole_query.text_in_batch(text))).fetchall()
        )
        assert expected
        assert not compare(expected, streamed.rows())
