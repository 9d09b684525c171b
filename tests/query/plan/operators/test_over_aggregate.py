"""Frames in order of event time: what they keep, and until when rows wait."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import UnboundedStateError
from dbt.adapters.spark_streaming.query.plan.dataflow import Dataflow
from dbt.adapters.spark_streaming.query.plan.operators.over_aggregate import OverAggregate
from dbt.adapters.spark_streaming.query.plan.operators.recompute import Recompute
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.query.trees import GROUPS, STREAM, flow, kinds, only, per_window


@pytest.mark.parametrize(
    "items, source",
    [
        ("lag(v) over (partition by k order by ts)", STREAM),
        ("lag(v, 2, 0) over (order by ts, v)", STREAM),
        (
            "sum(v) over (partition by k order by ts range between interval 1 hour preceding and current row)",
            STREAM,
        ),
        ("max(v) over (partition by k order by ts rows between 3 preceding and 1 preceding)", STREAM),
        ("avg(v) over (partition by k order by ts)", f"{STREAM} where v > 1"),
        ("lag(n) over (partition by k order by window_end)", f"({per_window('5 minutes')})"),
    ],
)
def test_frames_that_reach_back_in_order_of_time(items: str, source: str) -> None:
    found = flow(f"select *, {items} as a from {source}")
    made = only(found, OverAggregate)
    assert found.root is made and not made.relation.changes and Recompute.__name__ not in kinds(found)


@pytest.mark.parametrize(
    "items, source",
    [
        ("lead(v) over (partition by k order by ts)", STREAM),
        ("lag(v) over (partition by k order by ts desc)", STREAM),
        ("lag(v) over (partition by k order by v)", STREAM),
        ("lag(v) over (partition by k order by p.ts)", STREAM),
        ("lag(v) over (partition by k order by ts) as b, max(v) over (partition by k order by p.ts)", STREAM),
        ("sum(v) over (partition by k)", STREAM),
        ("sum(v) over (partition by k order by ts rows between 1 preceding and 1 following)", STREAM),
        (
            "sum(v) over (order by ts range between interval 1 hour preceding and interval 1 hour following)",
            STREAM,
        ),
        ("sum(v) over (order by ts range between interval -1 hour preceding and current row)", STREAM),
        ("sum(v) over (order by ts range between interval 1 month preceding and current row)", STREAM),
        ("lag(v) over (order by ts) as b, lag(v) over (partition by k order by ts)", STREAM),
        ("lag(n) over (partition by k order by window_start)", f"({per_window('5 minutes')})"),
        ("lag(n) over (partition by k order by n)", f"({GROUPS})"),
    ],
)
def test_frames_that_are_computed_again(items: str, source: str) -> None:
    assert OverAggregate.__name__ not in kinds(flow(f"select *, {items} as a from {source}"))


@pytest.mark.parametrize(("time", "waits"), [("ts", True), ("arrived", False)])
def test_rows_wait_for_the_watermark_that_is_measured_on_their_time(time: str, waits: bool) -> None:
    # Where the stream's windows are over another column, that is what its watermark is measured on.
    windows = expansion.expand_window("db.s", window_arguments.make_window("tumble", time, "5 minutes"))
    found = flow(
        f"select ts, lag(v) over (partition by k order by ts) as n from {STREAM} union all "
        f"select window_end, count(*) from {windows} group by window_start, window_end"
    )
    assert (OverAggregate.__name__ in kinds(found)) == waits


def test_what_bounds_frames() -> None:
    def over(frame: str, domains: tuple[str, ...] = ()) -> Dataflow:
        return flow(
            f"select ts, v, sum(v) over (partition by u order by ts {frame}) as s from {STREAM}",
            None,
            domains,
        )

    assert over("range between interval 1 hour preceding and current row")
    assert over("rows 2 preceding", ("u",))
    with pytest.raises(
        UnboundedStateError,
        match=r"it keeps the last 2 rows for every value of u .* or constant_domains: \['u'\]",
    ):
        over("rows 2 preceding")
    assert over("", ("u",))
    with pytest.raises(
        UnboundedStateError, match=r"it keeps totals for every value of u .* or constant_domains: \['u'\]"
    ):
        over("", ())


NUMBERS = "row_number() over (partition by k order by ts)"


@pytest.mark.parametrize(
    ("items", "values"),
    [
        (("sum(v) over (partition by k order by ts)",), 1),
        (("sum(v) over (order by ts)",), 1),
        (
            (
                "avg(v) over (partition by k order by ts)",
                "sum(v / 1) over (partition by k order by ts rows unbounded preceding)",
            ),
            2,
        ),
        (("count(*) over (partition by k order by ts)", "count(u, v) over (partition by k order by ts)"), 2),
        (
            (
                "min(case when u > 1 then v end) over (partition by k order by ts)",
                "max(v) over (partition by k order by ts, u)",
            ),
            2,
        ),
    ],
)
def test_of_running_aggregates_one_row_of_a_partition_is_kept(items: tuple[str, ...], values: int) -> None:
    named = ", ".join(f"{item} as a{number}" for number, item in enumerate(items))
    made = only(flow(f"select k, ts, {named} from {STREAM} where v > 3", None), OverAggregate)
    assert isinstance(made, OverAggregate)
    assert len(made.running) == values and not made.relation.changes
    # With state_ttl a partition begins anew: its rows are kept, and say when.
    if NUMBERS not in items:
        kept = only(flow(f"select k, ts, {named} from {STREAM}", DAY), OverAggregate)
        assert isinstance(kept, OverAggregate) and not kept.running


@pytest.mark.parametrize(
    "items",
    [
        "percentile(v, 0.5) over (partition by k order by ts) as p",
        "sum(v) over (partition by k order by ts) as s, lag(v) over (partition by k order by ts) as l",
        "sum(v) over (partition by k order by ts rows between unbounded preceding and 1 preceding) as s",
        # It may be another value of the select list.
        "v + 1 as v, sum(v) over (partition by k order by ts) as s",
    ],
)
def test_of_other_frames_from_the_beginning_all_rows_are(items: str) -> None:
    with pytest.raises(UnboundedStateError, match="it keeps every row that ever comes"):
        flow(f"select k, ts, {items} from {STREAM}", None)
