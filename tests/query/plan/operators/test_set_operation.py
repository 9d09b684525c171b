"""Set operations count each row on either side, and give it as often as both counts say."""

from __future__ import annotations

import duckdb
import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.set_operation import SetOperation
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import tree_of
from tests.query.trees import KNOWN, OTHER, STREAM, flow, only


def planned(words: str) -> SetOperation:
    found = only(flow(f"select k, v from {STREAM} {words} select k, v from {OTHER}"), SetOperation)
    assert isinstance(found, SetOperation)
    return found


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ("intersect all", {(2, 3): 2, (2, 0): 0}),
        ("intersect", {(2, 3): 1, (2, 0): 0}),
        ("except all", {(3, 1): 2, (1, 3): 0}),
        ("except", {(3, 0): 1, (3, 1): 0}),
    ],
)
def test_how_often_a_row_is_in_the_result(words: str, counts: dict[tuple[int, int], int]) -> None:
    text = planned(words).multiplicity_sql.replace("1L", "1").replace("0L", "0")
    for (left, right), times in counts.items():
        (found,) = duckdb.execute(f"select {text} from (select {left} as l, {right} as r)").fetchall()
        assert int(found[0]) == times, (text, left, right)


@pytest.mark.parametrize(
    ("words", "sides", "stays"),
    [
        ("intersect", [True, False], True),
        ("intersect", [False, False], False),
        ("except", [True, False], True),
        ("except", [False, True], False),
    ],
)
def test_whose_rows_stay_keep_the_result(words: str, sides: list[bool], stays: bool) -> None:
    assert planned(words).rows_never_expire(sides) is stays


def test_an_idle_row_expires_with_a_ttl() -> None:
    text = f"select k, v from {STREAM} intersect select k, v from {OTHER}"
    program = generate.generate_program(tree_of(text, KNOWN, DAY), ttl=DAY)
    (part,) = (each for each in program.parts if "intersect" in each.name or each.forgets)
    assert part.forgets == DAY
