"""What of open windows waits until they close."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError, UnboundedStateError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.window_close import WindowClose
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from tests.query.auctions import B, auction_plan
from tests.query.trees import LAST, OTHER, flow, kinds, only, windows_over


def test_groups_of_windows_of_what_changes_wait_for_the_window() -> None:
    found = flow(
        f"select window_start, window_end, count(*) as n from {windows_over(LAST)} group by window_start, window_end"
    )
    assert kinds(found)[-4:] == ["WindowRows", "GroupAggregate", "WindowClose", "Project"]
    assert found.key == ("window_end", "window_start")
    assert only(found, WindowClose).relation.open_until is None


@pytest.mark.parametrize(
    ("text", "last"),
    [
        # At once, as over a stream.
        (f"select v, window_end as e from {windows_over(LAST)}", ["WindowRows", "Project"]),
        (f"select * from {windows_over(LAST, 'hop', '1 minute', '5 minutes')}", ["WindowRows", "Project"]),
        # What doesn't hand a window's end on waits for it below.
        (
            f"select v, count(*) as n from {windows_over(LAST)} group by v",
            ["WindowClose", "GroupAggregate", "Project"],
        ),
        (
            f"select window_start, count(*) as n from {windows_over(LAST)} group by window_start",
            ["WindowClose", "GroupAggregate", "Project"],
        ),
        (
            f"""select window_end, count(*) as n from (select *, window_end as we from {windows_over(LAST)})
            group by window_end""",
            ["WindowRows", "Project", "WindowClose", "GroupAggregate", "Project"],
        ),
        (
            f"select k, window_end from {windows_over(LAST, 'session', '1 minute')}",
            ["Project", "Recompute", "WindowClose", "Project"],
        ),
        (
            f"""select window_end, k, count(*) as n from (select * from {windows_over("db.s")} as c
            where k in (select k from {OTHER})) group by window_start, window_end, k""",
            [
                "WindowResults",
                "WindowClose",
                "Source",
                "Project",
                "Recompute",
                "GroupAggregate",
                "Project",
            ],
        ),
        (
            f"select v from (select distinct v, window_end from {windows_over(LAST)})",
            ["GroupAggregate", "WindowClose", "Project", "Project"],
        ),
        (
            f"select window_end, median(v) as m from {windows_over(LAST)} group by window_start, window_end",
            ["WindowRows", "WindowClose", "Recompute"],
        ),
        (
            f"""select * from (select *, row_number() over (partition by window_end order by v) as place
            from {windows_over(LAST)}) where place < 3""",
            ["WindowRows", "WindowClose", "Recompute", "Project"],
        ),
        (
            f"select window_end, count(*) as n from {windows_over(LAST, 'session', '1 minute')} group by window_end",
            ["Recompute", "WindowClose", "GroupAggregate", "Project"],
        ),
    ],
)
def test_what_waits_for_the_window(text: str, last: list[str]) -> None:
    assert kinds(flow(text))[-len(last) :] == last


def test_windows_over_a_model_whose_rows_change() -> None:
    text = f"select window_start, window_end, count(*) as n from {windows_over('db.s')} group by window_start, window_end"
    known = {"db.s": RelationInfo(event_time="ts", key=("k",), changes=True)}
    made = plan_query.plan(text, known, DAY).dataflow
    assert made is not None
    assert kinds(made) == [
        "Source",
        "Project",
        "WindowRows",
        "GroupAggregate",
        "WindowClose",
        "Project",
    ]
    # There are never more windows than rows in the table upstream.
    assert plan_query.plan(text, known).dataflow is not None
    keyed = {"db.s": RelationInfo(event_time="ts", key=("k",))}
    with pytest.raises(QueryError) as problem:
        plan_query.plan(text, keyed, DAY)
    assert str(problem.value) == (
        "config 'state_ttl' forgets what was idle, but the rows of db.s stay until others replace them; leave it out, or "
        "give the model constant_domains: ['k'] if the set of their values doesn't grow."
    )
    assert plan_query.plan(text, keyed, DAY, ("k",)).dataflow is not None
    with pytest.raises(UnboundedStateError, match="it keeps a row for every value of k that ever comes"):
        plan_query.plan(text, keyed)
    made = plan_query.plan(text, keyed, domains=("k",)).dataflow
    assert made is not None and kinds(made)[:3] == ["Source", "ChangelogNormalize", "Project"]


@pytest.mark.parametrize(
    ("over", "ttl", "leaves_out"),
    [
        (
            "row_number() over (partition by item order by price desc, ts)",
            None,
            "own.__ranked.`__order_0` < ",
        ),
        ("rank() over (order by price)", None, "own.__ranked.`__order_0` > "),
        ("dense_rank() over (partition by item order by price desc)", None, None),
        ("rank() over (partition by item order by price desc)", DAY, None),
        # Each comes once, when no other can come before it.
        ("row_number() over (partition by item order by ts)", None, None),
    ],
)
def test_which_rows_that_come_are_left_out(over: str, ttl: int | None, leaves_out: str | None) -> None:
    text = f"select item, price, place from (select *, {over} as place from {B}) where place <= 1"
    steps = generate.generate_program(auction_plan(text, ttl), ttl=ttl).items_of_kind(Step)
    whole = [step.full_scan for step in steps if step.full_scan is not None]
    assert len(whole) == (leaves_out is not None)
    assert all(leaves_out in each.sql and each.of_many for each in whole if leaves_out is not None)
