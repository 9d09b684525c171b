"""Over streams that have had no row, or none that passes, a stream's table has the rows that batch has, on DuckDB: a total
of no rows is a row."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from tests.corpus.operators import FIVE
from tests.corpus.unwindowed import KNOWN, A, B
from tests.differential import duck
from tests.differential.outcome import Rows, compare
from tests.differential.tables import Row
from tests.differential.tree import Column, Model, Written
from tests.differential.two_streams import ASKS, BIDS
from tests.planned import plan_of
from tests.thorough import mostly_thorough

COUNT = f"select count(*) as n, sum(price) as s from {B}"
HIGH = f"select count(*) as n, max(price) as m, count(distinct item) as d from {A} where price > 50"
QUERIES = {
    "a total": COUNT,
    "of few": HIGH,
    "every kind": f"""select avg(price) as a, min(price) as l, max_by(item, price) as b, bool_or(price > 5) as o,
        count_if(price > 3) as c, sum(distinct price) as d, coalesce(sum(price), -1) as z from {B}""",
    "kept rows": f"select percentile(price, 0.5) as p, count(*) as n from {B} where item <> 'a'",
    "having": f"{COUNT} having count(*) < 4",
    "having none": f"{COUNT} having count(*) = 0",
    "a constant beside it": f"select 'x' as k, count(*) as n, 1 + count(*) as m from {B}",
    "over groups": f"select count(*) as n, sum(c) as s from (select item, count(*) as c from {B} group by item)",
    "over a total": f"select count(*) as n, max(n) as m from ({COUNT})",
    "over windows": f"select count(*) as n, sum(total) as t from ({FIVE})",
    "over the first": f"select count(*) as n from (select * from {B} order by price desc, item, ts, bidder limit 3)",
    "over a join": f"select count(*) as n, sum(a.price) as s from {B} as b join {A} as a on a.item = b.item",
    "over distinct": f"select count(*) as n from (select distinct item from {B})",
    "over a difference": f"select count(*) as n from (select item from {B} except select item from {A})",
    "joined": f"select x.n, x.s, y.m, y.d from ({COUNT}) as x cross join ({HIGH}) as y",
    "joined on": f"select x.n, y.m from ({COUNT}) as x join ({HIGH}) as y on x.n = y.n",
    "joined, left": f"select x.n, y.m from ({COUNT}) as x left join ({HIGH}) as y on x.n = y.n",
    "joined, full": f"select x.n, y.m from ({COUNT}) as x full join ({HIGH}) as y on x.n = y.n",
    "scalar": f"select (select count(*) from {B}) as n",
    "scalars": f"select (select count(*) from {B}) as n, (select max(price) from {A}) as m, 7 as k",
    "scalar with a condition": f"select (select count(*) from {B} where price > 40) as n",
    "united": f"{COUNT} union all select count(*) as n, max(price) as s from {A}",
    "united, distinct": f"select count(*) as n from {B} union select count(*) as n from {A}",
    "united with groups": f"""select 'all' as k, count(*) as n from {B} union all
        select item, count(*) from {A} group by item""",
    "intersected": f"select count(*) as n from {B} intersect select count(*) as n from {A}",
    "except": f"select count(*) as n from {B} except select count(*) as n from {A} where price > 50",
    "ranked": f"select * from (select *, row_number() over (order by n) as rn from ({COUNT})) where rn <= 1",
    "ordered": f"{COUNT} order by n limit 1",
    "filtered": f"select n from ({COUNT}) where n = 0 or n > 3",
    "no total": f"select item, count(*) as n from {B} group by item",
    "grouping sets": f"select item, count(*) as n from {B} group by grouping sets ((), (item))",
    "in": f"select count(*) as n from {B} where item in (select item from {A})",
    "not more than": f"select b.price from {B} as b where b.price > (select count(*) from {A})",
}
AT = datetime(2024, 3, 4, 8)


def bid(minute: int, bidder: int, item: str | None, price: int | None) -> Row:
    return AT + timedelta(minutes=minute), bidder, item, price


BID_PIECES: list[list[Row]] = [
    [],
    [],
    [bid(0, 1, "a", 5), bid(1, 2, "b", 7), bid(2, 2, None, None)],
    [],
    [bid(9, 1, "a", 60), bid(12, 3, "c", 44)],
    [],
]
ASK_PIECES: list[list[Row]] = [
    [],
    [(AT, "a", 3), (AT, "q", 4)],
    [],
    [(AT + timedelta(minutes=3), "b", 70), (AT + timedelta(minutes=4), None, 80)],
    [],
    [],
]


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    return duck.Laboratory()


def show(laboratory: duck.Laboratory, pieces: int) -> None:
    """Makes the first rows all that the streams have."""
    laboratory.put("bids", BIDS, BID_PIECES)
    laboratory.put("asks", ASKS, ASK_PIECES)
    see(laboratory, pieces)


def see(laboratory: duck.Laboratory, pieces: int) -> None:
    for name in ("bids", "asks"):
        laboratory.base.execute(
            f"create or replace view {name} as select * exclude (piece__) from {name}__pieces where piece__ < {pieces}"
        )


def after_each(laboratory: duck.Laboratory, text: str) -> tuple[list[Rows], list[Rows]]:
    """Returns the rows of a stream's table after each micro-batch, and those that batch has then."""
    plan = plan_of(text, KNOWN)
    program, batch = generate.generate_program(plan), whole_query.batch_sql(plan)
    show(laboratory, len(BID_PIECES))
    expected = []

    def before(number: int) -> None:
        see(laboratory, number + 1)
        expected.append(duck.rows_of(laboratory.base.execute(duck.translated(batch)).fetchall()))

    return laboratory.steps(batch, program, len(BID_PIECES), timedelta(minutes=1), before), expected


_IN_CI = ["a total", "having", "over windows", "over a join", "except", "grouping sets"]


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_each_micro_batch_leaves_what_batch_has(laboratory: duck.Laboratory, name: str) -> None:
    found, expected = after_each(laboratory, QUERIES[name])
    if name != "over windows":
        for number, (has, wants) in enumerate(zip(found, expected, strict=False)):
            assert not compare(wants, has), f"after {number}: {compare(wants, has)}"
    assert not compare(expected[-1], found[-1])


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
def test_a_stream_without_any_row_is_batch(laboratory: duck.Laboratory, name: str) -> None:
    plan = plan_of(QUERIES[name], KNOWN)
    show(laboratory, 0)
    batch = whole_query.batch_sql(plan)
    expected = duck.rows_of(laboratory.base.execute(duck.translated(batch)).fetchall())
    columns = [each[0] for each in laboratory.base.execute(duck.translated(batch)).description or ()]
    model = Model(Written(batch, tuple(Column(each, "") for each in columns)))
    made = duck.Streamed(model, generate.generate_program(plan), laboratory.base.cursor(), fold=True)
    made.flush()
    assert not compare(expected, made.rows())
