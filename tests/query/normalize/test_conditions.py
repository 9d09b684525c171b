"""What rows that meet have in common."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.normalize import conditions
from dbt.adapters.spark_streaming.query.sql.dialect import parse, sql

ASKED = "a.k in (select b.v from __input_1 as b where b.k = a.k)"


@pytest.mark.parametrize(
    ("having", "keys"),
    [
        (ASKED, (("a.k",), ("b.k",))),
        (f"a.k > 1 and {ASKED}", (("a.k",), ("b.k",))),
        (f"({ASKED}) = false", ((), ())),
        (f"coalesce({ASKED}, true)", ((), ())),
        (f"not {ASKED}", ((), ())),
    ],
)
def test_an_in_of_having_goes_by_the_rows_that_it_is_correlated_with(
    having: str, keys: tuple[tuple[str, ...], ...]
) -> None:
    select = parse(f"select a.k from __input_0 as a group by a.k having {having}")
    assert isinstance(select, exp.Select)
    found = conditions.partition_expressions(select, ["a"], 2)
    assert tuple(tuple(map(sql, each)) for each in found) == keys
