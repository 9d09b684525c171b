"""When results come: configs, and what they ask of the query."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.plan.state.window_trigger import WindowTrigger
from dbt.adapters.spark_streaming.query.program import Boundaries
from dbt.adapters.spark_streaming.query.sql.intervals import MINUTE
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from tests.planned import plan_of

EARLY = {"first_result_offset": "-5 minutes"}


def window(kind: str, *lengths: str, relation: str = "raw.bid", **options: Any) -> str:
    return expansion.expand(relation, window_arguments.make(kind, "ts", *lengths, **options))


TUMBLE = window("tumble", "10 minutes")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"complete_result_offset": "-1 minute"},
            "complete_result_offset '-1 minute' is before the window's end",
        ),
        (
            {"first_result_offset": "1 minute"},
            "first_result_offset '1 minute' is not before complete_result_offset",
        ),
        ({"update_rate": "1 minute"}, "update_rate '1 minute' without first_result_offset"),
        ({**EARLY, "update_rate": "0 seconds"}, "update_rate '0 seconds' must be longer than nothing"),
        ({"late_updates": True}, "'late_updates' needs last_result_offset"),
        ({"late_updates": "yes"}, "'late_updates' is 'yes'"),
        (
            {"complete_result_offset": "5 minutes", "last_result_offset": "1 minute"},
            "last_result_offset '1 minute' is before complete_result_offset '5 minutes'",
        ),
        ({"last_result_offset": "1 minute"}, "but late_updates is false"),
        (
            {
                "late_updates": True,
                "complete_result_offset": "1 minute",
                "last_result_offset": "60 seconds",
            },
            "last_result_offset '60 seconds' is the time of on-time firing, so no row can update its result",
        ),
        ({"first_result_offset": "soon"}, "config 'first_result_offset': 'soon' is not an interval"),
    ],
)
def test_contradictions_are_named(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        emission.read(config)
    assert sentence in str(refusal.value)


def test_only_early_and_late_results_change() -> None:
    assert not emission.read({}).changes
    assert not emission.read({"complete_result_offset": "1 minute"}).changes
    assert emission.read(EARLY).changes
    assert emission.read({"late_updates": True, "last_result_offset": "1 hour"}).changes


def upsert(text: str, config: dict[str, Any] | None = None) -> Any:
    program = generate.program(plan_of(text), emission.read(EARLY if config is None else config))
    return program.upsert


def test_rows_are_found_again_by_their_keys() -> None:
    text = f"select window_start as s, window_end as e, channel as c, count(*) as n from {TUMBLE} group by 1, 2, 3"
    assert sorted(upsert(text).key) == ["c", "e"]
    assert upsert(text, {}) is None


def test_keys_are_followed_through_joins_and_ranks() -> None:
    counted = f"select window_start, window_end, {{}}, count(*) as n from {TUMBLE} group by all"
    text = f"""
        select * from (
          select a.*, b.n as m, rank() over (partition by a.window_end order by a.n) as r
          from ({counted.format("channel, auction")}) as a join ({counted.format("channel")}) as b
            on a.window_end = b.window_end and a.channel = b.channel
        ) where r <= 10"""
    with pytest.raises(QueryError, match="put channel into the select list"):
        upsert(text)
    assert sorted(upsert(text.replace("b.n as m", "b.n as m, b.channel as of_b")).key) == [
        "auction",
        "channel",
        "of_b",
        "window_end",
    ]


def test_a_row_number_identifies_rows() -> None:
    text = f"""select * from (
        select *, row_number() over (partition by window_start, window_end, channel order by price) as rn
        from {TUMBLE}) where rn <= 3"""
    assert sorted(upsert(text).key) == ["channel", "rn", "window_end", "window_start"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"select window_start, window_end, count(*) as n from {TUMBLE} group by window_start, window_end, channel",
            "put channel into the select list",
        ),
        (
            f"select window_start, channel, count(*) as n from {TUMBLE} group by window_start, window_end, channel",
            "put window_end into the select list",
        ),
        (
            f"select window_start, window_end, channel, count(*) as n from {TUMBLE} "
            "group by window_start, window_end, rollup(channel)",
            "put grouping_id into the select list",
        ),
        (f"select * from {TUMBLE}", "rows that pass through are 'append'"),
        (
            f"select window_start, window_end, percentile(price, 0.5) as p from {TUMBLE} group by 1, 2 "
            f"union all select window_start, window_end, count(*) from {TUMBLE} group by 1, 2",
            "Nothing identifies a row",
        ),
    ],
)
def test_results_that_could_not_be_found_again(text: str, sentence: str) -> None:
    with pytest.raises(QueryError) as refusal:
        generate.program(plan_of(text), emission.read(EARLY), upsert=True)
    assert sentence in str(refusal.value)


def test_windows_over_windows_have_final_input() -> None:
    below = f"select window_start, window_end, window_time as ts, count(*) as n from {TUMBLE} group by all"
    text = f"""with a as ({below}) select window_start, window_end, sum(n) as n
        from {window("tumble", "1 hour", relation="a")} group by 1, 2"""
    with pytest.raises(QueryError, match="put the upper window into a separate model"):
        upsert(text)


def test_a_batch_without_a_logical_time_in_it_puts_nothing_out() -> None:
    half_hours = window_arguments.make("tumble", "ts", "30 minutes")
    config = {
        "first_result_offset": "-15 minutes",
        "update_rate": "5 minutes",
        "complete_result_offset": "2 minutes",
    }
    found = WindowTrigger(half_hours, emission.read(config)).boundaries
    assert found == (Boundaries(30 * MINUTE, 2 * MINUTE), Boundaries(5 * MINUTE, 0))
    assert (
        WindowTrigger(
            half_hours, emission.read({"late_updates": True, "last_result_offset": "1 hour"})
        ).boundaries
        is None
    )
