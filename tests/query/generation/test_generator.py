"""The walk over a tree of operators: each adds its steps and its state after what it reads."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.generation.generator import Generator
from dbt.adapters.spark_streaming.query.plan.operators.group_aggregate import GroupAggregate
from dbt.adapters.spark_streaming.query.plan.operators.join import Join
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.trees import GROUPS, OTHER, STREAM, flow, only

TREE = f"select g.k, g.n, o.v from ({GROUPS}) as g join {OTHER} as o on o.k = g.k"


def test_a_step_comes_after_those_it_reads() -> None:
    names = [each.name for each in Generator(flow(TREE), DAY).steps]
    assert len(names) == len({*names}), "each once"
    for place, step in enumerate(Generator(flow(TREE), DAY).steps):
        later = {name for name in names[place + 1 :] if f"from {name}\n" in step.sql}
        assert not later, step.name


def test_each_operator_with_state_has_its_parts() -> None:
    found = flow(TREE)
    parts = Generator(found, DAY).state_tables
    assert parts[only(found, GroupAggregate).name]
    assert len(parts[only(found, Join).name]) == 2, "the rows of either side"
    assert not any(
        parts.get(each.name) for each in found.operators if type(each).__name__ in ("Source", "Project")
    )


def test_what_only_passes_rows_on_has_none() -> None:
    found = flow(f"select k, v from {STREAM} union all select k, v from {OTHER}")
    assert not any(Generator(found, DAY).state_tables.values())
