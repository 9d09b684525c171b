"""What a grouped SELECT is stored as."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.aggregates.aggregate_builder import AggregateBuilder
from dbt.adapters.spark_streaming.query.sql.dialect import parse_select, sql


@pytest.mark.parametrize(
    "call",
    [
        *("any_value(v)", "any_value(v, true)", "any_value(v) ignore nulls", "any_value(v) respect nulls"),
        *("any_value(v, true) filter (where w)", "any_value(v) filter (where w) ignore nulls"),
    ],
)
def test_words_about_nulls_belong_to_the_aggregate(call: str) -> None:
    """Behind the column with its value they are no SQL."""
    made = AggregateBuilder(parse_select(f"select k, {call} as x from t group by k"), (), None)
    (metric,) = made.metrics.values()
    assert (metric.function, metric.arguments, metric.filter) == (
        "any_value",
        ("v",),
        "w" if "w)" in call else None,
    )
    assert sql(made.output("groups")) == f"SELECT `k` AS `k`, `{metric.name}` AS `x` FROM groups"


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ("k, sum(v) as s", None),
        ("*", "'*' in the select list of a GROUP BY"),
        ("k, w", "'w' is neither grouped nor aggregated"),
        ("k, percentile(v, 0.5) as p", "percentile(…) is not kept as partial aggregates"),
        ("k, sum((select 1)) as s", "'(SELECT 1)' holds a subquery"),
        ("k, percentile(v, 0.5) as p, w", "percentile(…) is not kept as partial aggregates"),
    ],
)
def test_the_first_reason_why_rows_are_stored_is_told(items: str, reason: str | None) -> None:
    made = AggregateBuilder(parse_select(f"select {items} from t group by k"), (), None)
    assert made.why_rows_are_stored == reason
