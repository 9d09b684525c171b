"""Streams of the project: what comes of a source, of a model whose rows change, and of a source with a unique key."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.plan.operators.changelog_normalize import ChangelogNormalize
from dbt.adapters.spark_streaming.query.plan.operators.source import Source
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import plan_of

ROWS = "select /*+ STREAM */ * from shop.orders"


def first(known: RelationInfo) -> tuple[Operator, ...]:
    """The operators of the rows, without what is above them."""
    operators = plan_of(ROWS, {"shop.orders": known}).dataflow.operators
    return tuple(each for each in operators if isinstance(each, Source | ChangelogNormalize))


def test_a_source_whose_rows_only_come() -> None:
    (source,) = first(RelationInfo("ts"))
    assert (source.relation.changes, source.relation.keys, source.relation.event_time) == (False, (), "ts")


def test_a_model_whose_rows_change_is_read_by_its_changelog() -> None:
    (source,) = first(RelationInfo("ts", ("Id",), changes=True))
    assert isinstance(source, Source) and source.changelog
    assert source.relation.changes and source.relation.keys == (frozenset({"id"}),)
    assert source.relation.bounded, "no more rows are live than the table has"


def test_each_row_of_a_source_with_a_unique_key_replaces_the_one_before() -> None:
    source, latest = first(RelationInfo("ts", ("id",)))
    assert isinstance(latest, ChangelogNormalize) and latest.inputs == (source,)
    assert (latest.key, latest.time) == (("id",), "ts")
    assert latest.relation.changes and latest.relation.keys == (frozenset({"id"}),)
    assert latest.growth is not None and "a row for every value of id" in latest.growth.what


def test_a_ttl_would_forget_rows_that_stay() -> None:
    known = {"shop.orders": RelationInfo("ts", ("id",))}
    with pytest.raises(QueryError) as problem:
        plan_query.plan(ROWS, known)
    assert "ever comes. Set constant_domains: ['id'] if the set of their values doesn't grow" in str(
        problem.value
    )
    assert "state_ttl" not in str(problem.value)
    with pytest.raises(
        QueryError, match=r"config 'state_ttl' forgets what was idle, but the rows of shop\.orders"
    ):
        plan_query.plan(ROWS, known, DAY)
    plan_query.plan(ROWS, known, DAY, domains=("id",))
