"""Queries that leave their windows."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
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


def test_nothing_leaves_at_first() -> None:
    assert leaving().reason_of(parse(AROUND)) is None


@pytest.mark.parametrize("text", [INNER, AROUND, f"select * from ({AROUND}) as a where n > 1"])
def test_a_query_around_one_that_leaves_leaves_for_the_same_reason(text: str) -> None:
    found, reason, tree = leaving(), QueryError("It leaves them."), parse(text)
    found.add(innermost(tree), reason)
    assert found.reason_of(tree) is reason
    assert found.reason_of(copied(tree)) is reason


def test_a_query_in_one_that_leaves_may_stay() -> None:
    found, tree = leaving(), parse(AROUND)
    found.add(tree, QueryError("It leaves them."))
    assert found.reason_of(innermost(tree)) is None


def test_a_query_that_has_been_rewritten_may_stay() -> None:
    found, tree = leaving(), parse(AROUND)
    found.add(innermost(tree), QueryError("Its GROUP BY leaves them."))
    innermost(tree).set("group", None)
    assert found.reason_of(tree) is None
