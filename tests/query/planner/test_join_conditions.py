"""Conditions of a join: what goes below it, and which columns identify its rows."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.join import Join
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.auctions import A, B, auction_flow
from tests.query.trees import KNOWN, STREAM


@pytest.mark.parametrize(
    ("on", "key"),
    [("l.k = r.k and l.v = r.v", ("k", "v")), ("l.n = r.n", None), ("l.k = r.k", None)],
)
def test_a_query_that_is_read_twice_is_told_apart_by_all_of_its_keys(
    on: str, key: tuple[str, ...] | None
) -> None:
    text = f"""with g as (select k, v, count(*) as n from {STREAM} group by k, v)
      select l.k, l.v, l.n, r.n as m, r.v as w from g as l left join g as r on {on}"""
    found = plan_query.plan(text, KNOWN, DAY)
    upsert = generate.generate_program(found, ttl=DAY).upsert
    assert upsert is not None
    assert upsert.key == key


def test_what_a_row_must_have_is_asked_before_it_is_kept() -> None:
    found = auction_flow(
        f"select b.x from {B} as b join {A} as a on a.x = b.x where a.c = 10 and b.y > a.y", DAY
    ).root
    assert isinstance(found, Join)
    assert found.sql.endswith("WHERE b.y > a.y")
    below = [each.sql for each in found.inputs if isinstance(each, Project)]
    assert [text.endswith("WHERE a.c = 10") for text in below] == [False, True]
