"""What `dbt-stream explain` prints."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dbt.adapters.spark_streaming.cli import explain
from dbt.adapters.spark_streaming.query.explain.tree import operators_in_order
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.util.quoting import time_name
from tests.query.explain.test_build import (
    ASKS,
    BIDDERS,
    BIDS,
    GROUPS,
    IN_TIME,
    KNOWN,
    OPERATORS,
    SESSION,
    TTL,
    TUMBLE,
    WINDOWS,
    counted,
    node,
    nodes,
    ranked,
    window,
)

OF_LOOKUPS = {
    "raw.orders": RelationInfo("ts"),
    "raw.pay": RelationInfo("ts"),
    "crm.customers": RelationInfo(lookup=True),
    "crm.prices": RelationInfo(lookup=True),
    "raw.accounts": RelationInfo("ts", ("id",), changes=True),
}
ORDERS, PAY = "(select /*+ STREAM */ * from raw.orders) as o", "(select /*+ STREAM */ * from raw.pay) as p"

BY_ID = "lookup_customers_by_id"


def test_explain_shows_the_keys(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    text = f"select o.id, c.name from {ORDERS} left join crm.customers as c on o.customer = c.id"
    config = {"materialized": "streaming_table"}
    shown = {"name": "m", "relation_name": "shop.m", "compiled_code": text, "config": config}
    explain.print_plan(explain.explain_node(shown, OF_LOOKUPS), sql=True)
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "External table crm.customers: its rows are looked up by the distinct values of id; in the SQL they are"
        in printed
    )
    assert f"{BY_ID}: keys to look up in crm.customers" in printed
    assert "SELECT DISTINCT" in printed


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is shown without the SQL, without line breaks."""
    monkeypatch.setenv("COLUMNS", "250")

    def run(text: str, sql: bool = False, **config: Any) -> str:
        explain.print_plan(explain.explain_node(node(text, **config), {**KNOWN, "dims": RelationInfo()}), sql)
        return " ".join(capsys.readouterr().out.split())

    return run


def test_a_tree_on_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    explain.print_plan(
        explain.explain_node(node(ranked("n desc, bidder", GROUPS), constant_domains=["bidder"]), KNOWN),
        sql=False,
    )
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert shown.startswith(
        """bids  streaming_table  → shop.bids

Sink  shop.bids
upsert(bidder)
Changes are merged, in one commit per micro-batch.
└── Project  WHERE rn <= 3
    upsert(bidder)
    └── UpdatableTopN  first 3 by n DESC, bidder
        upsert(bidder)
        state top_9d862b1bf7_members: a member that came, changed or left;
        clears: when it has left the ranking
        A group's place only gets better, so the members and the groups that
        changed are all that is ranked.
        └── Project  bidder, COUNT(*) AS n, SUM(price) AS total
            retract · key bidder
            └── GroupAggregate  by bidder
                retract · key bidder
                state group_54256ab5e8_groups: partial aggregates per key;
                clears: nothing: its keys are constant_domains, or have few
                values
                COUNT(*) → count_all: partial aggregate per key
                SUM(price) → sum_price: partial aggregate per key
                └── Source  raw.bid
                    append · event time ts, watermark newest − 0 seconds
"""
    )


@pytest.mark.parametrize(("time", "shown"), [("meta.at", "meta.at"), ("meta.`at - utc`", "meta.at - utc")])
def test_an_event_time_in_a_struct_is_shown_without_quotes(
    time: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"raw.bid": RelationInfo(time_name(time))}
    query = f"select bidder, count(*) as n from {BIDS} group by bidder"
    explain.print_plan(explain.explain_node(node(query, constant_domains=["bidder"]), known), sql=False)
    assert f"append · event time {shown}, watermark newest − 0 seconds" in capsys.readouterr().out


def test_what_is_read_twice_is_shown_once(explained: Any) -> None:
    text, config, _ = OPERATORS["a union of groups"]
    found = explained(text, **config)
    assert found.count("GroupAggregate") == 1
    assert "as [1] above" in found


def test_the_json_is_the_same_tree() -> None:
    for name in ("windows joined", "a scalar subquery", "early and late firing", "an interval join"):
        text, config, _ = OPERATORS[name]
        model = node(text, **config)
        explained = explain.explain_node(model, KNOWN)
        found, told = explained.tree, json.loads(json.dumps(explain.plan_as_json(explained)))
        listed = [each for each in nodes(told["tree"]) if "see" not in each]
        assert [(each.operator, each.description, each.identity) for each in operators_in_order(found)] == [
            (each["operator"], each["description"], each["identity"]) for each in listed
        ]


def test_what_the_json_has() -> None:
    found = explain.plan_as_json(explain.explain_node(node(counted(TUMBLE), watermark="1 minute"), KNOWN))
    assert found["table"] == "shop.bids"
    assert found["streams"] == [
        {
            "relation": "raw.bid",
            "columns": found["streams"][0]["columns"],
            "event_time": "ts",
            "watermark": "newest − 1 minute",
            "changelog": False,
        }
    ]
    assert {"channel", "ts", "url"} <= {*found["streams"][0]["columns"]}
    assert found["results"][0] == "On-time firing: when the watermark reaches window_end."
    assert re.fullmatch("window_[0-9a-f]{10}_rows: rows in", found["sql"][0]["step"])
    aggregate = found["tree"]["inputs"][0]
    assert aggregate["metrics"][1] == {
        "sql": "COUNT(DISTINCT url)",
        "function": "count distinct",
        "columns": ["count_distinct_url_in"],
        "how": "occurrences per slice, counted when a window closes",
    }
    assert aggregate["state"][1]["columns"] == [
        "expires_at",
        "slice_end",
        "channel",
        "url",
        "count_distinct_url_in",
    ]
    assert aggregate["notes"] == [
        "Emits window_start, window_end, channel, COUNT(*) AS n, COUNT(DISTINCT url) AS urls.",
        "Slices of 10 minutes; a window closes every 10 minutes.",
    ]


def test_functions_that_only_a_session_knows(explained: Any) -> None:
    found = explained(f"select my_function(x) as y from {BIDS}")
    assert (
        "Unknown functions: my_function. This plan takes each for a function of one row; a run asks Spark "
        "whether it is an aggregate, and then plans it as one."
    ) in found


def test_columns_that_only_a_session_knows(explained: Any) -> None:
    text = f"select a.x from {BIDS} as a where exists (select 1 from {ASKS} as b where y = z)"
    found = explained(text, state_ttl="7 days")
    assert (
        "The relation or type of y, z is unknown here; a run asks Spark, and may find a cheaper plan than this."
    ) in found


def test_how_windows_are_cut(explained: Any) -> None:
    assert "Slices of 5 minutes; a window closes every 5 minutes." in explained(
        counted(window("hop", "5 minutes", "15 minutes"))
    )
    assert "Sessions of each channel, ended by 30 minutes without rows." in explained(counted(SESSION))
    dynamic = explained(
        counted(window("dynamic_cumulate", "5 minutes", "30 minutes", partition_by=["channel"]))
    )
    assert (
        "A result at each step of 5 minutes, the last one at the first step at or after the session's end."
        in dynamic
    )
    assert "occurrences per slice, counted at each step" in dynamic
    zoned = explained(
        counted(window("cumulate", "1 hour", "1 day", emit="on_change", time_zone="Europe/Berlin"))
    )
    assert "Windows are cut on the clock of Europe/Berlin; the watermark is an instant." in zoned
    assert "A key has results only at steps in which it had new rows." in zoned


def test_grouping_sets(explained: Any) -> None:
    assert "by GROUPING SETS ((channel), ())" in explained(counted(TUMBLE, "rollup(channel)"))


def test_the_rows_that_can_rank(explained: Any) -> None:
    found = explained(ranked("price desc", TUMBLE, "window_start, window_end, channel"))
    assert "WindowTopN first 3 by price DESC per channel, window" in found
    assert "a row that is among the first 3 of its slice per channel" in found
    assert "Why rows are kept: row_number() over rows." in found


def test_when_windows_fire(explained: Any) -> None:
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
        "Early firing: when the watermark reaches window_end − 5 minutes, then every 1 minute, for windows that have rows. "
        "On-time firing: when the watermark reaches window_end + 2 minutes. "
        "Late firing: each late row updates its result until window_end + 1 hour, the end of allowed lateness; then the "
        "state is cleared and later rows are dropped and counted."
    ) in found
    assert "Every change is also appended to shop.bids__changes." in found
    assert "Allowed lateness: none." in explained(counted(TUMBLE))
    assert "firing" not in explained(f"select count(*) as n from {BIDS}")


def test_how_long_windows_below_other_operators_are_kept(explained: Any) -> None:
    """As long as they are without anything above them."""
    twice = f"select channel, window_end from {WINDOWS} union select channel, window_end from {WINDOWS}"
    late = explained(twice, late_updates=True, last_result_offset="1 hour")
    assert (
        "SetOperation (channel, window_end) UNION (channel, window_end)" in late and "WindowChanges" in late
    )
    assert "event time window_end, final when the watermark reaches it + 1 hour" in late
    assert "clears: window end + 1 hour (allowed lateness)" in late
    small = f"select window_time as ts, count(*) as n from {TUMBLE} group by window_start, window_end, window_time, channel"
    above = (
        f"with small as ({small}) select window_start, window_end, max(n) as n "
        f"from {window('tumble', '1 hour', relation='small')} group by window_start, window_end"
    )
    found = explained(above, first_result_offset="-5 minutes", complete_result_offset="2 minutes")
    assert "WindowClose when the watermark reaches window_end" in found
    assert "+ 2 minutes (complete_result_offset), and at early firing" in found


def test_when_windows_over_a_join_fire(explained: Any) -> None:
    matches = f"select b.ts, b.channel, a.price from {BIDS} as b join {ASKS} as a on b.channel = a.channel"
    text = f"with m as ({matches}) {counted(window('tumble', '10 minutes', relation='m')).replace('url', 'price')}"
    found = explained(
        text, state_ttl="1 day", first_result_offset="-5 minutes", complete_result_offset="2 minutes"
    )
    assert (
        "Early firing: when the watermark reaches window_end − 5 minutes, for windows that have rows. "
        "On-time firing: when the watermark reaches window_end + 2 minutes. "
        "After that a window's result changes in the micro-batch in which its input changes."
    ) in found
    assert "No windows" not in found


def test_two_streams(explained: Any) -> None:
    text = f"select b.x, a.y from {BIDS} as b join {ASKS} as a on {IN_TIME}"
    assert "newest − 0 seconds, the smallest of all streams" in explained(text)
    assert "but idle ones (no rows for 10 minutes)" in explained(text, idle_timeout="10 minutes")


def test_what_is_recomputed_says_so(explained: Any) -> None:
    text, config, _ = OPERATORS["a scalar subquery"]
    found = explained(text, **config)
    assert (
        "recomputes everything in each micro-batch: reads all rows that it keeps, and what they gave before"
        in found
    )
    assert (
        "Recomputed: Recompute (recomputes everything in each micro-batch). With allow_recompute: false this"
        in found
    )
    text = f"select a.bidder, a.n, b.n as m from {GROUPS} as a left join {GROUPS} as b on a.bidder = b.bidder"
    found = explained(text, **BIDDERS)
    assert (
        "recomputes touched partitions by a.bidder: reads the kept rows of each partition that changed"
        in found
    )
    text, config, _ = OPERATORS["LEAD over windows"]
    assert (
        "recomputes touched partitions by channel: reads the kept rows of each partition that changed"
        in explained(text, **config)
    )
    text, config, _ = OPERATORS["groups of groups"]
    assert "Recomputed" not in explained(text, **config)
    assert "Nothing is recomputed, as allow_recompute: false asks." in explained(
        text, allow_recompute=False, **config
    )


def test_rankings_of_rows(explained: Any) -> None:
    split = explained(
        f"select /*+ SPLIT_TOPN(4) */ * from (select *, row_number() over (partition by bidder order by price desc) as rn "
        f"from {BIDS}) where rn <= 3",
        **BIDDERS,
    )
    assert "AppendOnlyTopN first 3 by price DESC per bidder" in split
    assert "a row that is, or was, among the first; clears: when others take its place" in split
    assert "New rows are ranked in 4 buckets first." in split
    expiring = explained(ranked("price desc", BIDS, "bidder"), **TTL)
    assert "clears: state_ttl, 2 days after its ranking's last new member" in expiring
    first = explained(ranked("ts", BIDS, "bidder", "rn = 1"), **BIDDERS)
    assert "append · event time ts, emitted in its order" in first
    assert "A row is emitted when the watermark has passed it, so that none can come before it." in first
    of_first = (
        f"select channel, count(*) as n from ({ranked('ts', BIDS, 'bidder', 'rn = 1')}) group by channel"
    )
    below = explained(of_first, constant_domains=["bidder", "channel"])
    assert "Deduplicate keep first by ts per bidder retract · key bidder" in below
    assert "when the watermark has passed it" not in below


def test_a_limit_has_no_column_of_ours(explained: Any) -> None:
    found = explained(
        f"select bidder, count(*) as n from {BIDS} group by bidder order by n desc limit 2 offset 1",
        **BIDDERS,
    )
    assert (
        "Project WHERE rank <= 3 AND rank > 1 upsert(bidder) └── UpdatableTopN first 3 by COUNT(*) DESC upsert(bidder)"
        in found
    )
    assert "AppendOnlyTopN first 5 by price DESC retract state" in explained(
        f"select bidder, price from {BIDS} order by price desc limit 5"
    )


def test_why_groups_do_not_grow_for_ever(explained: Any) -> None:
    def clears(text: str, *domains: str) -> str:
        found: str = explained(text, constant_domains=list(domains))
        return found.partition("partial aggregates per key; clears: ")[2].partition(" COUNT(")[0]

    groups = f"select {{}} as k, count(*) as n from {BIDS} group by 1"
    covered = "nothing: its keys are constant_domains, or have few values"
    assert clears(groups.format("upper(channel)"), "k") == covered
    assert clears(groups.format("upper(channel)"), "channel") == covered
    assert clears(groups.format("price % 10")) == "nothing: the values of its keys are few"
    two = f"select channel, price % 10 as k, count(*) as n from {BIDS} group by 1, 2"
    assert clears(two, "channel") == covered
    recent = f"(select * from {BIDS} where ts >= current_timestamp() - interval 1 hour)"
    assert clears(f"select x, count(*) as n from {recent} group by x") == "nothing: its input is bounded"


def test_a_key_that_the_author_says(explained: Any) -> None:
    groups = f"select bidder, channel, count(*) as n from {BIDS} group by bidder, channel"
    domains = ["bidder", "channel"]
    ours = explained(groups, constant_domains=domains)
    assert "Sink shop.bids upsert(bidder, channel) Changes are merged" in ours
    assert "GroupAggregate by bidder, channel upsert(bidder, channel)" in ours
    # Rows of a group are found by its own keys.
    found = explained(groups, constant_domains=domains, unique_key=["bidder"])
    assert "Sink shop.bids upsert(bidder) Changes are merged" in found
    assert "GroupAggregate by bidder, channel upsert(bidder, channel)" in found


def test_distinct_rows(explained: Any) -> None:
    found = explained(f"select distinct channel, bidder from {BIDS}", constant_domains=["channel", "bidder"])
    assert "GroupAggregate by channel, bidder upsert(channel, bidder)" in found


@pytest.mark.parametrize(
    ("since", "clears"),
    [
        ("1 hour", "watermark − 1 hour"),
        ("0 seconds", "watermark"),
        ("'-5' minutes", "watermark + 5 minutes"),
    ],
)
def test_when_rows_leave(explained: Any, since: str, clears: str) -> None:
    for compares in (">", ">="):
        found = explained(f"select x from {BIDS} where ts {compares} current_timestamp() - interval {since}")
        assert f"a row for which it holds; clears: {clears} A row leaves" in found


def test_one_group_is_never_idle(explained: Any) -> None:
    found = explained(f"select count(*) as n from {BIDS}", **TTL)
    assert "partial aggregates; clears: nothing: there is one" in found
    found = explained(f"select bidder from {BIDS} order by price desc limit 3", **TTL)
    assert "clears: when others take its place" in found and "state_ttl" not in found


def test_tables_beside_the_streams(explained: Any) -> None:
    text, config, _ = OPERATORS["an external table"]
    found = explained(text, **config)
    assert "ExternalTable crm.names" in found
    assert (
        "External table crm.names: its rows are looked up by the distinct values of id; in the SQL they are"
        in found
    )
    assert "Read again in each micro-batch." in explained(OPERATORS["a static table"][0])
    of_changes = explained(
        f"select g.bidder, g.n, d.name from {GROUPS} as g join crm.names as d on d.id = g.bidder", **BIDDERS
    )
    # What a group was called isn't kept: its row is replaced.
    assert "LookupJoin INNER JOIN d ON d.id = g.bidder upsert(bidder)" in of_changes
    assert "to be retracted as it was" not in of_changes
    twice = f"select g.bidder, g.n, d.name from {GROUPS} as g join crm.names as d on d.id = g.bidder"
    below = explained(
        f"select name, sum(n) as n from ({twice}) group by name", constant_domains=["bidder", "name"]
    )
    assert "a row that is there, and what it gave, to be retracted as it was" in below
    assert "ExternalTable crm.names table Asked in each micro-batch for its distinct id." in of_changes


def test_the_authors_words(explained: Any) -> None:
    text = (
        f"select upper(channel) as `Kind`, count(*) + 1 as n from {BIDS} where price > 1 "
        "group by upper(channel) having count(*) > 2"
    )
    found = explained(text, constant_domains=["kind"])
    assert "Project UPPER(channel) AS Kind, COUNT(*) + 1 AS n HAVING COUNT(*) > 2" in found
    assert "GroupAggregate by UPPER(channel) WHERE price > 1" in found


def test_a_stream_without_an_event_time(explained: Any) -> None:
    found = explained("select * from (select /*+ STREAM */ * from raw.untimed)")
    assert "raw.untimed all none none" in found


def test_an_order_at_the_end(explained: Any) -> None:
    text = f"select * from {BIDS}"
    sentence = "The ORDER BY at the end has no effect, since a table has no order: sort where it is read."
    assert sentence in explained(f"{text} order by bidder")
    assert sentence not in explained(text)


def test_the_sql_comes_last(explained: Any) -> None:
    shown = explained(counted(TUMBLE), sql=True)
    assert shown.index("On-time firing") < shown.index("_rows: rows in")
    assert "rows in" not in explained(counted(TUMBLE))


def test_mini_batches(explained: Any) -> None:
    found = explained(f"select /*+ MINI_BATCH('5 seconds', 10000) */ * from {BIDS}")
    assert (
        "Micro-batches: one every 5 seconds while the stream keeps going; of at most 10,000 rows, as far as the "
        "sources can tell." in found
    )
    assert "Micro-batches" not in explained(f"select * from {BIDS}")
