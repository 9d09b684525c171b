"""Until when rows of an inner join may find others, by the times that its conditions compare."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.frontend import session_zone
from dbt.adapters.spark_streaming.query.plan.time_bounds import TimeBounds, arrival_delay_of
from dbt.adapters.spark_streaming.query.sql.dialect import parse
from dbt.adapters.spark_streaming.query.sql.intervals import HOUR, MINUTE

WINDOW = {"window_end": 0, "window_start": HOUR}
TS = {"ts": 0}
CASES: dict[str, tuple[str, dict[str, dict[str, int]], dict[str, list[tuple[str, int]]] | None]] = {
    "between": (
        "b.ts between a.ts - interval 5 minutes and a.ts",
        {"a": TS, "b": TS},
        {"a": [("ts", 0)], "b": [("ts", 5 * MINUTE)]},
    ),
    "strict, and turned round": (
        "a.ts + interval 1 minute > b.ts and a.ts < b.ts",
        {"a": TS, "b": TS},
        {"a": [("ts", MINUTE)], "b": [("ts", 0)]},
    ),
    "a difference": (
        "a.ts - b.ts < interval 5 minutes and b.ts <= a.ts",
        {"a": TS, "b": TS},
        {"a": [("ts", 0)], "b": [("ts", 5 * MINUTE)]},
    ),
    "a difference of moved times, between two intervals": (
        "(a.ts - interval 1 minute) - b.ts between interval 0 minutes and interval 5 minutes",
        {"a": TS, "b": TS},
        {"a": [("ts", -MINUTE)], "b": [("ts", 6 * MINUTE)]},
    ),
    "a difference of a month": (
        "a.ts - b.ts < interval 1 month and b.ts <= a.ts",
        {"a": TS, "b": TS},
        None,
    ),
    "a month, and a bound that is nearer": (
        "b.ts between a.ts - interval 1 month and a.ts and b.ts >= a.ts - interval 5 minutes",
        {"a": TS, "b": TS},
        {"a": [("ts", 0)], "b": [("ts", 5 * MINUTE)]},
    ),
    "a month alone": ("b.ts between a.ts - interval 1 month and a.ts", {"a": TS, "b": TS}, None),
    "a bound on one side": ("b.ts >= a.ts", {"a": TS, "b": TS}, None),
    "no event time": ("b.ts = a.x", {"a": {}, "b": TS}, None),
    "a column that carries no time may lie anywhere": (
        "b.ts between a.x and a.x + interval 1 minute and a.ts = b.y",
        {"a": TS, "b": TS},
        None,
    ),
    "until a column of the user's or a time": (
        "b.ts between a.ts and a.valid_until and b.ts <= a.ts + interval 7 minutes",
        {"a": TS, "b": TS},
        {"a": [("ts", 7 * MINUTE)], "b": [("ts", 0)]},
    ),
    "one after the other by what may be text": (
        "b.ts between a.ts and a.x and c.y <= a.x and c.y >= b.z",
        {"a": TS, "b": TS, "c": TS},
        None,
    ),
    "in its window": (
        "a.ts >= w.window_start and a.ts < w.window_end",
        {"a": TS, "w": WINDOW},
        {"a": [("ts", HOUR)], "w": [("window_end", 0)]},
    ),
    "one after the other": (
        "b.ts between a.ts and a.ts + interval 7 minutes and c.ts between b.ts - interval 3 minutes and b.ts",
        {"a": TS, "b": TS, "c": TS},
        {
            "a": [("ts", 7 * MINUTE)],
            "b": [("ts", 0)],
            "c": [("ts", 3 * MINUTE)],
        },
    ),
    "one of three is unbounded": ("b.ts = a.ts and c.ts > a.ts", {"a": TS, "b": TS, "c": TS}, None),
    "rows that come late themselves": (
        "a.ts = b.ts",
        {"a": {"ts": HOUR}, "b": TS},
        {"a": [("ts", 0)], "b": [("ts", HOUR)]},
    ),
    "months differ": (
        "b.ts between a.ts - interval 1 month and a.ts",
        {"a": TS, "b": TS},
        None,
    ),
    "months beside a bound": (
        "b.ts >= a.ts - interval 1 month and b.ts between a.ts - interval 5 minutes and a.ts",
        {"a": TS, "b": TS},
        {"a": [("ts", 0)], "b": [("ts", 5 * MINUTE)]},
    ),
    "a field of a struct": ("a.rec.ts = b.ts and b.ts = a.rec.ts", {"a": TS, "b": TS}, None),
    "either of two": ("a.ts = b.ts or a.k = b.k", {"a": TS, "b": TS}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_until_when_rows_find_others(name: str) -> None:
    condition, times, expected = CASES[name]
    first, *others = times
    joins = "".join(f" join {alias}" for alias in others[:-1]) + f" join {others[-1]} on {condition}"
    select = parse(f"select * from {first}{joins}")
    assert isinstance(select, exp.Select)
    found = TimeBounds(select, times).until_for_inner_join()
    assert (found and {alias: [*until] for alias, until in found.items()}) == expected


def test_when_rows_of_the_join_come() -> None:
    select = parse("select * from a join b on b.ts between a.ts and a.ts + interval 7 minutes")
    assert isinstance(select, exp.Select)
    bounds = TimeBounds(select, {"a": TS, "b": TS})
    until = bounds.until_for_inner_join()
    assert until is not None
    # A row of `a` waits for those of `b`; what `b` joins later came at the same time.
    assert bounds.delays(until) == {("a", "ts"): 7 * MINUTE, ("b", "ts"): 0}


@pytest.mark.parametrize(("zone", "hours"), [("Europe/Berlin", 27), ("UTC", 24)])
def test_a_day_by_which_a_select_moves_a_time_may_be_longer(zone: str, hours: int) -> None:
    tree = parse("select a.ts - interval 1 day as d from a")
    session_zone.mark_clock_slack(tree, lambda query: (zone,))
    assert arrival_delay_of(tree.expressions[0].this, lambda column: 0) == hours * HOUR


def test_rows_of_a_full_join_are_kept_until_nothing_is_asked_of_them() -> None:
    """A late row's partner may have come alone: by what it met that is told."""
    bounds = TimeBounds(
        parse("select * from a full join b on b.ts between a.ts and a.ts + interval 1 hour"),
        {"a": TS, "b": TS},
    )
    assert bounds.until_for_outer_join(("a",)) == {"a": (("ts", HOUR),), "b": (("ts", HOUR),)}
    assert bounds.until_for_outer_join(("a", "b")) == {"a": (("ts", 2 * HOUR),), "b": (("ts", HOUR),)}
