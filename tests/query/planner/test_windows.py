"""Windows over joined, grouped and ranked rows."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError, UnboundedStateError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.operators.project import Project
from dbt.adapters.spark_streaming.query.plan.operators.window_close import WindowClose
from dbt.adapters.spark_streaming.query.plan.operators.window_rows import WindowRows
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.query.sql.intervals import DAY
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.query.trees import (
    ALONE,
    COUNTED,
    EITHER,
    JOINED,
    KNOWN,
    LAST,
    OTHER,
    STREAM,
    flow,
    kinds,
    only,
    windows_over,
)


def test_a_stream_beside_what_is_computed_first_is_read_by_operators() -> None:
    first = f"select * from (select *, row_number() over (partition by k order by ts) as rn from {STREAM}) where rn = 1"
    joined = f"select a.k, b.v from ({first}) as a join {OTHER} as b on a.k = b.k"
    plan_query.plan(joined, KNOWN, DAY)


def test_the_first_refusal_is_told_where_neither_takes_it() -> None:
    with pytest.raises(QueryError, match="without ORDER BY"):
        plan_query.plan(f"select k from {STREAM} limit 3", KNOWN, DAY)


def test_steps_without_new_rows_are_left_out_by_having() -> None:
    rows = expansion.expand_window(
        LAST, window_arguments.make_window("cumulate", "ts", "1 minute", "1 hour", emit="on_change")
    )
    text = f"select window_end, count(*) as n from {rows} group by window_start, window_end"
    found = plan_query.plan(text, KNOWN, DAY).dataflow
    assert found is not None
    rows_of_windows = {each.name for each in found.operators if isinstance(each, WindowRows)}
    told = [each for each in found.operators if isinstance(each, Project) and "__new_row" in each.sql]
    assert told[0].inputs[0].name in rows_of_windows
    assert kinds(found)[-2:] == ["WindowClose", "Project"]


def test_how_far_streams_under_such_windows_have_come() -> None:
    known = {"db.s": RelationInfo(event_time="ts", key=("k",), changes=True), "db.t": RelationInfo()}
    computed = f"(select k, date_trunc('minute', ts) as ts from {STREAM})"
    counted = "select window_start, window_end, count(*) as n from {} group by window_start, window_end"
    assert plan_query.plan(counted.format(windows_over(computed)), known, DAY).streams[0].event_time == "ts"
    last = LAST.replace("db.s", "db.t")
    with pytest.raises(QueryError, match=r"nothing says which column of db\.t that is"):
        plan_query.plan(counted.format(windows_over(last)), known, None, ("k",))


@pytest.mark.parametrize(
    ("rows", "minutes"),
    [
        (JOINED.format(""), 5),
        (JOINED.format("left"), 5),
        (JOINED.format("right").replace("l.ts, l.k", "r.ts, r.k"), 1),
        (EITHER, 5),
        (ALONE, 5),
        (ALONE.replace("not exists", "exists"), 5),
        (f"(select ts, k, v from {STREAM} union all select ts, k, v from {JOINED.format('left')})", 5),
        (f"(select ts + interval 2 minutes as ts, k, v from {JOINED.format('left')})", 3),
        (f"(select ts - interval 2 minutes as ts, k, v from {JOINED.format('left')})", 7),
    ],
)
def test_windows_over_joins_in_time_have_their_result_once_for_all(rows: str, minutes: int) -> None:
    found = flow(COUNTED.format(windows_over(rows)), ttl=None, domains=())
    closed = only(found, WindowClose)
    assert isinstance(closed, WindowClose)
    assert closed.open_for == minutes * 60_000_000
    assert not found.root.relation.changes
    assert found.root.relation.complete_by == {"window_end": f"window_end + {minutes * 60_000_000}"}


def test_what_stands_on_such_windows_comes_with_them() -> None:
    windows = COUNTED.format(windows_over(JOINED.format("left")))
    ranked = (
        f"select *, row_number() over (partition by window_end order by n desc) as place from ({windows})"
    )
    assert kinds(flow(f"select * from ({ranked}) where place < 3", None, ()))[-2:] == ["Local", "Project"]
    two = f"select a.k, a.n, b.n as m from ({windows}) as a full join ({windows}) as b on a.window_end = b.window_end"
    assert kinds(flow(two, None, ()))[-1] == "Local"
    median = COUNTED.replace("count(*)", "median(w)").format(windows_over(JOINED.format("left")))
    assert kinds(flow(median, None, ()))[-3:] == ["WindowRows", "WindowClose", "Local"]
    lagged = f"select *, lag(n) over (partition by k order by window_end) as before from ({windows})"
    assert kinds(flow(lagged, None, ("k",)))[-1] == "OverAggregate"


@pytest.mark.parametrize(
    "rows",
    [
        windows_over(JOINED.format("left"), "session", "1 minute"),
        windows_over(f"(select date_trunc('minute', ts) as ts, k from {JOINED.format('left')})"),
        windows_over(LAST),
    ],
)
def test_windows_without_a_bound_in_time_still_need_one(rows: str) -> None:
    with pytest.raises(UnboundedStateError, match="grows without bound"):
        flow(COUNTED.format(rows), None, ())


TWO_TIMES = f"""(select l.k, l.ts as at, r.ts as before from {STREAM} as l join {OTHER} as r
    on r.k = l.k and r.ts between l.ts - interval 5 hours and l.ts)"""
ONE_ALONE = f"""(select a.k, a.before from {TWO_TIMES} as a left join {STREAM} as b on b.k = a.k
    and b.ts between a.at and a.at + interval 1 hour and b.ts between a.before and a.before + interval 1 hour)"""


def windows_by(time: str, rows: str, length: str = "10 minutes") -> str:
    return expansion.expand_window(rows, window_arguments.make_window("tumble", time, length))


@pytest.mark.parametrize(
    ("time", "rows"),
    [
        # How far it lies from the time of the window that the row was in, nothing says.
        ("before", f"(select k, before from {windows_by('at', TWO_TIMES, '1 hour')})"),
        # That of a row without a match is as far away as it likes.
        ("before", ONE_ALONE),
    ],
)
def test_windows_by_a_time_whose_distance_is_not_known_need_a_bound(time: str, rows: str) -> None:
    text = f"select window_start, window_end, k, count(*) as n from {windows_by(time, rows)} group by all"
    with pytest.raises(UnboundedStateError, match="grows without bound"):
        flow(text.replace("group by all", "group by window_start, window_end, k"), None, ())


def test_a_predicate_on_time_over_a_join_that_time_bounds_is_told() -> None:
    lately = "where ts > current_timestamp() - interval 1 day"
    for rows in (ALONE, ALONE.replace("not exists", "exists")):
        with pytest.raises(
            QueryError, match="over an interval join is not supported; put it on the streams below"
        ):
            flow(f"select ts, k from {rows} {lately}", None, ())


@pytest.mark.parametrize(
    ("rows", "read"),
    [
        ("select window_end, k, rand() as r from {}", "select k, r from u where r"),
        (
            "select window_start, window_end, k, rand() as r from {}",
            "select k, sum(r) as r from u group by window_start, window_end, k having r",
        ),
        (
            "select k, n, rand() as r from (select window_end, k, count(*) as n from {} "
            "group by window_start, window_end, k)",
            "select k, r from u where r",
        ),
    ],
)
def test_random_rows_of_windows_that_are_read_twice_are_computed_once(rows: str, read: str) -> None:
    stream = expansion.expand_window("s", window_arguments.make_window("tumble", "ts", "1 hour"))
    text = f"with u as ({rows.format(f'{stream} as w')}) {read} < 0.5 union all {read} >= 0.5"
    made = generate.generate_program(
        plan_query.plan(text, {"s": RelationInfo(event_time="ts")}, may_grow=True)
    )
    texts = [made.output, *(each.sql for each in made.items if isinstance(each, Step))]
    assert sum(each.count("RAND()") for each in texts) == 1
