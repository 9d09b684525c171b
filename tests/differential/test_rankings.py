"""Rankings over groups, on DuckDB: cut in any way they have batch's rows, whatever falls, ties or is NULL in them."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from random import Random

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from tests.corpus.unwindowed import KNOWN, B
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row
from tests.differential.two_streams import PIECES, put, rows_of
from tests.planned import plan_of
from tests.thorough import mostly_thorough

FUNCTIONS = ("row_number", "rank", "dense_rank")
ORDERS = (
    "s desc",
    "s",
    "s desc nulls first, n",
    "s nulls last, m desc",
    "n desc, s",
    "m",
    "m desc nulls first, bidder",
    "item, s desc",
)
WITHIN = ("partition by item ", "partition by bidder, bidder ", "")
GROUPS = (
    f"""select item, bidder, count(*) as n, sum(price) as s, min(price) as m from {B} group by item, bidder"""
)


def _falling(name: str) -> list[Row]:
    """Sums that rise and fall, of few values: there are ties all over; and some that are NULL for long."""
    chance = Random(name)
    rare = {key: chance.random() < 0.5 for key in product((None, 1, 2, 3, 4), (None, "a", "b", "c"))}
    prices = (-2, -1, 0, 0, 1, 2)
    return [
        (*row[:-1], None if rare[row[-3:-1]] and chance.random() < 0.9 else chance.choice(prices))
        if name == "bids"
        else row
        for row in rows_of(name)
    ]


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Two streams in six pieces."""
    made = duck.Laboratory()
    put(made, _falling)
    return made


def _ranking(function: str, order: str, within: str, last: int, above: str) -> str:
    ranked = f"select *, {function}() over ({within}order by {order}) as place from ({GROUPS})"
    return above.format(f"select * from ({ranked}) where place <= {last}")


ABOVE = ("{}", "select place, count(*) as c, sum(s) as s from ({}) group by place")
# Any two of these meet, not any three.
QUERIES = [
    _ranking(
        FUNCTIONS[function],
        ORDERS[order],
        WITHIN[within],
        (1, 2, 5)[(within + order) % 3],
        ABOVE[(function + order) % 2],
    )
    for function, order, within in product(range(len(FUNCTIONS)), range(len(ORDERS)), range(len(WITHIN)))
]


@pytest.mark.parametrize("text", mostly_thorough(QUERIES, QUERIES[::27]))
def test_a_ranking_over_groups_is_batch_however_it_is_cut(laboratory: duck.Laboratory, text: str) -> None:
    plan = plan_of(text, KNOWN)
    assert any(isinstance(each, TopN) for each in plan.dataflow.operators)
    program = generate.generate_program(plan)
    for cuts in (2, PIECES):
        outcome = laboratory.stream(whole_query.batch_sql(plan), program, cuts, timedelta(hours=1))
        assert outcome.kind == EQUAL, f"{outcome.kind} in {cuts}: {outcome.detail}"
