"""What is known of joined rows."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.plan.relation import Relation
from dbt.adapters.spark_streaming.query.plan.relations.joined import JoinedRelations, preserved_sides
from dbt.adapters.spark_streaming.query.sql.dialect import parse

ONE = Relation(keys=(frozenset({"k"}),), complete_by={"e": "window_end"}, ends="e", event_time="ts")
OTHER = Relation(keys=(frozenset({"id"}),), complete_by={"e": "window_end"}, ends="e")


def joined(text: str) -> JoinedRelations:
    select = parse(text)
    assert isinstance(select, exp.Select)
    return JoinedRelations(select, (ONE, OTHER))


@pytest.mark.parametrize(
    ("items", "join", "expected"),
    [
        ("a.k, b.id", "join __input_1 as b on a.v = b.v", ["id", "k"]),
        ("a.k, b.id as i", "left join __input_1 as b on a.v = b.v", ["i", "k"]),
        ("a.k", "join __input_1 as b on a.v = b.id", ["k"]),
        ("a.k", "left join __input_1 as b on a.v = b.id", ["k"]),
        ("a.k", "right join __input_1 as b on a.v = b.id", None),
        ("a.k", "join __input_1 as b on b.v = b.id", None),
        ("a.k", "join __input_1 as b on a.v = b.v", None),
        ("a.k", "left semi join __input_1 as b on a.v = b.v", ["k"]),
        ("a.k, b.id, explode(a.x) as y", "join __input_1 as b on a.v = b.v", None),
    ],
)
def test_the_columns_that_identify_a_pair(items: str, join: str, expected: list[str] | None) -> None:
    found = [sorted(key) for key in joined(f"select {items} from __input_0 as a {join}").keys]
    assert found == ([] if expected is None else [expected])


def test_only_a_side_that_each_row_has_says_when_rows_come() -> None:
    found = joined(
        "select a.e as one, b.e as other from __input_0 as a left join __input_1 as b on a.k = b.id"
    )
    assert (found.outputs.complete_by, found.window_end_column) == ({"one": "window_end"}, "one")


def test_a_pair_comes_with_the_later_of_its_rows() -> None:
    text = "select a.ts as at, a.ts + interval 1 second as later, a.k from __input_0 as a, __input_1 as b"
    assert joined(text).delays({("a", "ts"): 5_000_000}) == {"at": 5_000_000, "later": 4_000_000}


def test_an_anti_join_returns_rows_of_one_side() -> None:
    text = "select a.ts from __input_0 as a left anti join __input_1 as b on a.k = b.id"
    assert joined(text).delays({("a", "ts"): 5, ("b", "ts"): 9}) == {"ts": 5}


@pytest.mark.parametrize(("side", "expected"), [("", ("a",)), ("right", ("b",)), ("full", ("a", "b"))])
def test_the_sides_whose_rows_without_a_match_count(side: str, expected: tuple[str, ...]) -> None:
    select = parse(f"select * from a {side} join b on a.k = b.k")
    assert isinstance(select, exp.Select)
    assert preserved_sides(select) == expected
