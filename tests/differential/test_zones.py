"""Windows on the clocks of time zones, when these are put forward and back. More of them: bench/zones.py."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import window_arguments
from tests.differential.duck import Laboratory, translated
from tests.differential.zones import COLUMNS, Row, Zoned, make, run, windows
from tests.thorough import mostly_thorough

_NUMBERS = [range(1), range(1, 8)]


def at(day: str, *times: str) -> list[Row]:
    """Rows of 2024: ``"00:50 x"``."""
    return [(datetime.fromisoformat(f"2024-{day} {time[:5]}"), time[6:], 1) for time in times]


def counted(*window: str, **options: Any) -> str:
    source = windows(*window, time_zone="Europe/Berlin", **options)
    return f"select window_start, window_end, item, count(*) as n from {source} group by window_start, window_end, item"


_COLUMNS = "window_start window_end item n"
_HALVES = counted("hop", "30 minutes", "1 hour")
_DAYS = counted("tumble", "1 day")
_FORWARD = [at("03-31", each) for each in ("00:50 x", "01:10 x", "01:40 x", "02:10 x")]
_HOURS = [at(f"03-{30 + hour // 24}", f"{hour % 24:02}:30 x") for hour in range(18, 27)]
EXAMPLES = {
    # Two windows end when the clock is put forward, or begin then.
    "early results of two windows with one end": Zoned(
        counted("hop", "1 hour", "24 hours"),
        _COLUMNS,
        {"first_result_offset": "-6 hours", "update_rate": "1 hour"},
        _HOURS,
    ),
    "late updates of one of two windows with one end": Zoned(
        _HALVES, _COLUMNS, {"late_updates": True, "last_result_offset": "5 minutes"}, _FORWARD
    ),
    "groups by the end alone": Zoned(
        f"select window_end, sum(n) as n from ({_HALVES}) group by window_end", "window_end n", {}, _FORWARD
    ),
    # An hour after a day's end isn't an hour later on the clock.
    "a day that is complete hours later, forward": Zoned(
        _DAYS,
        _COLUMNS,
        {"complete_result_offset": "3 hours"},
        [
            at("03-30", "12:00 x"),
            *(at("03-31", f"0{hour}:30 x") for hour in range(3)),
            at("04-02", "12:00 x"),
        ],
    ),
    "a day that is complete hours later, back": Zoned(
        _DAYS,
        _COLUMNS,
        {"complete_result_offset": "3 hours"},
        [
            at("10-26", "12:00 x"),
            *(at("10-27", f"0{hour}:30 x") for hour in range(3)),
            at("10-29", "12:00 x"),
        ],
    ),
    "late updates while the clock is put back": Zoned(
        _HALVES,
        _COLUMNS,
        {"late_updates": True, "last_result_offset": "2 hours"},
        [at("10-26", "23:10 x", "23:40 x"), at("10-27", "02:55 z"), at("10-27", "03:10 z")],
        folds=True,
    ),
    "steps on change that the clock leaves out": Zoned(
        counted("cumulate", "30 minutes", "1 day", emit="on_change"),
        _COLUMNS,
        {},
        [at("03-31", "00:45 x"), at("03-31", "05:45 y"), at("04-02", "00:00 z")],
    ),
}

_IN_CI = ["late updates while the clock is put back"]


@pytest.mark.parametrize("name", mostly_thorough(EXAMPLES, _IN_CI))
def test_what_once_differed(name: str) -> None:
    assert run(EXAMPLES[name]) is None


@pytest.mark.parametrize("numbers", mostly_thorough(_NUMBERS, []), ids=str)
def test_random_windows(numbers: range) -> None:
    found = {number: run(make(f"ci {number}")) for number in numbers}
    assert not {number: said for number, said in found.items() if said not in (None, "refused")}
    assert list(found.values()).count("refused") <= len(found) / 4


def test_a_step_on_change_that_the_clock_leaves_out_comes_with_the_next() -> None:
    """In batch and in a stream alike; so it takes another look that it is there at all."""
    case = EXAMPLES["steps on change that the clock leaves out"]
    laboratory = Laboratory()
    laboratory.put("bid", COLUMNS, case.cuts)
    text = translated(whole_query.batch_sql(plan_query.plan_windows(case.text, batch=True)))
    rows = laboratory.base.cursor().execute(text).fetchall()
    ends = {row[2]: row[1].replace(tzinfo=None) for row in rows}
    assert ends["x"] == datetime(2024, 3, 31, 1)
    assert ends["y"] == datetime(2024, 3, 31, 6)


@pytest.mark.parametrize(
    "zone, skipped, changed",
    [
        ("Africa/Monrovia", "1972-01-07 00:00", "1972-01-07 00:44:30"),
        ("Africa/Bissau", "1912-01-01 00:00", "1912-01-01 01:00:00"),
        ("Pacific/Tongatapu", "1945-09-10 00:00", "1945-09-09 11:40:48"),
        ("Pacific/Apia", "2011-12-30 00:00", "2011-12-30 10:00:00"),
        ("Europe/Berlin", "2024-03-31 02:30", "2024-03-31 01:00:00"),
    ],
)
def test_a_skipped_local_time_is_the_instant_of_the_change(zone: str, skipped: str, changed: str) -> None:
    """Also where the offset before it has seconds."""
    window = window_arguments.make_window("tumble", "ts", "1 day", time_zone=zone)
    local_time = f"unix_micros(timestamp'{skipped}:00')"
    rows = Laboratory().base.cursor().execute(translated(f"select {window.instant(local_time)}")).fetchall()
    ((found,),) = rows
    assert found.replace(tzinfo=None) == datetime.fromisoformat(changed)
