"""What is known of the rows of UNION ALL."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.union_all import UnionAll
from dbt.adapters.spark_streaming.query.plan.relation import Relation
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Step

UNION = UnionAll(name="union_1", pairs={"a": "x", "b": "y"})


def test_columns_at_the_same_position_are_compared() -> None:
    left = Relation(complete_by={"a": "window_end", "b": "window_end"}, ends="a")
    right = Relation(complete_by={"x": "window_end", "b": "window_end"}, ends="x")
    found = UNION.relation_over([left, right])
    assert (found.complete_by, found.ends) == ({"a": "window_end"}, "a")
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
    found = star.relation_over([Relation(complete_by={"a": "window_end"}, delays={"b": 1})] * 2)
    assert (found.complete_by, found.delays) == ({}, {})


def test_rows_are_computed_once_if_a_side_is_random() -> None:
    one, random = Relation(), Relation(repeatable=False)
    assert UNION.relation_over([one, one]).repeatable
    assert not UNION.relation_over([one, random]).repeatable
    assert not UNION.relation_over([random, one]).repeatable


def test_a_random_union_that_is_read_twice_is_computed_once() -> None:
    one, other = ("(select /*+ STREAM */ * from s)", "(select /*+ STREAM */ * from t)")
    both = f"select id, rand() as r from {one} as s union all select id, rand() as r from {other} as t"
    text = (
        f"with u as ({both}) select id, r from u where r < 0.5 union all select id, -r from u where r >= 0.5"
    )
    known = {"s": RelationInfo(event_time="ts"), "t": RelationInfo(event_time="ts")}
    made = generate.generate_program(plan_query.plan(text, known))
    random = [each for each in made.items if isinstance(each, Step) and "RAND()" in each.sql]
    assert [each.persist for each in random] == [True, True]
    assert "RAND()" not in made.output
