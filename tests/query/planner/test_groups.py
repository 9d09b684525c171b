"""GROUP BY: as partial aggregates where these say the same, and else computed again for the groups that changed."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError, UnboundedStateError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.planner import plan_query
from tests.query.trees import OTHER, STREAM, flow, kinds, windows_over


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        (f"select k, sum(v) as s from {STREAM} group by k", "GroupAggregate"),
        (f"select k, count(distinct v) as d from {STREAM} group by k", "GroupAggregate"),
        (f"select k, percentile(v, 0.5) as m from {STREAM} group by k", "Recompute"),
    ],
)
def test_what_can_not_be_merged_is_computed_again(text: str, operator: str) -> None:
    found = kinds(flow(text))
    assert operator in found and ({"GroupAggregate", "Recompute"} & {*found}) == {operator}


def test_what_is_asked_about_a_group_is_asked_above_it() -> None:
    total = f"(select max(v) from {OTHER})"
    found = kinds(flow(f"select k, sum(v) as s from {STREAM} group by k having sum(v) > {total}"))
    assert found.index("GroupAggregate") < found.index("Recompute")


def test_grouping_sets_are_one_operator_whose_key_names_the_set() -> None:
    found = flow(f"select k, grouping_id() as g, count(*) as n from {STREAM} group by rollup(k)")
    assert kinds(found).count("GroupAggregate") == 1
    assert found.key is not None and {*found.key} == {"k", "g"}


def test_sets_that_are_numbered_in_another_order_are_another_operator() -> None:
    text = "select k, v, grouping_id() as g, count(*) as n from {} group by {} grouping sets ((k), (v))"
    united = f"{text.format(STREAM, 'k, v')} union all {text.format(STREAM, 'v, k')}"
    assert kinds(flow(united)).count("GroupAggregate") == 2


def test_a_group_of_random_values_waits_for_its_windows_like_others() -> None:
    rows = windows_over(f"(select l.ts, l.k from {STREAM} as l join {OTHER} as r on r.k = l.k)")
    for value in ("v", "rand()"):
        text = f"select k, count(*) as n, sum({value}) as s from {rows.replace('l.k from', 'l.k, l.v from')} group by k"
        found = kinds(flow(text))
        assert found.index("WindowClose") < found.index("GroupAggregate")


@pytest.mark.parametrize(
    "text",
    [
        "select s, count(*) as n from (select distinct {} from {} group by k) group by s",
        "select t.k from {1} as t where t.v > (select sum(s) + max(p) from (select {0} from {1} group by k))",
        "select t.k from {1} as t where t.v > (select stddev(v) + percentile(v, 0.5) from {1})",
    ],
)
def test_last_digits_count_where_a_group_is_no_row_of_the_result(text: str) -> None:
    with pytest.raises(QueryError, match=r"stddev\(\) of floating-point numbers has other last digits"):
        flow(text.format("k, stddev(v) as s, percentile(v, 0.5) as p", STREAM))


@pytest.mark.parametrize(
    ("call", "takes"),
    [("max_by(v)", 2), ("min_by()", 2), ("every()", 1), ("sum(distinct)", 1), ("max_by(*)", 2)],
)
def test_an_aggregate_without_its_arguments_is_refused(call: str, takes: int) -> None:
    with pytest.raises(QueryError, match=f"has too few arguments: .* takes {takes}"):
        flow(f"select k, {call} as m from {STREAM} group by k")


def test_no_ttl_is_proposed_for_groups_that_share_their_distinct_values() -> None:
    text = f"select /*+ ENUM_DISTINCT */ k, count(distinct v) as d from {STREAM} where k in ('a', 'b') group by k"
    with pytest.raises(
        UnboundedStateError,
        match=re.escape("for every value of k that ever comes. Set constant_domains: ['k'] if"),
    ):
        plan_query.plan(text, {"db.s": RelationInfo("ts")})
    assert plan_query.plan(text, {"db.s": RelationInfo("ts")}, None, ["k"])
    with pytest.raises(QueryError, match="leave enum_distinct or state_ttl out"):
        plan_query.plan(text, {"db.s": RelationInfo("ts")}, 10**12)
