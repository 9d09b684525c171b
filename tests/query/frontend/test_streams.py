"""Streams of a query: which columns are read of each, and which column its watermark is measured on."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from tests.planned import plan_of


def window(kind: str, relation: str, *lengths: str, time: str = "ts", **options: Any) -> str:
    return str(
        expansion.expand_window(relation, window_arguments.make_window(kind, time, *lengths, **options))
    )


TUMBLE = window("tumble", "raw.bid", "10 minutes")


def test_the_stream_is_the_table_under_the_function_and_its_time_a_column_of_it() -> None:
    (stream,) = plan_of(f"select * from {TUMBLE}").streams
    assert (stream.relation, stream.event_time) == ("raw.bid", "ts")


def test_the_time_is_followed_through_selects_that_pass_it_on() -> None:
    text = f"""with a as (select at as ts, x from raw.bid where x > 0)
        select window_start, window_end, count(*) as n from {window("tumble", "a", "1 hour")} group by all"""
    (stream,) = plan_of(text).streams
    assert stream.event_time == "at"


def test_a_computed_time_is_measured_on_the_rows() -> None:
    text = f"""with a as (select to_timestamp(at) as ts from raw.bid)
        select window_start, window_end, count(*) as n from {window("tumble", "a", "1 hour")} group by all"""
    (stream,) = plan_of(text).streams
    assert stream.event_time is None


def test_only_columns_that_are_named_are_read() -> None:
    (stream,) = plan_of(f"select window_start, window_end, sum(x) as s from {TUMBLE} group by all").streams
    assert stream.columns is not None
    assert {"x", "ts"} <= set(stream.columns)
    assert "y" not in stream.columns


@pytest.mark.parametrize(
    "text",
    [
        f"select * from {TUMBLE}",
        f"select window_start, window_end, count(distinct struct(*)) as n from {TUMBLE} group by 1, 2",
        f"select window_start, window_end, collect_list(struct(*)) as l from {TUMBLE} group by 1, 2",
    ],
)
def test_a_star_that_reaches_the_result_reads_all_columns(text: str) -> None:
    (stream,) = plan_of(text).streams
    assert stream.columns is None


STREAM = expansion.expand_stream("raw.bid")


@pytest.mark.parametrize(
    "below",
    [
        f"(select distinct * from {STREAM})",
        f"(select * from {STREAM} union select * from {STREAM} where a > 1)",
        f"(select ts, hash(*) as x from {STREAM})",
        f"(select * from (select *, row_number() over (partition by x order by ts) as rn from {STREAM}) where rn = 1)",
    ],
)
def test_so_does_one_that_says_which_rows_come_into_a_window(below: str) -> None:
    text = (
        f"select window_start, window_end, sum(x) as s from {window('tumble', below, '1 hour')} group by 1, 2"
    )
    (stream,) = plan_of(text, {"raw.bid": RelationInfo("ts")}, 86_400_000_000).streams
    assert stream.columns is None


def test_the_star_of_an_import_cte_does_not() -> None:
    text = f"""with source as (select * from raw.bid)
        select window_start, window_end, sum(x) as s from {window("tumble", "source", "1 hour")} group by 1, 2"""
    (stream,) = plan_of(text).streams
    assert stream.columns is not None


def _union_of_streams(first: str, second: str) -> str:
    union = f"{first} from (select /*+ STREAM */ * from a) union all {second} from (select /*+ STREAM */ * from b)"
    window = window_arguments.make_window("tumble", "ts", "10 minutes")
    windowed = expansion.expand_window("both_streams", window)
    return (
        f"with both_streams as ({union}) select window_start, window_end, count(*) as n from {windowed} "
        "group by window_start, window_end"
    )


@pytest.mark.parametrize(
    ("first", "second", "times"),
    [
        ("select ts, k", "select ts, k", {"a": "ts", "b": "ts"}),
        ("select k, ts", "select name, at", {"a": "ts", "b": "at"}),
        ("select *", "select *", {"a": "ts", "b": "ts"}),
    ],
    ids=["by name", "by place", "behind stars"],
)
def test_each_stream_of_a_union_is_measured_by_its_own_time(
    first: str, second: str, times: dict[str, str]
) -> None:
    """Else the newest of the one would make rows of the other late."""
    streams = plan_of(_union_of_streams(first, second)).streams
    assert {stream.relation: stream.event_time for stream in streams} == times


def test_a_time_that_is_computed_does_not_measure_two_streams() -> None:
    text = _union_of_streams("select ts, k", "select timestamp_millis(at) as ts, k")
    with pytest.raises(
        QueryError, match="reads several streams, and its time ts is no column of b, so the progress"
    ):
        plan_of(text)


def test_names_of_views_are_ones_that_spark_takes() -> None:
    """Spark has no temporary view whose name isn't ASCII."""
    text = " union all ".join(
        f"select k from (select /*+ STREAM */ * from `{name}`)" for name in ("größe", "gräße")
    )
    views = [stream.view for stream in plan_of(text).streams]
    assert len({*views}) == 2 and all(view.isascii() and view.isidentifier() for view in views)


@pytest.mark.parametrize(
    ("joined", "static"),
    [
        ("(d join e on d.k = e.k)", ("d", "e")),
        ("(x.d as d join e on d.k = e.k)", ("x.d", "e")),
        ("((d join e on d.k = e.k) join f on f.k = d.k)", ("d", "e", "f")),
        ("(d join (e join f on f.k = e.k) on d.k = e.k)", ("d", "e", "f")),
        ("(d version as of 3 join e on d.k = e.k)", ("d VERSION AS OF 3", "e")),
    ],
)
@pytest.mark.parametrize("join", ["join", "left join"])
def test_a_table_in_brackets_is_read_by_its_name(join: str, joined: str, static: tuple[str, ...]) -> None:
    assert plan_of(f"select s.k from {STREAM} as s {join} {joined} on d.k = s.k").static == static


@pytest.mark.parametrize("cut", ["limit 10", "limit 10 offset 1"])
def test_rows_that_a_limit_cuts_off_are_measured_on_the_declared_time(cut: str) -> None:
    """The window's time is that of the first rows, whichever of two equal windows is asked."""
    both = "select k, at from raw.bid union all select k, at from raw.ask"
    marked = both.replace("raw.bid", "(select /*+ STREAM */ * from raw.bid) as b").replace(
        "raw.ask", "(select /*+ STREAM */ * from raw.ask) as a"
    )
    rows = window("tumble", f"({marked} order by k {cut})", "1 hour", time="at")
    groups = f"select window_end, k, count(*) as n from {rows} group by window_start, window_end, k"
    text = f"with w as ({groups}) select a.n, b.n as m from w as a join w as b using (k, window_end)"
    known = {"raw.bid": RelationInfo(event_time="ts"), "raw.ask": RelationInfo(event_time="ts")}
    assert [each.event_time for each in plan_of(text, known).streams] == ["ts", "ts"]


def test_declarations_that_contradict_each_other_matter_only_where_they_are_used() -> None:
    known = {"raw.bid": RelationInfo(conflict="Two sources declare raw.bid.")}
    grouped = f"select window_start, window_end, count(*) as n from {TUMBLE} group by all"
    assert plan_of(grouped, known).streams
    with pytest.raises(QueryError, match="Two sources"):
        plan_of("select k, count(*) as n from (select /*+ STREAM */ * from raw.bid) as b group by k", known)
