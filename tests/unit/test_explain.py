"""What `dbt-stream explain` says of a model."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli import explain
from dbt.adapters.spark_streaming.query import expansion, window_arguments
from dbt.adapters.spark_streaming.query.streams import Known


def window(kind: str, *lengths: str, relation: str = "raw.bid", **options: Any) -> str:
    return expansion.expand(relation, window_arguments.make(kind, "ts", *lengths, **options))


def counted(rows: str, by: str = "channel") -> str:
    return (
        "select window_start, window_end, channel, count(*) as n, count(distinct url) as urls "
        f"from {rows} group by window_start, window_end, {by}"
    )


TUMBLE = window("tumble", "10 minutes")
BIDS, ASKS = "(select /*+ STREAM */ * from raw.bid)", "(select /*+ STREAM */ * from raw.ask)"
BEST = "(select /*+ STREAM */ * from raw.best)"
KNOWN = {
    "raw.bid": Known("ts"),
    "raw.ask": Known("ts"),
    "raw.best": Known("ts", ("bidder",), changes=True),
}


def node(text: str, **config: Any) -> dict[str, Any]:
    return {
        "name": "bids",
        "relation_name": "shop.bids",
        "compiled_code": text,
        "config": {"materialized": "streaming_table", **config},
    }


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The sentences before the SQL, without frames and line breaks."""
    monkeypatch.setenv("COLUMNS", "250")

    def run(text: str, **config: Any) -> str:
        explain.print_plan(node(text, **config), KNOWN)
        return " ".join(re.sub(r"[│┃╭╮╰╯─━┏┓┗┛┡┩┳╇]", " ", capsys.readouterr().out).split())

    return run


def test_functions_that_only_a_session_knows(explained: Any) -> None:
    found = explained(f"select my_function(x) as y from {BIDS}")
    assert (
        "Not among Spark's own functions: my_function. Here each is taken for one that makes a value of a row; a run asks "
        "Spark, and if it makes one value of many rows, plans it so."
    ) in found


def test_fixed_windows(explained: Any) -> None:
    found = explained(counted(TUMBLE))
    assert "stage_1: tumble(ts, 10 minutes)" in found
    assert "Slices of 10 minutes; a window closes every 10 minutes." in found
    assert "its end complete; the state is cleared, later rows are dropped" in found
    assert "Output mode append: rows are added and never change." in found
    assert "__changes" not in found


def test_sessions_have_no_slices(explained: Any) -> None:
    found = explained(counted(window("session", "30 minutes", partition_by=["channel"])))
    assert "Sessions of each channel, ended by 30 minutes without rows. Their bounds are found in" in found
    assert "partial aggregates per session" in found
    assert "sights per session, counted when a window closes: distinct_url" in found
    assert "Slices" not in found


def test_dynamic_cumulate_has_steps(explained: Any) -> None:
    rows = window("dynamic_cumulate", "5 minutes", "30 minutes", partition_by=["channel"])
    found = explained(counted(rows))
    assert "Sessions of each channel, ended by 30 minutes without rows." in found
    assert "A result at each step of 5 minutes, the last one at the first step at or after" in found
    assert "sights per slice, counted at each step: distinct_url" in found


def test_a_zone_and_silent_steps(explained: Any) -> None:
    rows = window("cumulate", "1 hour", "1 day", emit="on_change", time_zone="Europe/Berlin")
    found = explained(counted(rows))
    assert "Windows are cut on the clock of Europe/Berlin; the watermark is an instant." in found
    assert "A key has results only at steps in which it had new rows." in found


def test_grouping_sets(explained: Any) -> None:
    found = explained(counted(TUMBLE, "rollup(channel)"))
    assert "Grouping sets: (channel), ()" in found


def test_the_rows_that_can_rank(explained: Any) -> None:
    found = explained(
        f"""select * from (select *, row_number() over (
        partition by window_start, window_end, channel order by price desc) as rn from {TUMBLE}) where rn <= 3"""
    )
    assert "Keeps the rows of open windows: row_number() over rows." in found
    assert "Only the first 3 of each channel by row_number() are kept in a slice" in found


def test_results_that_change(explained: Any) -> None:
    found = explained(
        counted(TUMBLE),
        first_result_offset="-5 minutes",
        update_rate="1 minute",
        complete_result_offset="2 minutes",
        late_updates=True,
        last_result_offset="1 hour",
        changelog=True,
    )
    assert (
        "its end − 5 minutes, then every 1 minute early, if the window has rows "
        "its end + 2 minutes complete "
        "up to its end + 1 hour updated by late rows; then the state is cleared"
    ) in found
    assert "Output mode upsert: one row per channel, window_end; what changes in a micro-batch" in found
    assert "Every change is also appended to shop.bids__changes." in found


def test_two_streams(explained: Any) -> None:
    text = f"""select a.window_start, a.window_end, a.n, b.n as m from
        ({counted(TUMBLE)}) as a join ({counted(window("tumble", "10 minutes", relation="raw.auction"))}) as b
        on a.window_start = b.window_start and a.window_end = b.window_end and a.channel = b.channel"""
    assert "newest − 0 seconds, of the slowest stream" in explained(text)
    assert "of the slowest stream with rows in the last 10 minutes" in explained(
        text, idle_timeout="10 minutes"
    )


def ranked(order: str, rows: str) -> str:
    return f"select * from (select *, row_number() over (order by {order}) as rn from {rows}) where rn <= 3"


@pytest.mark.parametrize(
    ("order", "strategy"),
    [
        ("n desc", "Strategy improving: a group's place only gets better"),
        ("n", "Strategy general: a member may fall; if the members and the groups that changed don't fill"),
    ],
)
def test_a_ranking_of_groups(explained: Any, order: str, strategy: str) -> None:
    groups = f"(select bidder, count(*) as n, count(distinct url) as urls from {BIDS} group by bidder)"
    found = explained(ranked(order, groups), constant_domains=["bidder"])
    assert "stage_1: groups of a whole stream" in found
    assert "counted when first seen: distinct_url" in found
    assert "stage_2: ranking" in found
    assert "The first 3 by row_number() over stage_1." in found
    assert strategy in found
    assert "Output mode upsert: one row per bidder" in found
    assert "Results of a window" not in found


def test_a_ranking_of_rows(explained: Any) -> None:
    assert "Strategy append-only: rows come in and stay" in explained(ranked("price desc", BIDS))


def test_groups_of_groups_are_computed_from_changes(explained: Any) -> None:
    text = (
        f"select n, count(*) as bidders from (select bidder, count(*) as n from {BIDS} group by 1) group by n"
    )
    found = explained(text, constant_domains=["bidder"])
    assert "computed anew" not in found
    assert found.count("computes from changes") == 2


def test_what_is_computed_anew(explained: Any) -> None:
    groups = f"(select bidder, count(*) as n from {BIDS} group by 1)"
    text = f"select a.bidder, a.n, b.n as m from {groups} as a left join {groups} as b on a.bidder = b.bidder"
    found = explained(text, constant_domains=["bidder"])
    assert "computed anew from all that they hold, at each micro-batch" in found


def test_a_join_of_streams(explained: Any) -> None:
    on = "a.x = b.x and a.ts between b.ts - interval 5 minutes and b.ts"
    found = explained(f"select b.x, a.y from {BIDS} as b left join {ASKS} as a on {on}")
    assert "Rows of a are kept 5 minutes 1 microsecond of event time." in found
    assert "A row of b without a match comes out alone when it goes." in found


def test_a_stream_whose_rows_change(explained: Any) -> None:
    found = explained(f"select sum(price) as s, max(price) as m from {BEST}")
    assert "Read through its change feed: one row per bidder." in found
    assert "how often each value is there: distinct_price" in found


def test_all_stages_as_json() -> None:
    groups = f"(select bidder, count(*) as n from {BIDS} group by bidder)"
    found = explain.as_json(node(ranked("n", groups), constant_domains=["bidder"]), KNOWN)
    assert [stage["kind"] for stage in json.loads(json.dumps(found))["plan"]["stages"]] == ["group", "top"]


def test_rows_that_pass_through(explained: Any) -> None:
    found = explained(f"select * from {TUMBLE}")
    assert "No state: the query works row by row. Output mode append" in found
    assert "Results of a window" not in found


def test_as_json() -> None:
    found = json.loads(
        json.dumps(explain.as_json(node(counted(TUMBLE), first_result_offset="-5 minutes"), {}))
    )
    assert found["settings"]["emission"]["first"] == -300_000_000
    assert found["plan"]["unique"] == ["stage_1.channel", "window_end"]
    assert found["program"]["upsert"]["key"] == ["channel", "window_end"]


def test_mini_batches(explained: Any) -> None:
    found = explained(f"select /*+ MINI_BATCH('5 seconds', 10000) */ * from {BIDS}")
    assert (
        "Micro-batches: one every 5 seconds while the stream keeps going; of at most 10,000 rows, as far as the "
        "sources can tell." in found
    )
    assert "Micro-batches" not in explained(f"select * from {BIDS}")
