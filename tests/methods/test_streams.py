"""What macros call for windows and streams: arguments that a macro wasn't given are told as missing."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import DbtRuntimeError
from jinja2 import Undefined

from dbt.adapters.spark_streaming.methods.streams import StreamingMethods


class Adapter(StreamingMethods):
    """The methods alone."""


def test_a_window_macro_becomes_a_subquery() -> None:
    text = Adapter().expand_window("tumble", "shop.orders", "ts", ["1 hour"], offset="15 minutes")
    assert "/*+ TUMBLE(`ts`, '1 hour', '15 minutes') */" in text and "shop.orders" in text


def test_a_stream_is_a_relation_with_a_hint() -> None:
    assert Adapter().expand_stream("shop.orders") == "(select /*+ STREAM */ * from shop.orders)"


@pytest.mark.parametrize(
    ("time", "lengths", "missing"),
    [
        ("ts", [Undefined(name="size")], "size is missing"),
        (Undefined(name="time_col"), ["1 hour"], "time_col is missing"),
        (Undefined(name="time_col"), [Undefined(name="size")], "time_col and size are missing"),
    ],
)
def test_what_a_macro_was_not_given_is_missing(time: str, lengths: list[object], missing: str) -> None:
    with pytest.raises(DbtRuntimeError, match=missing):
        Adapter().expand_window("tumble", "shop.orders", time, lengths)
