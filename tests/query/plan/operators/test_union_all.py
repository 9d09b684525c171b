"""What is known of the rows of UNION ALL."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.plan.operators.union_all import UnionAll
from dbt.adapters.spark_streaming.query.plan.relation import Relation

UNION = UnionAll(name="union_1", pairs={"a": "x", "b": "y"})


def test_columns_at_the_same_position_are_compared() -> None:
    left = Relation(together={"a": "window_end", "b": "window_end"}, ends="a")
    right = Relation(together={"x": "window_end", "b": "window_end"}, ends="x")
    found = UNION.relation_over([left, right])
    assert (found.together, found.ends) == ({"a": "window_end"}, "a")
    assert UNION.relation_over([left, Relation(ends="y")]).ends is None


def test_a_time_is_late_by_the_later_side() -> None:
    found = UNION.relation_over([Relation(delays={"a": 5, "b": 1}), Relation(event_time="x")])
    assert (found.event_time, found.delays) == (None, {"a": 5})


def test_rows_are_retracted_and_bounded() -> None:
    one, other = Relation(True, bounded=True, keys=(frozenset({"a"}),)), Relation()
    found = UNION.relation_over([one, other])
    assert (found.changes, found.bounded, found.keys) == (True, False, ())
    assert UNION.relation_over([one, one]).bounded


def test_nothing_is_known_of_stars() -> None:
    star = UnionAll(name="union_1")
    found = star.relation_over([Relation(together={"a": "window_end"}, delays={"b": 1})] * 2)
    assert (found.together, found.delays) == ({}, {})
