"""The watermark of a model: it never goes back, and the slowest stream holds it."""

from __future__ import annotations

from dbt.adapters.spark_streaming.stream.progress.watermark import Watermark


def test_the_watermark_never_goes_back() -> None:
    mark = Watermark(delay=10, newest={"clicks": None}).advance({"clicks": 100})
    assert mark.value == 90
    assert mark.advance({"clicks": 50}).value == 90
    assert mark.advance({"clicks": None}).value == 90


def test_a_stream_without_rows_holds_the_watermark() -> None:
    mark = Watermark(delay=0, newest={"clicks": None, "orders": None}).advance({"clicks": 100})
    assert mark.value is None
    assert mark.advance({"orders": 70}).value == 70
    assert mark.advance({"orders": 170}).value == 100


def test_closing_the_windows_puts_the_watermark_ahead_of_the_streams() -> None:
    mark = Watermark(delay=0, newest={"clicks": 100}, value=500)
    assert mark.advance({"clicks": 200}).value == 500
    assert mark.advance({"clicks": 501}).value == 501
