"""A SELECT over streams becomes one over its inputs, which are operators."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.plan.operator import Operator
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.plan.operators.source import Source
from tests.query.trees import OTHER, STREAM, flow, only


def inputs(text: str, kind: type[Operator]) -> tuple[Operator, ...]:
    return only(flow(text), kind).inputs


def test_a_relation_that_is_read_twice_is_one_operator() -> None:
    found = flow(f"select a.k, b.v from {STREAM} as a join {STREAM} as b on a.k = b.k")
    assert sum(isinstance(each, Source) for each in found.operators) == 1


def test_a_subquery_of_one_row_is_kept_as_that_row() -> None:
    rows, total = inputs(
        f"select k, v from {STREAM} where v > (select avg(v) from {OTHER})",
        Recompute,
    )
    assert isinstance(rows, Project), "all rows"
    assert total.relation.keys == (frozenset(),), "and one, not all that it aggregates"


def test_a_correlated_subquery_keeps_the_rows_that_it_reads() -> None:
    text = f"select k, v from {STREAM} as a where v > (select avg(v) from {OTHER} as b where b.k = a.k)"
    found = flow(text)
    assert sum(isinstance(each, Source) for each in found.operators) == 2
    assert any(isinstance(each, GroupAggregate | Recompute) for each in found.operators)
