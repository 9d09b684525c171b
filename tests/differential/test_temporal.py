"""Predicates on the time that goes by, written by hand, on DuckDB: in the end a table has the rows of its query in batch,
with the watermark in the place of the clock."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.temporal_filter import TemporalFilter
from tests.corpus.temporal_filters import KNOWN, QUERIES, WAITS, planned, ttl_of
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.tables import Row
from tests.differential.two_streams import put, rows_of
from tests.thorough import mostly_thorough

DELAY = timedelta(minutes=5)
_IN_CI = ["a left join", "at the very bound", "exists", "topn, then groups", WAITS]


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
    plan = planned(name)
    assert any(isinstance(each, TemporalFilter) for each in plan.dataflow.operators)
    batch = re.sub(
        r"(?i)current_timestamp(\(\))?", watermark(laboratory, QUERIES[name]), whole_query.batch_sql(plan)
    )
    # What is in order of time takes no row that is late.
    delay = timedelta(minutes=30) if name == WAITS else DELAY
    outcome = laboratory.stream(batch, generate.generate_program(plan, ttl=ttl_of(name)), cuts, delay)
    assert outcome.kind == EQUAL, f"{outcome.kind}: {outcome.detail}"
