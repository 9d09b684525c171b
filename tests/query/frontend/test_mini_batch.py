"""What the hint MINI_BATCH asks for, and how each source is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.project import stream_node, streaming
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.program import MiniBatch
from dbt.adapters.spark_streaming.query.sql.intervals import SECOND
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.sources import stream_source
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from tests.planned import plan_of, signature_of

BIDS, ASKS = "(select /*+ STREAM */ * from raw.bid)", "(select /*+ STREAM */ * from raw.ask)"
WINDOWED = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "1 hour"))


@pytest.mark.parametrize(
    ("hint", "asked"),
    [
        ("MINI_BATCH('5 seconds', 10000)", MiniBatch(5 * SECOND, 10000)),
        ("mini_batch(10000, '5s')", MiniBatch(5 * SECOND, 10000)),
        ("MINI_BATCH(interval '5' second)", MiniBatch(5 * SECOND)),
        ("BROADCAST(b), MINI_BATCH(1)", MiniBatch(rows=1)),
    ],
)
def test_it_stands_after_any_select_and_changes_no_state(hint: str, asked: MiniBatch) -> None:
    grouped = "select {} window_start, window_end, count(*) as n from " + WINDOWED + " group by 1, 2"
    plain = plan_of(f"select * from ({grouped.format('')})")
    for text in (
        f"select /*+ {hint} */ * from ({grouped.format('')})",
        f"with n as ({grouped.format(f'/*+ {hint} */')}) select * from n",
    ):
        plan = plan_of(text)
        assert plan.mini_batch == asked == generate.generate_program(plan).mini_batch
        assert signature_of(plan) == signature_of(plain)


def test_a_cte_that_is_read_twice_has_one_hint() -> None:
    text = f"with b as (select /*+ MINI_BATCH(5) */ * from {BIDS}) select * from b union all select * from b"
    assert plan_of(text).mini_batch == MiniBatch(rows=5)


@pytest.mark.parametrize(
    ("hint", "sentence"),
    [
        ("MINI_BATCH", "The hint MINI_BATCH has no arguments. Write how long, how many rows, or both"),
        ("MINI_BATCH()", "The hint MINI_BATCH() has no arguments."),
        ("MINI_BATCH('5 s', '9 s')", "The hint MINI_BATCH('5 s', '9 s') has two lengths of time."),
        ("MINI_BATCH(5, 6)", "The hint MINI_BATCH(5, 6) has two numbers of rows."),
        ("MINI_BATCH('1 s', 5, 6)", "The hint MINI_BATCH('1 s', 5, 6) can't be read."),
        ("MINI_BATCH(5 seconds)", "The hint MINI_BATCH(5 seconds) can't be read."),
        ("MINI_BATCH('10000')", "In the hint MINI_BATCH('10000'), '10000' is not an interval"),
        ("MINI_BATCH('0 seconds')", "'0 seconds' must be longer than zero"),
        ("MINI_BATCH(0)", "has '0' for the number of rows; it must be a whole number of at least 1"),
        ("MINI_BATCH(-5)", "has '-5' for the number of rows"),
        ("MINI_BATCH(1.5)", "has '1.5' for the number of rows"),
        ("MINI_BATCH(n)", "has 'n' for the number of rows"),
        (
            "MINI_BATCH(5), MINI_BATCH('1 s')",
            "The query has 2 hints MINI_BATCH, MINI_BATCH(5) and MINI_BATCH('1 s')",
        ),
    ],
)
def test_what_it_cannot_be_is_said_in_streams_and_in_batch(hint: str, sentence: str) -> None:
    for asked in (
        lambda: plan_of(f"select /*+ {hint} */ * from {BIDS}"),
        lambda: whole_query.batch_text(f"select /*+ {hint} */ * from raw.bid"),
    ):
        with pytest.raises(QueryError) as raised:
            asked()
        assert sentence in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "select distinct /*+ MINI_BATCH(5) */ x from {}",
        "select /*+ BROADCAST(b) */ /*+ MINI_BATCH(5) */ x from {}",
        "/*+ mini_batch(5) */ select x from {}",
    ],
)
def test_one_that_would_be_taken_for_a_comment_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"is where it is read as a comment; put it right after a SELECT"):
        plan_of(text.format(BIDS))


def test_one_that_is_commented_out_is_none() -> None:
    assert plan_of(f"select x -- /*+ MINI_BATCH(5) */\nfrom {BIDS}").mini_batch is None


def test_a_second_one_elsewhere_is_refused() -> None:
    with pytest.raises(QueryError, match="so write one"):
        plan_of(f"select /*+ MINI_BATCH(5) */ * from (select /*+ MINI_BATCH(5) */ * from {BIDS})")


def test_batch_leaves_it_to_spark_and_passes_over_other_mentions() -> None:
    for text in ("select /*+ MINI_BATCH(5) */ * from raw.bid", "select 'MINI_BATCH()', from where from"):
        assert whole_query.batch_text(text) == text


def node(hint: str, **config: Any) -> dict[str, Any]:
    text = f"select /*+ {hint} */ a.x from {BIDS} as a"
    config = {"materialized": "streaming_table", **config}
    return {"name": "m", "relation_name": "shop.m", "compiled_code": text, "config": config}


def interval(hint: str, **config: Any) -> str | None:
    made = node(hint, **config)
    return streaming.micro_batch_interval(
        stream_node.stream_settings(made), streaming.plan_model(made, made["compiled_code"])
    )


def test_the_time_is_the_triggers() -> None:
    assert interval("MINI_BATCH('90 seconds')") == "1 minute 30 seconds"
    assert interval("MINI_BATCH('90 seconds')", trigger="90s") == "1 minute 30 seconds"
    assert interval("MINI_BATCH(5)", trigger="10 seconds") == "10 seconds"
    assert interval("MINI_BATCH(5)") is None


def test_two_different_times_are_refused() -> None:
    made = node("MINI_BATCH('5 seconds')", trigger="10 seconds")
    with pytest.raises(QueryError) as raised:
        streaming.model_program(made, streaming.plan_model(made, made["compiled_code"]))
    assert str(raised.value) == (
        "Model m: config 'trigger' is '10 seconds' and the query's hint MINI_BATCH says '5 seconds'; both are the time "
        "from one micro-batch to the next, so leave one of them out."
    )


def described(text: str) -> StreamModel:
    made: dict[str, Any] = {**node(""), "compiled_code": text}
    environment: Any = SimpleNamespace(
        credentials=SimpleNamespace(catalog="lake"),
        settings=None,
        storage=Storage("/tmp/nowhere", lambda: None),
    )
    program = streaming.model_program(made, streaming.plan_model(made, text))
    return stream_node.stream_model(made, environment, program)


def test_rows_are_limited_by_each_sources_own_option(monkeypatch: pytest.MonkeyPatch) -> None:
    files = stream_source.DeclaredSource("raw.ask", "raw.ask", "json", {"path": "/asks"})
    monkeypatch.setitem(stream_source._registry.by_relation, "raw.ask", files)
    text = f"select /*+ MINI_BATCH(1001) */ x from {BIDS} union all select x from {ASKS}"
    bids, asks = described(text).sources
    # The two share the rows of a micro-batch.
    assert (bids.location, bids.options) == ("lake.raw.bid", {"streaming-max-rows-per-micro-batch": "500"})
    assert (asks.location, asks.options) == ("/asks", {"maxFilesPerTrigger": "1"})
    without = f"select x from {BIDS} union all select x from {ASKS}"
    assert [dict(source.options) for source in described(without).sources] == [{}, {}]
