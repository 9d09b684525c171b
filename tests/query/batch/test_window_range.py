"""Ranges of windows computed anew: which, from which input, and what they replace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch.window_range import WindowOverwriter
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.sql.intervals import HOUR, MINUTE
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.query.windows.ranges import TimeRange, WindowRange

DAY = 24 * HOUR


def window(kind: str, *lengths: str, relation: str = "raw.bid", time: str = "ts", **options: Any) -> str:
    return expansion.expand_window(relation, window_arguments.make_window(kind, time, *lengths, **options))


def counted(rows: str, keys: str = "k") -> str:
    return f"select window_start, window_end, {keys}, count(*) as n from {rows} group by window_start, window_end, {keys}"


def nothing(query: str) -> tuple[object, ...]:
    assert "TYPEOF" in query, f"asked {query}"
    return ("struct<window_start:timestamp,window_end:timestamp,k:string,n:bigint>",)


class Answers:
    """Answers one after the other, and what was asked."""

    def __init__(self, *answers: tuple[int | None, ...]) -> None:
        self._answers: Iterator[tuple[int | None, ...]] = iter(answers)
        self.asked: list[str] = []

    def __call__(self, query: str) -> tuple[int | None, ...]:
        self.asked.append(query)
        return next(self._answers)


def refusal(text: str) -> str:
    with pytest.raises(QueryError) as raised:
        WindowOverwriter(text, nothing)
    return str(raised.value)


# -- fixed windows --------------------------------------------------------------------------------


def test_a_range_is_moved_out_to_whole_windows() -> None:
    found = WindowOverwriter(counted(window("tumble", "10 minutes")), nothing)
    assert found.touched_windows(TimeRange(5 * MINUTE, 21 * MINUTE)) == WindowRange(0, 30 * MINUTE)


def test_stream_and_window_are_cut_to_the_input_and_the_output_to_the_windows() -> None:
    made = WindowOverwriter(counted(window("hop", "5 minutes", "15 minutes")), nothing).overwrite(
        WindowRange(HOUR, HOUR + 5 * MINUTE)
    )
    input_ = "`ts` >= timestamp'1970-01-01T00:50:00Z' and `ts` < timestamp'1970-01-01T01:05:00Z'"
    assert f"(select * from raw.bid where {input_})" in made.sql
    assert (
        "where event_time >= timestamp'1970-01-01T00:50:00Z' and event_time < timestamp'1970-01-01T01:05:00Z'"
        in made.sql
    )
    assert made.condition == (
        "`window_end` > timestamp'1970-01-01T01:00:00Z' and `window_end` <= timestamp'1970-01-01T01:05:00Z'"
    )
    assert made.sql.endswith(f"where {made.condition}")


def test_all_windows_need_no_bounds() -> None:
    made = WindowOverwriter(counted(window("tumble", "10 minutes")), nothing).overwrite(WindowRange())
    assert (made.condition, "timestamp'1970" in made.sql) == ("true", False)


def test_a_computed_time_cuts_the_rows_but_not_the_stream() -> None:
    rows = window("tumble", "10 minutes", relation="a")
    text = f"with a as (select *, to_timestamp(at) as ts from raw.bid) {counted(rows)}"
    made = WindowOverwriter(text, lambda query: ["struct<at:string,x:int>"]).overwrite(WindowRange(0, HOUR))
    assert "raw.bid where" not in made.sql
    assert "event_time < timestamp'1970-01-01T01:00:00Z'" in made.sql


def test_a_window_function_alone_is_cut_too() -> None:
    made = WindowOverwriter(f"select * from {window('tumble', '10 minutes')}", nothing)
    assert made.touched_windows(TimeRange(0, 1)) == WindowRange(0, 10 * MINUTE)
    found = made.overwrite(WindowRange(0, 10 * MINUTE))
    assert "from raw.bid where `ts` >= timestamp'1970-01-01T00:00:00Z'" in found.sql


def test_a_column_that_carries_the_windows_end_tells_the_rows() -> None:
    text = f"select window_end as until, n from ({counted(window('tumble', '1 hour'))})"
    made = WindowOverwriter(text, nothing).overwrite(WindowRange(0, HOUR))
    assert made.condition.startswith("`until` > ")


def test_or_its_window_time() -> None:
    text = f"select window_time as at, n from (select *, 1 as n from {window('tumble', '1 hour')})"
    overwriting = WindowOverwriter(text, nothing)
    assert overwriting.overwrite(WindowRange(0, HOUR)).condition == (
        "`at` >= timestamp'1970-01-01T00:00:00Z' and `at` < timestamp'1970-01-01T01:00:00Z'"
    )
    assert overwriting.newest_end_query("db.t") == "select unix_micros(max(`at`)) + 1 from db.t"


@pytest.mark.parametrize(
    ("rows", "newest", "lookback", "since"),
    [
        (window("tumble", "1 hour"), 5 * HOUR, 0, 4 * HOUR),
        (window("tumble", "1 hour"), 5 * HOUR, 2, 2 * HOUR),
        (window("hop", "10 minutes", "1 hour"), 5 * HOUR, 1, 4 * HOUR - 10 * MINUTE),
        (window("cumulate", "1 hour", "1 day"), DAY + 5 * HOUR, 1, 0),
        (window("session", "10 minutes", partition_by=["k"]), HOUR, 1, 40 * MINUTE),
        (
            window("dynamic_cumulate", "5 minutes", "10 minutes", partition_by=["k"]),
            HOUR,
            0,
            45 * MINUTE,
        ),
    ],
)
def test_lookback_counts_windows_before_the_newest(rows: str, newest: int, lookback: int, since: int) -> None:
    assert WindowOverwriter(counted(rows), nothing).last_windows(newest, lookback) == TimeRange(since)


# -- windows over windows -------------------------------------------------------------------------


def test_the_lower_windows_are_complete() -> None:
    below = counted(window("hop", "10 minutes", "20 minutes"))
    below = below.replace("window_end,", "window_end, window_time,", 1)
    text = f"with a as ({below}) {counted(window('tumble', '1 hour', relation='a', time='window_time'))}"
    overwriting = WindowOverwriter(text, nothing)
    # The row is in windows that end until 1:10, of which the last lies in the second hour.
    assert overwriting.touched_windows(TimeRange(59 * MINUTE, HOUR)) == WindowRange(0, 2 * HOUR)
    made = overwriting.overwrite(WindowRange(HOUR, 2 * HOUR)).sql
    assert "`ts` >= timestamp'1970-01-01T00:50:00Z' and `ts` < timestamp'1970-01-01T02:00:00Z'" in made


def test_the_start_of_a_lower_window_may_lie_before_its_end() -> None:
    below = counted(window("tumble", "10 minutes"))
    text = f"with a as ({below}) {counted(window('tumble', '15 minutes', relation='a', time='window_start'))}"
    made = WindowOverwriter(text, nothing).overwrite(WindowRange(0, 15 * MINUTE)).sql
    assert "`ts` >= timestamp'1970-01-01T00:00:00Z' and `ts` < timestamp'1970-01-01T00:20:00Z'" in made


def test_another_time_over_windows_is_refused() -> None:
    below = f"select window_start, window_end, max(ts) as last from {window('tumble', '10 minutes')} group by 1, 2"
    above = window("tumble", "1 hour", relation="a", time="last")
    text = f"with a as ({below}) select window_start, window_end, count(*) as n from {above} group by 1, 2"
    assert refusal(text) == (
        "tumble(last, 1 hour) reads windows, but its time last is none of their window_start, window_end and "
        "window_time, so a range of it can't be recomputed; use one of them."
    )


# -- sessions -------------------------------------------------------------------------------------

SESSION = counted(window("session", "10 minutes", partition_by=["k"]))


def test_sessions_of_a_range_are_whole() -> None:
    # The first look reaches 40 minutes to both sides, which isn't enough.
    answers = Answers((2 * HOUR + 25 * MINUTE, 4 * HOUR), (2 * HOUR, 4 * HOUR))
    found = WindowOverwriter(SESSION, answers).touched_windows(TimeRange(3 * HOUR, 3 * HOUR + MINUTE))
    assert found == WindowRange(2 * HOUR, 4 * HOUR)
    first, second = answers.asked
    assert "timestamp'1970-01-01T02:20:00Z' and `ts` < timestamp'1970-01-01T03:41:00Z'" in first
    assert "timestamp'1970-01-01T00:20:00Z' and `ts` < timestamp'1970-01-01T05:41:00Z'" in second


def test_without_rows_the_range_is_as_asked() -> None:
    found = WindowOverwriter(SESSION, Answers((None, None))).touched_windows(TimeRange(0, HOUR))
    assert found == WindowRange(0, HOUR)


def test_sessions_that_began_before_are_read_from_their_first_row() -> None:
    answers = Answers((3 * HOUR - 35 * MINUTE,), (2 * HOUR,))
    made = WindowOverwriter(SESSION, answers).overwrite(WindowRange(3 * HOUR, 4 * HOUR))
    # Up to the last instant: a row at the very end of a session is part of it.
    assert "timestamp'1970-01-01T02:00:00Z' and `ts` < timestamp'1970-01-01T04:00:00.000001Z'" in made.sql
    assert "> timestamp'1970-01-01T03:00:00Z'" in answers.asked[0]


def test_a_first_row_just_far_enough_from_the_edge_ends_the_search() -> None:
    answers = Answers((3 * HOUR - 30 * MINUTE,))
    made = WindowOverwriter(SESSION, answers).overwrite(WindowRange(3 * HOUR, 4 * HOUR))
    assert "timestamp'1970-01-01T02:30:00Z' and" in made.sql


def test_windows_below_sessions_are_read_as_far_as_each_of_them_reaches() -> None:
    hours, minutes = (counted(window("tumble", size)) for size in ("1 hour", "5 minutes"))
    above = window("session", "10 minutes", relation="a", time="window_start", partition_by=["k"])
    text = f"with a as ({hours} union all {minutes}) {counted(above)}"
    answers = Answers((None, None))
    WindowOverwriter(text, answers).touched_windows(TimeRange(3 * HOUR, 3 * HOUR + MINUTE))
    # The hour from 3:00 is touched, so results that begin until 4:40 are searched: hours end until 5:00 then, 5-minute
    # windows until 4:40.
    assert "`ts` < timestamp'1970-01-01T05:00:00Z'" in answers.asked[0]


# -- refusals -------------------------------------------------------------------------------------


def test_rows_of_no_window_are_refused() -> None:
    text = f"select k, ts from {expansion.expand_stream('raw.bid')}"
    assert refusal(text) == (
        "Only whole windows are recomputed, and this query has rows without a window; put a windowing macro around its "
        "stream, or, in batch, use incremental_strategy 'merge' or 'append'."
    )


def test_rows_that_dont_say_their_window_are_refused() -> None:
    text = f"select k, n from ({counted(window('tumble', '1 hour'))})"
    assert refusal(text) == (
        "Recomputed windows need to find the rows they replace: put window_end into the select list."
    )


@pytest.mark.parametrize("side", ["full", "left"])
def test_an_outer_join_must_not_leave_rows_without_a_window(side: str) -> None:
    one, other = counted(window("tumble", "1 hour")), counted(window("tumble", "1 hour", relation="raw.ask"))
    text = (
        f"select coalesce(a.window_end, b.window_end) as window_end, a.n, b.n as m from ({one}) as a "
        f"{side} join ({other}) as b on a.window_start = b.window_start and a.window_end = b.window_end and a.k = b.k"
    )
    made = WindowOverwriter(text, nothing).overwrite(WindowRange(0, HOUR))
    assert made.condition.startswith("`window_end` > ")
    assert "if(`window_end` is null, raise_error('An outer join leaves window_end NULL" in made.sql


def test_a_batch_that_divides_a_window_is_refused() -> None:
    found = WindowOverwriter(counted(window("tumble", "7 hours")), nothing)
    with pytest.raises(QueryError) as raised:
        found.check_batch(TimeRange(0, DAY), "day")
    assert str(raised.value) == (
        "batch_size 'day' is not a multiple of tumble(ts, 7 hours): a window would extend over two batches. Choose a larger "
        "batch_size or another window, or write incremental_strategy='window_overwrite'."
    )


@pytest.mark.parametrize(
    "rows",
    [
        window("tumble", "1 hour"),
        window("hop", "1 hour", "30 hours"),
        window("cumulate", "1 hour", "1 day"),
        window("session", "7 minutes", partition_by=["k"]),
        window("tumble", "1 hour", time_zone="Europe/Berlin"),
    ],
)
def test_batches_of_whole_windows(rows: str) -> None:
    found = WindowOverwriter(counted(rows), nothing)
    assert found.check_batch(TimeRange(DAY, 2 * DAY), "day") == WindowRange(DAY, 2 * DAY)


@pytest.mark.parametrize(
    "rows",
    [
        window("tumble", "1 hour", offset="10 minutes"),
        window("hop", "5 hours", "10 hours"),
        window("cumulate", "1 hour", "2 days"),
        window("tumble", "1 day", time_zone="Europe/Berlin"),
    ],
)
def test_batches_of_parts_of_windows(rows: str) -> None:
    with pytest.raises(QueryError, match="is not a multiple of"):
        WindowOverwriter(counted(rows), nothing).check_batch(TimeRange(DAY, 2 * DAY), "day")


def test_the_earliest_row_of_all_streams_is_asked_for() -> None:
    query = WindowOverwriter(counted(window("tumble", "1 hour")), nothing).first_time_query()
    assert query is not None
    assert "select min(cast(`ts` as timestamp)) as first_time from raw.bid" in query


def test_files_that_a_range_divides_are_counted_by_their_bounds() -> None:
    found = WindowOverwriter(counted(window("tumble", "1 hour")), nothing).divided_files_query(
        "db.t", WindowRange(0, HOUR)
    )
    of = "readable_metrics.`window_end`"
    assert found == (
        "select count(*) from db.t.files\n"
        f"where not (coalesce({of}.null_value_count = 0 "
        f"and {of}.lower_bound > timestamp'1970-01-01T00:00:00Z' and {of}.lower_bound <= timestamp'1970-01-01T01:00:00Z' "
        f"and {of}.upper_bound > timestamp'1970-01-01T00:00:00Z' and {of}.upper_bound <= timestamp'1970-01-01T01:00:00Z', "
        f"false) or coalesce({of}.upper_bound <= timestamp'1970-01-01T00:00:00Z' "
        f"or {of}.lower_bound > timestamp'1970-01-01T01:00:00Z', false))"
    )
