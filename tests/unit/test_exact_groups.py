"""Which groups keep the row that they gave last: those whose values differ when they are added up in another order."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.aggregates import Types
from dbt.adapters.spark_streaming.query.operators.groups import is_inexact
from dbt.adapters.spark_streaming.query.plan import Metric
from dbt.adapters.spark_streaming.stream.differences import differences, evolution

WHOLE = Types("bigint", "bigint", "double", "int")
MEAN_OF_WHOLE = Types("double", "bigint", "double", "int")
DECIMAL = Types("decimal(14,6)", "decimal(20,2)", "decimal(38,18)", "decimal(10,2)")
DOUBLE = Types("double", "double", "double", "double")


@pytest.mark.parametrize(
    ("function", "types", "inexact"),
    [
        ("count", None, False),
        ("max", None, False),
        ("sum", WHOLE, False),
        ("sum", DECIMAL, False),
        ("sum", DOUBLE, True),
        ("sum", None, True),
        ("avg", DECIMAL, False),
        ("avg", MEAN_OF_WHOLE, True),
        ("avg", DOUBLE, True),
        ("stddev", None, True),
    ],
)
def test_only_floating_point_depends_on_the_order(function: str, types: Types | None, inexact: bool) -> None:
    assert is_inexact(Metric("m", function, ("n",), None, None, f"{function}(n)", types=types)) is inexact


def _tree(**group: object) -> dict[str, object]:
    parts = ["g_groups", *([str(group["given"])] if "given" in group else [])]
    return {
        "version": 2,
        "stages": [],
        "operators": {"g": "by k"},
        "inputs": {"g": []},
        "root": "g",
        "remade": True,
        "groups": {"g": {"operator": "g", "keys": {}, "metrics": {}, **group}},
        "parts": {"g": parts},
        "output": "output",
        "state_ttl": True,
    }


def test_a_state_with_rows_given_last_goes_on_where_they_are_needed_no_more() -> None:
    assert differences(_tree(given="g_given"), _tree()) == []
    # The other way they would be missing for the groups that are there.
    assert evolution(_tree(), _tree(given="g_given")).refused
