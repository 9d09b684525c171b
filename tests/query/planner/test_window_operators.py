"""Window operators: which windows of a text are one operator, and what each is called."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.generation import generate
from tests.planned import plan_of
from tests.query.planner.test_within_windows import HOP, TUMBLE, window

BY_WINDOW = f"from {TUMBLE} group by window_start, window_end, x"


def test_equal_windows_are_kept_once() -> None:
    each = f"(select window_start, window_end, auction, count(*) as n from {HOP} group by all)"
    most = f"(select window_start, window_end, max(n) as m from {each} group by window_start, window_end)"
    plan = plan_of(
        f"select a.window_end, a.auction from {each} a join {most} m "
        "on a.window_start = m.window_start and a.window_end = m.window_end and a.n >= m.m"
    )
    assert len(plan.dataflow.window_specs) == 1


def test_a_window_is_fed_by_the_windows_below_it_in_the_same_micro_batch() -> None:
    text = f"""with t as (select window_time as rt, count(*) as n from {TUMBLE}
        group by window_start, window_end, window_time)
        select window_start, window_end, sum(n) as n from {window("tumble", "t", "1 hour", time="rt")} group by 1, 2"""
    plan = plan_of(text)
    lower, upper = plan.dataflow.window_specs
    assert (lower.reads, upper.reads) == ((), (lower.name,))
    fed = [type(item).__name__ for item in generate.generate_program(plan).cascade]
    assert fed[0] == "Step" and fed[-2:] == ["Rows", "StatePart"]


def test_windows_of_the_same_rows_and_keys_have_one_identity_and_a_name_each() -> None:
    counts, sums = (f"select window_end, x, {call} as v {BY_WINDOW}" for call in ("count(*)", "sum(y)"))
    one, other = plan_of(f"{counts} union all {sums}").dataflow.window_specs
    assert one.identity == other.identity and one.name != other.name
    assert [each.name for each in plan_of(counts).dataflow.window_specs] == [one.name]


def test_windows_of_other_rows_or_keys_have_another_identity() -> None:
    texts = [BY_WINDOW, BY_WINDOW.replace(" group", " where y > 1 group"), BY_WINDOW.replace(", x", ", y")]
    found = [
        spec.identity
        for text in texts
        for spec in plan_of(f"select window_end, count(*) as n {text}").dataflow.window_specs
    ]
    assert len({*found}) == len(texts)
