"""The output of a projection that may differ when it is computed again is kept, and taken back as it was."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.materialized_project import MaterializedProject
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.planned import plan_of

BEST = "(select /*+ STREAM */ * from best)"
KNOWN = {"best": RelationInfo("ts", ("id",), changes=True), "rows": RelationInfo("ts")}
GROUPS = "select name, count(*) as n from ({}) as r group by name"


def kept(text: str) -> list[str]:
    plan = plan_of(GROUPS.format(text), KNOWN, DAY)
    names = {each.name for each in plan.dataflow.operators if isinstance(each, MaterializedProject)}
    return [part.name for part in generate.generate_program(plan, ttl=DAY).parts if part.name in names]


@pytest.mark.parametrize(
    "text",
    [
        f"select b.id, t.name from {BEST} as b join names as t on t.id = b.id",
        f"select id, cast(rand() * 3 as int) as name from {BEST}",
    ],
    ids=["a table that may change", "a random value"],
)
def test_rows_that_change_are_taken_back_as_they_were(text: str) -> None:
    assert len(kept(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"select id, upper(page) as name from {BEST}",
        "select r.id, t.name from (select /*+ STREAM */ * from rows) as r join names as t on t.id = r.id",
    ],
    ids=["the same each time", "rows that are never taken back"],
)
def test_what_needs_not_be_kept_is_not(text: str) -> None:
    assert kept(text) == []
    assert any(
        isinstance(each, Project) for each in plan_of(GROUPS.format(text), KNOWN, DAY).dataflow.operators
    )
