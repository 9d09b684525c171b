"""GROUP BY as keys and grouping sets."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.aggregates.grouping import grouping
from dbt.adapters.spark_streaming.query.sql.dialect import parse_select, sql


@pytest.mark.parametrize(
    ("by", "keys", "sets"),
    [
        ("a, b", "a b", None),
        ("1, b", "a b", None),
        ("rollup (a, b)", "a b", [(0, 1), (0,), ()]),
        ("c, cube (a, b)", "c a b", [(0, 1, 2), (0, 1), (0, 2), (0,)]),
        ("grouping sets ((a, b), (), b)", "a b", [(0, 1), (), (1,)]),
        ("grouping sets (rollup (a, b), (b))", "a b", [(0, 1), (0,), (), (1,)]),
        ("grouping sets (grouping sets ((a), (b)), cube (b))", "a b", [(0,), (1,), (1,), ()]),
        ("grouping sets ((a, b), grouping sets (rollup (b), ()))", "a b", [(0, 1), (1,), (), ()]),
        ("b, a grouping sets ((a), (b))", "b a", [(1,), (0,)]),
        ("a, b with rollup", "a b", [(0, 1), (0,), ()]),
    ],
)
def test_grouping_sets_may_hold_others(by: str, keys: str, sets: list[tuple[int, ...]] | None) -> None:
    found = grouping(parse_select(f"select a, b, count(*) as n from t group by {by}"))
    assert " ".join(map(sql, found.keys)) == keys
    assert found.sets == (None if sets is None else tuple(sets))
