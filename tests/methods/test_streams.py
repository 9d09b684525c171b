"""What macros call for windows and streams: arguments that a macro wasn't given are told as missing."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import DbtRuntimeError
from jinja2 import Undefined

from dbt.adapters.spark_streaming.methods import streams
from dbt.adapters.spark_streaming.methods.streams import StreamingMethods
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation
from dbt.adapters.spark_streaming.service.health import RUNNING, Health


class Adapter(StreamingMethods):
    """The methods alone."""

    environment = None


def test_a_window_macro_becomes_a_subquery() -> None:
    text = Adapter().expand_window("tumble", "shop.orders", "ts", ["1 hour"], offset="15 minutes")
    assert "/*+ TUMBLE(`ts`, '1 hour', '15 minutes') */" in text and "shop.orders" in text


@pytest.mark.parametrize("value", ["false", "no", 0, ["true"]])
def test_a_variable_that_is_neither_true_nor_false_is_refused(value: object) -> None:
    """A text is true in Jinja: 'false' closed the windows of each model, or kept a state of other rows."""
    with pytest.raises(DbtRuntimeError, match=r"The variable flush is .*; write true or false, as in --vars"):
        Adapter().boolean_variable("flush", value)
    assert [Adapter().boolean_variable("flush", each) for each in (True, False, None)] == [True, False, False]


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


@pytest.mark.parametrize(
    ("config", "is_asked_for", "is_skipped"),
    [({}, False, True), ({"on_running": "skip"}, True, False), ({"on_running": "fail"}, False, False)],
)
def test_a_model_that_a_service_runs_is_skipped_unless_its_author_or_the_run_wants_more(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, str], is_asked_for: bool, is_skipped: bool
) -> None:
    held = Health("m", RUNNING, 0.0, text="old", pid=4711, host="worker-1")
    monkeypatch.setattr(streams.health, "health_in_other_process", lambda model: held)
    monkeypatch.setattr(streams.stream_node, "stream_model", lambda node, environment: None)
    found = Adapter().skip_response(
        {"name": "m", "config": config, "checksum": {"checksum": "new"}}, is_asked_for
    )
    said = None if found is None else str(found)
    assert (said is not None) == is_skipped
    if said is not None:
        assert "skipped: process 4711 on worker-1" in said and "its query has been edited since" in said


def test_a_clone_of_a_streaming_model_is_said_to_be_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(streams.logger, "info", said.append)
    original = SparkStreamingRelation.create(schema="prod", identifier="counts")
    for materialized in ("table", "topn"):
        Adapter().log_clone_notice({"name": "counts", "config": {"materialized": materialized}}, original)
    (line,) = said
    assert line.startswith("Model counts: the clone is a view on prod.counts.")
    assert "`dbt-stream state clone counts --from-target TARGET`" in line


def test_a_column_without_quotes_is_said_to_lack_them() -> None:
    with pytest.raises(DbtRuntimeError, match=r"ordered_at is not known in Jinja.*in quotes: 'ordered_at'"):
        Adapter().expand_window("tumble", "shop.orders", Undefined(name="ordered_at"), ["1 hour"])


def test_a_cte_without_quotes_is_said_to_lack_them() -> None:
    with pytest.raises(DbtRuntimeError, match=r"big is not known in Jinja.*CTE in quotes: 'big'"):
        Adapter().expand_window("tumble", Undefined(name="big"), "ts", ["1 hour"])
