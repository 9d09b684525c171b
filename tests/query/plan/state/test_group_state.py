"""The state of groups: what is not kept, and when it isn't read."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.program import Rows, Step
from tests.query.auctions import B, auction_plan


def test_rows_that_are_only_added_up_are_not_kept() -> None:
    program = generate.generate_program(auction_plan(f"select x, sum(y) as s from {B} group by x"))
    (rows,) = program.items_of_kind(Rows)
    assert rows.read_by == next(
        each.name for each in program.items_of_kind(Step) if each.name.endswith("_changed")
    )
    assert not any(each.name == rows.name for each in program.items_of_kind(Step))
    # Looked up in the state, too.
    program = generate.generate_program(auction_plan(f"select x, count(distinct y) as d from {B} group by x"))
    (kept,) = (each for each in program.items_of_kind(Step) if each.name.endswith("_rows"))
    assert kept.persist and program.items_of_kind(Rows) == ()
    # And how long a key is idle is measured on event time: rows without one are counted.
    text = f"select x, sum(y) as s from {B} group by x"
    program = generate.generate_program(auction_plan(text, 10**12), ttl=10**12)
    (rows,) = program.items_of_kind(Rows)
    assert (rows.timed, rows.expires, rows.read_by) == (True, False, None)
    assert not any(each.name == rows.name for each in program.items_of_kind(Step))


def test_results_are_made_without_a_look_at_the_state_where_it_was_just_written() -> None:
    groups = f"select x, z, sum(y) as s from {B} group by x, z"
    ranked = f"select * from (select *, row_number() over (partition by x order by s) as n from ({groups})) where n < 4"
    again = generate.generate_program(auction_plan(ranked)).output_steps
    assert len(again) == 2
    assert all(step.fresh and "state" not in step.fresh for step in again)
    again = generate.generate_program(auction_plan(groups)).output_steps
    changed = again[0].name.replace("_touched", "_changed")
    assert [step.fresh for step in again] == [f"select `x`, `z` from {changed}", None, None]
