"""MIN_BY and MAX_BY of rows that tie take the same value wherever they stand, cut in any way and in batch, on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row
from tests.differential.two_streams import PIECES, put, rows_of
from tests.functional.query.test_unwindowed import KNOWN, A, B
from tests.planned import plan_of
from tests.thorough import mostly_thorough

QUERIES = {
    "groups": f"select item, max_by(bidder, price) as m, min_by(bidder, price) as l from {B} group by item",
    "filtered": f"select max_by(bidder, price) filter (where item <> 'a') as m from {B}",
    "asked for a row": f"""select a.item, a.price, (select max_by(b.bidder, b.price) from {B} as b where b.item = a.item)
        as m from {A} as a""",
    "asked for a row, by another condition": f"""select a.item, a.price, (select min_by(b.bidder, b.price) from {B} as b
        where b.item = a.item and b.price < a.price) as m from {A} as a""",
    "compared": f"""select a.item, a.price from {A} as a
        where 2 < (select max_by(b.bidder, b.price) from {B} as b where b.item = a.item)""",
    "asked by none": f"select (select max_by(bidder, price) from {B}) as m, (select count(*) from {A}) as n",
    "beside kept rows": f"""select item, max_by(bidder, price) as m, percentile(price, 0.5) as p from {B} group by item""",
    "above them": f"""select m, count(*) as n from (select item, max_by(bidder, price) as m, percentile(price, 0.5) as p
        from {B} group by item) group by m""",
}


def _tied(name: str) -> list[Row]:
    """Prices of three values."""
    return [(*row[:-1], None if row[-1] is None else row[-1] % 3) for row in rows_of(name, 90)]


@pytest.fixture(scope="module")
def laboratory() -> Iterator[duck.Laboratory]:
    made = duck.Laboratory()
    put(made, _tied)
    yield made
    made.base.close()


@pytest.mark.parametrize(
    "name", mostly_thorough(QUERIES, ["groups", "filtered", "beside kept rows", "compared"])
)
def test_ties_are_decided(laboratory: duck.Laboratory, name: str) -> None:
    plan = plan_of(QUERIES[name], KNOWN)
    in_batch = plan_query.text_in_batch(QUERIES[name])
    assert "STRUCT(" in in_batch
    for cuts in (1, PIECES):
        found = laboratory.stream(in_batch, generate.program(plan), cuts, timedelta(hours=1))
        assert found.kind == EQUAL, f"{found.kind} in {cuts}: {found.detail}"
