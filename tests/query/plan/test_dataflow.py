"""A query as a tree of operators: equal parts are one, and names come from what is computed."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.auctions import AUCTIONS, B, auction_plan
from tests.query.trees import GROUPS, OTHER, flow, kinds


def test_equal_parts_are_one_operator() -> None:
    found = flow(f"with g as ({GROUPS}) select a.k, a.n, b.m from g as a join g as b on a.k = b.k")
    assert kinds(found).count("GroupAggregate") == 1


def test_names_come_from_what_is_computed() -> None:
    one = flow(f"select a.k, a.n, b.m from ({GROUPS}) as a join (select k, min(v) as m from {OTHER} group by k) as b "
               "on a.k = b.k")  # fmt: skip
    other = flow(f"select y.k, x.m, y.n from (select k, min(v) as m from {OTHER} group by k) as x join ({GROUPS}) as y "
                 "on y.k = x.k")  # fmt: skip
    stateful = [
        {e.name for e in each.operators if type(e).__name__ == "GroupAggregate"} for each in (one, other)
    ]
    assert stateful[0] == stateful[1]


def test_what_is_random_and_read_twice_is_one_operator() -> None:
    made = f"with r as (select *, uuid() as id from {B}) select x, id from r union all select price as x, id from r"
    found = plan_query.plan(made, AUCTIONS, DAY).dataflow
    assert found is not None
    assert sum("UUID()" in str(getattr(each, "sql", "")) for each in found.operators) == 1


def test_a_query_row_by_row_has_no_state() -> None:
    found = auction_plan(f"select x + 1 as y from {B} where x > 3")
    assert found.dataflow.is_stateless
    program = generate.generate_program(found)
    assert (program.items, program.output_steps) == ((), ())


def test_random_rows_are_stored_only_if_several_read_them() -> None:
    drawn = f"select x, uuid() as id from {B}"
    assert auction_plan(f"{drawn} union all select price as x, 'none' as id from {B}").dataflow.is_stateless
    assert not auction_plan(
        f"with r as ({drawn}) select x, id from r union all select x, id from r"
    ).dataflow.is_stateless
