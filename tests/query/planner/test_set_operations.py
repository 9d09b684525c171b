"""UNION, INTERSECT, EXCEPT and DISTINCT."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError, UnboundedStateError
from dbt.adapters.spark_streaming.query.plan.operators.union_all import UnionAll
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.trees import KNOWN, OTHER, STREAM, flow, kinds, windows_over


def test_a_union_with_what_is_no_stream_says_so() -> None:
    with pytest.raises(QueryError) as problem:
        plan_query.plan(f"select k from {STREAM} except select k from db.dim", KNOWN, DAY)
    assert str(problem.value).startswith(
        "EXCEPT puts a stream together with 'SELECT k FROM db.dim', which is none;"
    )


@pytest.mark.parametrize(
    "rows", ["select 1", "values (1)", "select * from values (1), (2) as t(k)", "select explode(array(1))"]
)
def test_a_set_operation_with_rows_that_are_written_out_says_what_to_write(rows: str) -> None:
    for kind, instead in (
        (
            "except",
            "Leave them out with a condition, as in SELECT DISTINCT … WHERE k IS DISTINCT FROM 1; or write them",
        ),
        (
            "intersect",
            "Keep them with a condition, as in SELECT DISTINCT … WHERE k IS NOT DISTINCT FROM 1; or write them",
        ),
        ("union all", "Write them into a table, such as a seed, and read that as a stream"),
        ("except all", "from no table. Write them into a table, such as a seed"),
    ):
        with pytest.raises(QueryError) as problem:
            plan_query.plan(f"select k from {STREAM} {kind} {rows}", KNOWN, DAY)
        assert instead in str(problem.value)


def _names(text: str) -> set[str]:
    return {each.name for each in flow(text).operators if isinstance(each, UnionAll)}


def test_union_all_in_another_order_is_the_same_operator_where_its_columns_are() -> None:
    one, other = f"select k, v from {STREAM}", f"select k, v from {OTHER}"
    assert _names(f"{one} union all {other}") == _names(f"{other} union all {one}")
    turned = f"select v, k from {OTHER}"
    renamed = f"select k as a, v as b from {OTHER}"
    for each in (turned, renamed):
        assert _names(f"{one} union all {each}") != _names(f"{each} union all {one}")


def test_two_unions_of_sides_with_other_columns_in_one_query() -> None:
    one, other = f"select k as a, v as b from {STREAM}", f"select v as c, k as d from {OTHER}"
    found = flow(
        f"with x as ({one} union all {other}), y as ({other} union all {one}) "
        "select x.a, x.b from x left semi join y on x.a = y.d"
    )
    assert kinds(found).count("UnionAll") == 2


def test_distinct_over_sessions_whose_silent_steps_are_left_out() -> None:
    steps = windows_over("db.s", "dynamic_cumulate", "1 minute", "5 minutes", emit="on_change")
    text = (
        f"select distinct w.window_start, w.window_end, w.k from {steps} as w join {OTHER} as r on r.k = w.k"
    )
    assert "GroupAggregate" in kinds(flow(text))


@pytest.mark.parametrize("operation", ["union", "intersect", "except", "intersect all", "except all"])
def test_constant_domains_bound_the_rows_that_a_set_operation_counts(operation: str) -> None:
    text = (
        f"select k from {STREAM} {operation} (select v from {OTHER} {operation} select v % 7 from {STREAM})"
    )
    with pytest.raises(UnboundedStateError) as problem:
        plan_query.plan(text, KNOWN)
    assert "or constant_domains: ['v'] if the set of their values doesn't grow" in str(problem.value)
    with pytest.raises(UnboundedStateError) as problem:
        plan_query.plan(text, KNOWN, domains=["v"])
    assert "or constant_domains: ['k', 'v']" in str(problem.value)
    found = plan_query.plan(text, KNOWN, domains=["k", "v"])
    (below, _) = found.dataflow.root.inputs
    assert found.dataflow.root.relation.bounded == (not operation.endswith(" all")) and not below.growth


@pytest.mark.parametrize("side", ["*", "uuid() as a", "k, v"])
def test_rows_that_constant_domains_do_not_name_are_unbounded(side: str) -> None:
    columns = "k, v" if side == "k, v" else "k"
    with pytest.raises(UnboundedStateError):
        plan_query.plan(
            f"select {columns} from {STREAM} union select {side} from {OTHER}", KNOWN, domains=["k"]
        )
