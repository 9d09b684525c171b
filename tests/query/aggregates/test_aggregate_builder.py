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
