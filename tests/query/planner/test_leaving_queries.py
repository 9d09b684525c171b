"""Queries that leave their windows, and what is not attempted because of them."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import NotWithinWindows, QueryError, UnintendedQueryError
from dbt.adapters.spark_streaming.query.planner.leaving_queries import LeavingQueries
from dbt.adapters.spark_streaming.query.rewrites.stream_rewrites import Rewrites
from dbt.adapters.spark_streaming.query.sql.dialect import parse
from dbt.adapters.spark_streaming.query.sql.nodes import copied, every

INNER = "select k, count(*) as n from t group by k"
AROUND = f"select n, count(*) as times from ({INNER}) as g group by n"


def leaving(text: str = AROUND) -> LeavingQueries:
    """Nothing is known yet of a text."""
    return LeavingQueries(Rewrites(parse(text), text))


def innermost(tree: exp.Query) -> exp.Query:
    """The query without another one in it."""
    return [*every(tree, exp.Query)][-1]


def must_not_be_planned() -> str:
    """What no query may come to that is known to leave its windows."""
    raise AssertionError("planned again")


def test_a_plan_that_is_made_is_returned() -> None:
    assert leaving().plan_unless_left(parse(AROUND), lambda: "plan") == "plan"


def test_a_reason_is_returned_and_concerns_only_the_query_that_it_is_of() -> None:
    found, reason = leaving(), NotWithinWindows("No GROUP BY window_end.")

    def plan() -> str:
        raise reason

    assert found.plan_unless_left(parse(AROUND), plan) is reason
    assert found.plan_unless_left(parse(INNER), lambda: "plan") == "plan"


@pytest.mark.parametrize("text", [INNER, AROUND, f"select * from ({AROUND}) as a where n > 1"])
def test_a_query_around_one_that_leaves_is_not_planned_again(text: str) -> None:
    found, reason, tree = leaving(), QueryError("It leaves them."), parse(text)
    found.add(innermost(tree), reason)
    assert found.plan_unless_left(tree, must_not_be_planned) is reason
    assert found.plan_unless_left(copied(tree), must_not_be_planned) is reason


def test_a_query_that_has_been_rewritten_is_planned_again() -> None:
    found, tree = leaving(), parse(AROUND)
    found.add(innermost(tree), QueryError("Its GROUP BY leaves them."))
    innermost(tree).set("group", None)
    assert found.plan_unless_left(tree, lambda: "plan") == "plan"


def test_an_unintended_query_is_refused_at_once() -> None:
    def plan() -> str:
        raise UnintendedQueryError("Hardly what you meant.")

    with pytest.raises(UnintendedQueryError, match="Hardly"):
        leaving().plan_unless_left(parse(AROUND), plan)


def test_outcomes_of_rewrites_are_those_of_plans_that_are_made() -> None:
    text = "select /*+ SPLIT_TOPN(4) */ * from (select *, rank() over (order by a) as r from t) where r < 9"
    rewrites = Rewrites(parse(text), text)
    found = LeavingQueries(rewrites)

    def plan() -> str:
        rewrites.split_ranking("top")
        raise QueryError("It leaves them.")

    found.plan_unless_left(parse(AROUND), plan)
    assert not rewrites.done
