"""Queries written by hand, on DuckDB: as a stream in cuts they have batch's rows. (A few of them run on Spark, too.)"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from random import Random

import pytest

from dbt.adapters.spark_streaming.query import generate, planner
from dbt.adapters.spark_streaming.query.plan import Plan
from dbt.adapters.spark_streaming.query.program import Program
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row
from tests.differential.tree import TIME, Column
from tests.functional.query import test_operators, test_queries, test_unwindowed
from tests.functional.query.test_unwindowed import DAY
from tests.thorough import mostly_thorough

BIDS = (Column("ts", TIME), Column("bidder", "bigint"), Column("item", "string"), Column("price", "bigint"))
ASKS = (Column("ts", TIME), Column("item", "string"), Column("price", "bigint"))
ONLY_SPARK = {"streams: percentiles", "streams: percentiles of first rows", "operators: decimals of groups"}
"""DuckDB can't be told what they say."""


@pytest.fixture(scope="module")
def laboratory() -> duck.Laboratory:
    """Two streams in six pieces, with NULLs, ties, and rows up to 40 minutes out of order."""
    made = duck.Laboratory()
    for name, columns in (("bids", BIDS), ("asks", ASKS)):
        chance = Random(name)
        begin = datetime(2024, 3, 4, 8)
        rows: list[Row] = []
        for number in range(150):
            ts = begin + timedelta(seconds=40 * number + chance.choice((0, 30, 60, 90, 1200)))
            bidder, item = chance.choice((None, 1, 2, 3, 4)), chance.choice((None, "a", "b", "c"))
            price = chance.choice((None, *range(1, 90)))
            rows.append((ts, bidder, item, price) if name == "bids" else (ts, item, price))
        made.put(name, columns, [rows[25 * n : 25 * n + 25] for n in range(6)])
    return made


def _made(plan: Plan, ttl: int | None = None) -> tuple[str, Program]:
    return generate.batch(plan), generate.program(plan, ttl=ttl)


def _of_windows(name: str) -> tuple[str, Program]:
    return _made(planner.plan(test_queries.QUERIES[name]))


def _of_streams(name: str) -> tuple[str, Program]:
    return _made(test_unwindowed.planned(name), DAY if name in test_unwindowed.TTL else None)


def _of_operators(name: str) -> tuple[str, Program]:
    return _made(test_operators.planned(name), 30 * DAY if name in test_operators.TTL else None)


CASES = {
    **{f"windows: {name}": partial(_of_windows, name) for name in test_queries.QUERIES},
    **{f"streams: {name}": partial(_of_streams, name) for name in test_unwindowed.QUERIES},
    **{f"operators: {name}": partial(_of_operators, name) for name in test_operators.QUERIES},
}


_ON_DUCKDB = [name for name in CASES if name not in ONLY_SPARK]


@pytest.mark.parametrize("name", mostly_thorough(_ON_DUCKDB, _ON_DUCKDB[::6]))
@pytest.mark.parametrize("cuts", [4])
def test_a_stream_has_the_rows_of_batch(laboratory: duck.Laboratory, name: str, cuts: int) -> None:
    batch, program = CASES[name]()
    outcome = laboratory.stream(batch, program, cuts, delay=timedelta(hours=1))
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"
