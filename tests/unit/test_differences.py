"""What is said of a query that no longer fits its state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query import expansion, generate, planner, window_arguments
from dbt.adapters.spark_streaming.stream.differences import differences


def signature(
    items: str = "count(*) as n, sum(price) as s",
    keys: str = "item",
    where: str = "price > 0",
    window: tuple[str, ...] = ("tumble", "10 minutes"),
    relation: str = "raw.bid",
    **options: Any,
) -> dict[str, Any]:
    source = expansion.expand(relation, window_arguments.make(window[0], "ts", *window[1:], **options))
    text = f"""select window_start, window_end, {keys}, {items} from {source} where {where}
        group by window_start, window_end, {keys}"""
    made: dict[str, Any] = json.loads(json.dumps(generate.signature(planner.plan(text))))
    return made


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (signature(), []),
        (signature("sum(price) + 1 as other, count(*) as n"), []),
        (
            signature("count(*) as n, max(price) as m"),
            ["the aggregate SUM(price) is gone", "the aggregate MAX(price) is new"],
        ),
        (signature(keys="bidder"), ["the group key item is gone", "the group key bidder is new"]),
        (signature(window=("tumble", "20 minutes")), ["the window's size"]),
        (signature(offset="1 minute"), ["the window's offset"]),
        (
            signature(window=("cumulate", "10 minutes", "1 hour")),
            ["the window is cumulate() and was tumble()"],
        ),
        (signature(where="price > 1"), ["what is read below the aggregates"]),
    ],
)
def test_what_changed(now: dict[str, Any], said: list[str]) -> None:
    assert differences(signature(), now) == said


def test_another_stream() -> None:
    found = differences(signature(), signature(relation="raw.ask"))
    assert "the streams it reads" in found


def test_a_stage_more() -> None:
    old = signature()
    assert differences(old, {**old, "stages": [*old["stages"], {"name": "stage_2"}]}) == ["stage_2 is new"]
    assert differences({**old, "version": 0}, old) == ["version"]


def test_what_there_is_no_word_for_is_a_difference_too() -> None:
    old = {"stages": [{"name": "stage_1", "top": None}]}
    assert differences(old, {"stages": [{"name": "stage_1"}]}) == ["stages"]
