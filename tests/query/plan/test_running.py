"""Values that are added up from row to row."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.plan.running import with_running_values
from dbt.adapters.spark_streaming.query.sql.dialect import parse


@pytest.mark.parametrize(
    ("argument", "counted"),
    [
        ("a", "NOT a IS NULL"),
        ("a + 1", "NOT a + 1 IS NULL"),
        ("a > b", "NOT (a > b) IS NULL"),
        ("not a", "NOT (NOT a) IS NULL"),
        ("a or b", "NOT (a OR b) IS NULL"),
        ("a is null", "NOT (a IS NULL) IS NULL"),
        ("a in (1, b)", "NOT (a IN (1, b)) IS NULL"),
        ("a, b or c", "NOT a IS NULL AND NOT (b OR c) IS NULL"),
        ("*", "TRUE"),
    ],
)
def test_a_count_is_of_rows_whose_arguments_are_not_null(argument: str, counted: str) -> None:
    query = parse(f"select k, count({argument}) over (partition by k order by ts) as n from __input_0 as s")
    assert isinstance(query, exp.Select)
    made = with_running_values(query, "s")
    assert made is not None
    assert [each.value for each in made[1]] == [f"CAST({counted} AS BIGINT)"]
