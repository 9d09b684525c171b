"""OVER whose ORDER BY leaves rows equal, on DuckDB: cut in any way it has batch's rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from tests.corpus.unwindowed import KNOWN, B
from tests.corpus.windows import window
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row
from tests.differential.two_streams import PIECES, put, rows_of
from tests.planned import plan_of

IN_TIME = "over (partition by item order by ts)"
WINDOW = "partition by window_start, window_end"
QUERIES = [
    f"select item, ts, lag(price) {IN_TIME} as before from {B}",
    f"select *, lag(price, 2, 0) {IN_TIME} as before from {B}",
    f"select b.item, lead(price) {IN_TIME} as after from {B} as b",
    f"select item, sum(price) over (partition by item order by ts rows 2 preceding) as s from {B}",
    f"select item, ts, first_value(price) {IN_TIME} as first, row_number() {IN_TIME} as n from {B}",
    f"select item, ts, row_number() {IN_TIME} as n, sum(price) over (partition by item order by price) as s from {B}",
    f"select bidder as item, case when lag(price) {IN_TIME} > 40 then price when bidder > 2 then 1 end as c from {B}",
    f"select item, count(*) as n, lag(item) over (order by count(*)) as before from {B} group by item",
    f"select item, before, lag(before) over (order by n) as two from (select item, bidder, count(*) as n, "
    f"lag(bidder) over (partition by item order by count(*)) as before from {B} group by item, bidder)",
    f"select item, bidder, lag(price) over ({WINDOW} order by item) as p from {window('tumble', '10 minutes')}",
    f"select item, ntile(3) over ({WINDOW} order by item) as n, price from {window('tumble', '10 minutes')}",
    f"select item, sum(n) over ({WINDOW} order by n rows 1 preceding) as s from (select window_start, window_end, item, "
    f"count(*) as n from {window('tumble', '10 minutes')} group by window_start, window_end, item)",
]


def _tied(name: str) -> list[Row]:
    """Rows of which several have one time, far apart in the stream."""
    return [(row[0].replace(minute=row[0].minute // 5 * 5, second=0), *row[1:]) for row in rows_of(name)]


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Two streams in six pieces."""
    made = duck.Laboratory()
    put(made, _tied)
    return made


@pytest.mark.parametrize("text", QUERIES)
def test_rows_that_are_equal_by_the_order_have_one_order(laboratory: duck.Laboratory, text: str) -> None:
    plan = plan_of(text, KNOWN)
    program = generate.generate_program(plan)
    for cuts in (1, 2, PIECES):
        outcome = laboratory.stream(whole_query.batch_sql(plan), program, cuts, timedelta(hours=1))
        assert outcome.kind == EQUAL, f"{outcome.kind} in {cuts}: {outcome.detail}"
