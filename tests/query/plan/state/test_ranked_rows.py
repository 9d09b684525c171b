"""State of a ranking of rows that only come: a row that isn't among the first when it comes never will be."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.top_n import TopN
from dbt.adapters.spark_streaming.query.program import StatePart
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import tree_of
from tests.query.trees import KNOWN, STREAM

FIRST = f"(select *, row_number() over (partition by k order by v, ts) as rn from {STREAM})"


def part(ttl: int | None) -> StatePart:
    plan = tree_of(f"select k, v from {FIRST} where rn <= 3", KNOWN, ttl, ("k",))
    (ranking,) = (each for each in plan.dataflow.operators if isinstance(each, TopN))
    (found,) = (
        each for each in generate.generate_program(plan, ttl=ttl).parts if each.name.startswith(ranking.name)
    )
    return found


def test_a_row_that_left_the_ranking_goes_when_the_state_is_compacted() -> None:
    assert "<= 3" in part(None).fold


def test_no_row_waits_for_the_watermark() -> None:
    assert part(None).closes is None


def test_an_idle_ranking_expires_with_a_ttl() -> None:
    assert part(None).forgets is None
    assert part(DAY).forgets == DAY
