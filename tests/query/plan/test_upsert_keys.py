"""Rows of windows that fire several times are found again by their keys."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from tests.planned import plan_of

EARLY = {"first_result_offset": "-5 minutes"}


def window(kind: str, *lengths: str, relation: str = "raw.bid", **options: Any) -> str:
    return expansion.expand_window(relation, window_arguments.make_window(kind, "ts", *lengths, **options))


TUMBLE = window("tumble", "10 minutes")


def upsert(text: str, config: dict[str, Any] | None = None) -> Any:
    program = generate.generate_program(
        plan_of(text), emission.emission_from_configs(EARLY if config is None else config)
    )
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


@pytest.mark.parametrize("kind", ["session", "dynamic_cumulate"])
def test_the_key_of_sessions_is_known_by_any_name(kind: str) -> None:
    over = window(kind, *["1 minute"] * (kind != "session"), "5 minutes", partition_by=["bidder"])
    renamed = f"select window_start, window_end, bidder as b, channel as bidder from {over}"
    text = f"select window_start, window_end, b, bidder, count(*) as n from ({renamed}) group by all"
    assert "old.`b` <=> fired.`b`" in upsert(text).condition
    with pytest.raises(QueryError, match="esults that change"):
        upsert(text.replace("window_end, b, bidder, count", "window_end, bidder, count"))


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
        (
            f"select count(*) as n from {window('session', '5 minutes', partition_by=['bidder'])} "
            "group by window_start, window_end, bidder, channel",
            "put bidder, channel, window_end, window_start into the select list",
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
        generate.generate_program(plan_of(text), emission.emission_from_configs(EARLY), upsert=True)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("call", "sets"),
    [
        ("grouping_id()", "cube (auction, channel)"),
        ("grouping_id(auction, channel)", "cube (auction, channel)"),
        # All sets have auction.
        ("grouping(channel)", "grouping sets ((auction, channel), (auction))"),
    ],
)
def test_what_tells_grouping_sets_apart_is_part_of_the_key(call: str, sets: str) -> None:
    text = f"select window_start, window_end, auction, channel, {call} as g, count(*) as n from {TUMBLE}"
    made = upsert(f"{text} group by window_start, window_end, {sets}")
    assert sorted(made.key) == ["auction", "channel", "g", "window_end"]


def test_a_bit_of_several_does_not_tell_grouping_sets_apart() -> None:
    text = f"select window_start, window_end, auction, channel, grouping(channel) as g, count(*) as n from {TUMBLE}"
    with pytest.raises(QueryError, match="put grouping_id into the select list"):
        upsert(f"{text} group by window_start, window_end, cube (auction, channel)")


def test_windows_over_windows_have_final_input() -> None:
    below = f"select window_start, window_end, window_time as ts, count(*) as n from {TUMBLE} group by all"
    text = f"""with a as ({below}) select window_start, window_end, sum(n) as n
        from {window("tumble", "1 hour", relation="a")} group by 1, 2"""
    with pytest.raises(QueryError, match="put the upper window into a separate model"):
        upsert(text)
