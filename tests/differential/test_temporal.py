"""Predicates on the time that goes by, written by hand, on DuckDB: in the end a table has the rows of its query in batch,
with the watermark in the place of the clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import Known
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.temporal_filter import TemporalFilter
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row
from tests.differential.two_streams import put, rows_of
from tests.planned import tree_of
from tests.thorough import mostly_thorough

KNOWN = {"bids": Known("ts"), "asks": Known("ts")}
B, A = ("(select /*+ STREAM */ * from bids) as b", "(select /*+ STREAM */ * from asks) as a")
DELAY = timedelta(minutes=5)
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
_IN_CI = ["a left join", "at the very bound", "exists", "topn, then groups", WAITS]
TTL = {"exists", "beside what stays"}


def _some_without_time(name: str) -> list[Row]:
    return [(None, *row[1:]) if number % 40 == 39 else row for number, row in enumerate(rows_of(name))]


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Two streams in six pieces, with NULLs and rows up to 20 minutes ahead of others."""
    made = duck.Laboratory()
    put(made, _some_without_time)
    return made


def watermark(laboratory: duck.Laboratory, text: str) -> str:
    """What the clock says in the end."""
    read = [name for name in KNOWN if f"from {name})" in text]
    asked = " union all ".join(f"select max(ts) as t from {name}" for name in read)
    ((newest,),) = laboratory.base.execute(f"select min(t) from ({asked})").fetchall()
    if text == QUERIES[WAITS]:
        # The flush lets go what waits for the clock, and moves it to the newest of these.
        ((last,),) = laboratory.base.execute("select max(ts) from asks").fetchall()
        return f"timestamp'{last.replace(tzinfo=None):%Y-%m-%d %H:%M:%S}.000001'"
    return f"timestamp'{newest.replace(tzinfo=None) - DELAY:%Y-%m-%d %H:%M:%S}'"


@pytest.mark.parametrize("name", mostly_thorough(QUERIES, _IN_CI))
@pytest.mark.parametrize("cuts", mostly_thorough([1, 3, 6], [3]))
def test_rows_leave_when_the_watermark_has_passed_them(
    laboratory: duck.Laboratory, name: str, cuts: int
) -> None:
    ttl = DAY if name in TTL else None
    plan = tree_of(QUERIES[name], KNOWN, ttl, ("item",))
    assert any(isinstance(each, TemporalFilter) for each in plan.dataflow.operators)
    batch = generate.batch(plan).replace("CURRENT_TIMESTAMP()", watermark(laboratory, QUERIES[name]))
    # What is in order of time takes no row that is late.
    delay = timedelta(minutes=30) if name == WAITS else DELAY
    outcome = laboratory.stream(batch, generate.program(plan, ttl=ttl), cuts, delay)
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"
