"""The state of a source with a unique key: the latest row of each key, for as long as none replaces it."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.changelog_normalize import (
    SIGN_OF_ROW,
    ChangelogNormalize,
)
from dbt.adapters.spark_streaming.query.plan.relation import WEIGHT
from dbt.adapters.spark_streaming.query.program import Program, Step
from tests.planned import plan_of

TOTALS = "select shop, sum(price) as total from (select /*+ STREAM */ * from orders) group by shop"


def programmed(known: RelationInfo, ttl: int | None = None) -> tuple[ChangelogNormalize, Program]:
    plan = plan_of(TOTALS, {"orders": known}, ttl)
    (found,) = (each for each in plan.dataflow.operators if isinstance(each, ChangelogNormalize))
    return found, generate.generate_program(plan, ttl=ttl)


def test_a_row_stays_until_another_replaces_it() -> None:
    found, program = programmed(RelationInfo("ts", ("id",)))
    assert found.rows_never_expire([False])
    (part,) = (each for each in program.parts if each.name.startswith(found.name))
    assert part.forgets is None and part.closes is None


def test_what_is_replaced_is_taken_back_from_the_groups_above() -> None:
    found, program = programmed(RelationInfo("ts", ("id",)))
    (change,) = (each for each in program.items_of_kind(Step) if each.name == found.name)
    assert f"cast({SIGN_OF_ROW} as bigint) as {WEIGHT}" in change.sql


def test_rows_of_a_key_are_in_the_order_of_their_event_time() -> None:
    by_time, _ = programmed(RelationInfo("ts", ("id",)))
    as_they_come, _ = programmed(RelationInfo(None, ("id",)))
    assert (by_time.time, as_they_come.time) == ("ts", None)
    assert by_time.name != as_they_come.name, "their states are not the same"
