"""Subqueries beside a GROUP BY are computed below or above it."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.normalize import above_groups
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import tree_of
from tests.query.trees import KNOWN, OTHER, STREAM, flow, kinds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select k, v, count(*) as n from {STREAM} group by rollup (k, v) having max(v) > (select max(v) from {OTHER})",
            "is in a SELECT with grouping sets; put the GROUP BY into a subquery in FROM",
        ),
        (
            f"select s.k, (select max(v) from {OTHER} as t where t.k = s.v) as m, max(v) from {STREAM} as s group by s.k",
            "'s.v' is used in a subquery of the groups' select list or HAVING, and is no key",
        ),
        (
            f"select k, (select min(v) from {OTHER}) as m, rank() over (order by k) as r from {STREAM} group by k",
            "or in a SELECT with OVER or LIMIT; join it in a subquery in FROM instead, and group, rank or limit the rows of",
        ),
        (
            f"select k, stddev(v), (select min(v) from {OTHER}) as m from {STREAM} group by k",
            "'STDDEV(v)' is next to OVER or a subquery over a stream, and has no name",
        ),
        (
            f"select k, collect_list(v)[0], (select min(v) from {OTHER}) as m from {STREAM} group by k",
            "'COLLECT_LIST(v)[0]' is next to OVER or a subquery over a stream, and has no name",
        ),
    ],
)
def test_subqueries_beside_groups_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as problem:
        plan_query.plan(text, KNOWN, DAY)
    assert sentence in str(problem.value)


@pytest.mark.parametrize(
    "text",
    [
        f"select count(*) as n from {STREAM} group by k in (select k from {OTHER})",
        f"select k, sum(v - (select min(v) from {OTHER})) as s from {STREAM} group by rollup (k)",
        f"select k, count(*) filter (where v > (select min(v) from {OTHER})) as s from {STREAM} group by k",
    ],
)
def test_subqueries_that_are_asked_for_each_row_are_computed_below_groups(text: str) -> None:
    found = flow(text)
    assert {"GroupAggregate", "Recompute"} & {*kinds(found)} == {"GroupAggregate", "Recompute"}


def test_not_in_is_asked_as_one_question() -> None:
    """Of IN alone, in a select list, Spark makes false where it is NULL."""
    asked = f"count(case when not (v in (select v from {OTHER})) then 1 end)"
    texts = " ".join(
        step.sql
        for step in generate.generate_program(
            tree_of(f"select k, {asked} as n from {STREAM} group by k", KNOWN, DAY), ttl=DAY
        ).items_of_kind(Step)
    )
    assert "WHEN `__asked_0`" in texts or "WHEN __asked_0" in texts


@pytest.mark.parametrize(
    "text",
    [
        f"select k, lag(v) over (partition by k order by ts) in (select v from {OTHER}) as m from {STREAM}",
        f"select k, sum(v - (select min(v) from {OTHER})) as s, (select max(v) from {OTHER}) as m from {STREAM} group by k",
        f"select k, count(case when v - (select min(v) from {OTHER}) in (select v from {OTHER}) then 1 end) as n "
        f"from {STREAM} group by k",
    ],
    ids=["OVER in IN", "one below and one above", "one inside another"],
)
def test_queries_that_are_not_all_asked_for_each_row_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"[Ss]ubquery (over a stream )?(is|can't be) in"):
        tree_of(text, KNOWN, DAY)


@pytest.mark.parametrize(
    "call",
    [
        "percentile_cont(0.5) within group (order by v)",
        "any_value(v) ignore nulls",
        "listagg(k) within group (order by k)",
    ],
)
def test_an_aggregate_stays_whole_below_a_subquery(call: str) -> None:
    select = parse(f"select k, {call} as a, (select min(v) from {OTHER}) as m from {STREAM} group by k")
    assert isinstance(select, exp.Select)
    assert "__aggregate_1` AS a" in sql(above_groups.select_over_groups(select))
    assert sql(parse(call.join(("select ", "")))).removeprefix("SELECT ") in sql(
        above_groups.select_over_groups(select)
    )
