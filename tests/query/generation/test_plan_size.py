"""No plan of a micro-batch of operators is too large for Spark."""

from __future__ import annotations

import re

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.generation.plan_size import MOST, with_bounded_plans
from dbt.adapters.spark_streaming.query.program import Step
from tests.planned import tree_of

DAY = 86_400_000_000


def test_a_kept_step_of_many_relations_is_materialized() -> None:
    steps = [
        Step("twice", " ".join(["a_table"] * 3), persist=True),
        *(
            Step(f"twice_{n}", f"select * from twice{f'_{n - 1}' if n else ''} join x " * 2, persist=True)
            for n in range(6)
        ),
    ]
    found = with_bounded_plans(steps)
    assert [step.materialize for step in found] == [False] * 4 + [True, False, False]
    assert [step.sql for step in found] == [step.sql for step in steps]


def test_what_is_read_once_is_left_to_its_reader() -> None:
    steps = [Step(f"s{n}", f"select * from s{n - 1}") for n in range(100)]
    assert with_bounded_plans(steps) == steps


def test_what_is_read_while_there_is_no_state_counts_too() -> None:
    many = " ".join(f"join first as j{n}" for n in range(MOST + 1))
    found = with_bounded_plans([Step("first", "rows"), Step("kept", "rows", persist=True, initial=many)])
    assert found[1].materialize


def test_no_plan_of_operators_above_each_other_is_large() -> None:
    """Two groups, a join, a group: a plan of 34,000 lines, in which Spark spent 25 seconds."""
    text = """select v, min(f) as f, count(distinct total) as n from (
          select l.v, l.total, r.f
          from (select u as v, count(distinct z, v) as total from stream_clicks group by u) as l
          join stream_clicks as r on l.v = r.u) group by v""".replace(
        "stream_clicks", "(select /*+ STREAM */ * from clicks as clicks)"
    )
    plan = tree_of(text, {"clicks": RelationInfo("ts")}, 30 * DAY, (), None)
    program = generate.generate_program(plan, ttl=30 * DAY)
    sizes: dict[str, int] = {}
    for step in program.items_of_kind(Step):
        size = max(_relations(text, sizes) for text in (step.sql, step.initial or ""))
        assert size <= 8 * MOST, step.name
        sizes[step.name] = 1 if step.materialize else size
    assert any(step.materialize for step in program.items_of_kind(Step))
    assert sum(_relations(part.append, sizes) for part in program.parts) <= 8 * MOST


def _relations(text: str, sizes: dict[str, int]) -> int:
    return 1 + sum(sizes.get(word, 0) for word in re.findall(r"\w+", text))
