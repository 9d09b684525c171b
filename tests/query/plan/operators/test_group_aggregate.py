"""GROUP BY: when it is kept from changes, and the types of its sums."""

from __future__ import annotations

from sqlglot import exp

from dbt.adapters.spark_streaming.query.aggregates.aggregates import TYPED
from dbt.adapters.spark_streaming.query.normalize import above_groups
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.stream.evolution.compare import differences
from tests.planned import signature_of
from tests.query.auctions import BEST, auction_flow, keeping
from tests.query.trees import KNOWN, OTHER, STREAM, flow, kinds, per_window


def test_groups_of_window_results_are_kept_from_changes() -> None:
    found = flow(f"select k, sum(n) as n from ({per_window('5 minutes')}) group by k", ttl=None)
    assert kinds(found) == ["WindowAggregate", "WindowResults", "GroupAggregate", "Project"]
    assert found.key == ("k",)


def test_groups_of_groups_know_the_types_of_their_sums() -> None:
    asked: list[str] = []

    def ask(query: str) -> tuple[str, ...]:
        asked.append(query)
        return ("decimal(14,6)", "decimal(20,2)", "decimal(38,18)", "decimal(10,2)") * (
            query.count("TYPEOF") // 4
        )

    text = f"select k, sum(n) as n, avg(n) as m, sum(distinct n) as d from ({per_window('5 minutes')}) group by k"
    found, without = plan_query.plan(text, KNOWN, DAY, ask=ask), plan_query.plan(text, KNOWN, DAY)
    specs = [each.spec for each in found.dataflow.operators if isinstance(each, GroupAggregate)]
    metrics = [metric for spec in specs for metric in spec.metrics if metric.function in TYPED]
    assert len(metrics) == 3 and all(metric.types is not None for metric in metrics)
    assert len(asked) == len(set(asked)) == 1
    assert differences(signature_of(without), signature_of(found)) == [
        "how its aggregates are kept: their values are of another type"
    ]


def test_a_key_that_is_computed_hides_no_column() -> None:
    inner = f"(select max(v) from {OTHER} as o where o.k = k)"
    select = parse(f"select upper(k) as k, count(*) as n, {inner} as m from {STREAM} group by upper(k), k")
    assert isinstance(select, exp.Select)
    assert "SELECT UPPER(k) AS `__key_0`, k AS `k`, COUNT(*)" in sql(above_groups.select_over_groups(select))


def test_rows_that_come_and_go_are_undone_or_counted_by_value() -> None:
    found = auction_flow(
        f"select x, count(*), sum(y), avg(y), max(y), count(distinct z) from {BEST} group by x"
    )
    # The feed says what goes: nothing of it is kept.
    assert keeping(found) == [GroupAggregate]
    (group,) = found.groups.values()
    assert group.spec.has_retractions
    assert [metric.distinct_set for metric in group.spec.metrics] == [
        None,
        None,
        None,
        "distinct_y",
        "distinct_z",
    ]
