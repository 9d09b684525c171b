"""Early and late results, on DuckDB: a tree of operators gives the rows of windows alone
at each step, and batch's in the end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.sql.intervals import MINUTE
from dbt.adapters.spark_streaming.query.windows import emission, expansion
from tests.corpus.unwindowed import DAY
from tests.corpus.windows import BY_ITEM, COALESCED, CUMULATE, DYNAMIC, HOP, SESSION, TUMBLE, joined, window
from tests.differential import duck
from tests.differential.outcome import EQUAL
from tests.differential.test_composed import laboratory
from tests.planned import plan_of, tree_of
from tests.thorough import mostly_thorough

__all__ = ["laboratory"]  # a fixture

KNOWN = {name: RelationInfo(event_time="ts") for name in ("bids", "asks")}
RESULTS = {
    "early": {"first_result_offset": "-8 minutes"},
    "early, updated": {"first_result_offset": "-9 minutes", "update_rate": "3 minutes"},
    "late": {"late_updates": True, "last_result_offset": "15 minutes"},
    "early, complete later, late": {
        "first_result_offset": "-8 minutes",
        "complete_result_offset": "4 minutes",
        "late_updates": True,
        "last_result_offset": "12 minutes",
    },
    "complete later": {"complete_result_offset": "6 minutes"},
}
BY_BIDDER = (
    "select window_start, window_end, bidder, {} as n from {} group by window_start, window_end, bidder"
)


def first(of: str, within: str, order: str) -> str:
    """The first two rows of each group."""
    return f"""select * from (select *, row_number() over (partition by {within} order by {order}) as rn from ({of}))
        where rn <= 2"""


def above(kind: str, *lengths: str) -> str:
    """Windows over the results of others."""
    small = f"""(select window_time as ts, item, count(*) as n from {TUMBLE}
        group by window_start, window_end, window_time, item)"""
    return f"""select window_start, window_end, max(n) as n, count(*) as times from {window(kind, *lengths, of=small)}
        group by window_start, window_end"""


BOTH = "l.window_start, l.window_end, l.item, l.n, r.item as other, r.n as m"
WITHIN_WINDOWS = {
    "tumble": BY_ITEM.format("count(distinct price)", TUMBLE),
    "hop": BY_ITEM.format("avg(price)", HOP),
    "cumulate": BY_ITEM.format("count(distinct bidder)", CUMULATE),
    "session": BY_BIDDER.format("count(*)", SESSION),
    "dynamic_cumulate": BY_BIDDER.format("count(distinct price)", DYNAMIC),
    "percentiles": BY_ITEM.format("percentile(price, 0.5)", TUMBLE),
    "having": BY_ITEM.format("count(*)", HOP) + " having count(*) < 4",
    "topn": first(BY_ITEM.format("count(*)", TUMBLE), "window_end", "n desc, item"),
    "inner join": joined("inner", TUMBLE, BOTH),
    "zone": BY_ITEM.format("count(*)", window("tumble", "10 minutes", time_zone="Asia/Kolkata")),
}
SESSIONS = BY_BIDDER.format("count(*)", SESSION)
_BIDS, _ASKS = expansion.expand_stream("bids"), expansion.expand_stream("asks")
MATCHES = f"(select b.ts, b.item, a.price from {_BIDS} as b join {_ASKS} as a on b.item = a.item and b.price = a.price)"
IN_OPERATORS = {
    "sessions joined": f"""select l.window_start, l.window_end, l.bidder, l.n, r.n as m from ({SESSIONS}) as l
        left join ({BY_BIDDER.format("max(price)", SESSION)}) as r on l.window_start = r.window_start
        and l.window_end = r.window_end and l.bidder = r.bidder""",
    "sessions ranked": first(SESSIONS, "window_end", "n desc, bidder"),
    "rows of sessions ranked": first(
        f"select * from {SESSION}", "window_start, window_end, bidder", "price, item"
    ),
    "left join": joined("left", TUMBLE),
    "full join": joined("full", TUMBLE, COALESCED),
    "percentiles of sessions": BY_BIDDER.format("percentile(price, 0.5)", SESSION),
    "sessions without their key": f"""select window_start, window_end, count(*) as n from {SESSION}
        group by window_start, window_end""",
    "without a key": f"select window_end, n from ({BY_ITEM.format('count(*)', TUMBLE)})",
    "without their windows": f"select item, n from ({BY_ITEM.format('count(*)', HOP)})",
    "union": f"""select window_end, n from ({BY_ITEM.format("count(*)", TUMBLE)}) union
        select window_end, n from ({BY_ITEM.format("count(*)", HOP)})""",
    "except": f"""select window_end, item from ({BY_ITEM.format("count(*)", TUMBLE)}) except
        select window_end, item from ({BY_ITEM.format("count(*)", TUMBLE)} having count(*) > 2)""",
    "groups of windows": f"""select window_end, count(*) as items, max(n) as most
        from ({BY_ITEM.format("count(*)", HOP)}) group by window_end""",
    "tumble of windows": above("tumble", "30 minutes"),
    "hop of windows": above("hop", "10 minutes", "20 minutes"),
    "cumulate of windows": above("cumulate", "10 minutes", "1 hour"),
    "windows of a join": BY_ITEM.format("count(distinct price)", window("tumble", "10 minutes", of=MATCHES))
    + " having count(distinct price) < 3",
    "exists": f"""select window_end, item, n from ({BY_ITEM.format("count(*)", TUMBLE)}) as l where exists (
        select 1 from ({BY_ITEM.format("count(*)", TUMBLE)}) as r
        where r.window_end = l.window_end and r.n > l.n)""",
}


STEPS = [(name, results) for name in WITHIN_WINDOWS for results in RESULTS]
_STEPS = [("topn", "early, complete later, late")]
ENDS = [(name, results) for name in IN_OPERATORS for results in RESULTS]
_ENDS = [
    ("rows of sessions ranked", "late"),
    ("without a key", "early"),
    ("exists", "complete later"),
]


@pytest.mark.parametrize("case", mostly_thorough(STEPS, _STEPS), ids=", ".join)
def test_operators_give_at_each_step_what_windows_give(
    laboratory: duck.Laboratory, case: tuple[str, str]
) -> None:
    name, results = case
    text, when = WITHIN_WINDOWS[name], emission.emission_from_configs(RESULTS[results])
    within_windows = plan_of(text, KNOWN)
    in_operators = tree_of(text, KNOWN, emission=when)
    # Window operators take the result of a session that had closed away when a late one begins around it.
    batch, delay = whole_query.batch_sql(within_windows), timedelta(minutes=5)
    expected = laboratory.steps(batch, generate.generate_program(within_windows, when), 6, delay)
    assert laboratory.steps(batch, generate.generate_program(in_operators, when), 6, delay) == expected
    assert expected[2] and expected[-1] != expected[-2]


@pytest.mark.parametrize("case", mostly_thorough(ENDS, _ENDS), ids=", ".join)
def test_in_the_end_they_have_the_rows_of_batch(laboratory: duck.Laboratory, case: tuple[str, str]) -> None:
    name, results = case
    when = emission.emission_from_configs(RESULTS[results])
    if when.first is not None:
        # The watermark is an hour behind: now it passes this time while rows still come.
        when = replace(when, first=when.first - 50 * MINUTE)
    ttl = 90 * DAY if name in ("exists", "windows of a join") or "sessions" in name else None
    found = plan_query.plan(IN_OPERATORS[name], KNOWN, ttl, emission=when)
    outcome = laboratory.stream(
        whole_query.batch_sql(found), generate.generate_program(found, when, ttl=ttl), 4, timedelta(hours=1)
    )
    assert outcome.kind == EQUAL, outcome.detail
