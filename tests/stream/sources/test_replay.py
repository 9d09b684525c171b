"""Whether a new aggregate can be computed from the history of its sources, before any row of it is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.state_signature import MetricState, Signature
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from dbt.adapters.spark_streaming.stream.evolution.match_parts import program_with_state_names
from dbt.adapters.spark_streaming.stream.evolution.migration import migrated_signature
from dbt.adapters.spark_streaming.stream.progress.position import Position, SplitPoint
from dbt.adapters.spark_streaming.stream.run.backfill_metrics import check_new_metrics
from dbt.adapters.spark_streaming.stream.sources.replay import history

STREAM = expansion.expand_stream("raw.bid")
TUMBLE = expansion.expand_window("raw.bid", window_arguments.make_window("tumble", "ts", "10 minutes"))


def program(text: str, ttl: int | None = None) -> Program:
    found = plan_query.plan(text, {"raw.bid": RelationInfo("ts")}, ttl, ["item", "n"])
    made = generate.generate_program(found, ttl=ttl)
    return made if made.fingerprints is None else noted(made)


def model(tmp_path: Any, source: StreamSource) -> StreamModel:
    return StreamModel("m", "db.m", "db.m__state", Storage(str(tmp_path), lambda: None), (source,))


def said(
    tmp_path: Any, old: Program, new: Program, cut: SplitPoint | None = None, marked: bool = False
) -> str:
    had = old.signature
    if marked:
        ((name, aggregates),) = had.aggregates.items()
        had = migrated_signature(had, had, {}, from_now={name: list(aggregates.metrics)})
    found = evolution(had, new.signature)
    assert found.new and not found.refused
    kafka = StreamSource("raw.bid", "", "kafka")
    work: Any = SimpleNamespace(
        model=model(tmp_path, kafka), program=new, state=SimpleNamespace(mapping={}), sink=None, lookups=None
    )
    none: Any = None
    with pytest.raises(StreamError) as refused:
        check_new_metrics(none, work, found, had, Position("m", "", 3, cut=cut))
    text = refused.value.msg
    assert text.startswith(
        "Model m: its new aggregates can't be computed from the history of its sources (on_new_metric is 'backfill'): "
    )
    assert text.endswith(
        ". Nothing was changed. Write on_new_metric='from_now' to have them count the rows that come from now on."
    )
    return text


TUMBLED = f"select window_start, window_end, item, {{}} from {TUMBLE} group by window_start, window_end, item"


def noted(made: Program, old: Program | None = None) -> Program:
    """A program whose signature says what its state is of, under the names of an older one."""
    named = program_with_state_names(Signature() if old is None else old.signature, made)
    assert named.fingerprints is not None
    return replace(named, signature=replace(named.signature, fingerprints=named.fingerprints()))


def grouped(items: str) -> str:
    return f"select item, {items} from {STREAM} group by item"


def test_windows_on_top_of_each_other(tmp_path: Any) -> None:
    by = "window_start, window_end, window_time, item"
    tens = expansion.expand_window("low", window_arguments.make_window("tumble", "window_time", "1 hour"))
    old, new = (
        program(
            f"with low as (select {by}, {items} from {TUMBLE} group by {by}) select window_start, window_end, item, "
            f"sum(n) as n from {tens} group by window_start, window_end, item"
        )
        for items in ("count(*) as n", "count(*) as n, max(price) as m")
    )
    assert "its state is of windows on top of each other" in said(tmp_path, old, new)


def test_operators_on_top_of_each_other_need_a_count_of_all_rows(tmp_path: Any) -> None:
    below, more = (
        program(f"select item, max(n) as m from ({TUMBLED.format(items)}) group by item")
        for items in ("count(*) as n", "count(*) as n, sum(price) as s")
    )
    wanted = "its state is of windows with other operators on top of them"
    assert wanted in said(tmp_path, noted(below), noted(more, noted(below)))
    wanted = "its state is of several operators on top of each other, and it keeps no COUNT(*) to show"
    old, new = (
        program(f"select n, count(*) as c from ({grouped(items)}) group by n")
        for items in ("max(price) as n", "max(price) as n, sum(price) as s")
    )
    assert wanted in said(tmp_path, old, new)
    old, new = (
        program(f"select n, count(*) as c from ({grouped(items)}) group by n")
        for items in ("count(*) as n", "count(*) as n, sum(price) as s")
    )
    assert wanted not in said(tmp_path, old, new)


def test_what_depends_on_the_watermark(tmp_path: Any) -> None:
    text = (
        "select window_start, window_end, item, {} from {} where {} group by window_start, window_end, item"
    )
    recent = "ts > current_timestamp() - interval '1' hour"
    old, new = (
        program(text.format(items, TUMBLE, recent))
        for items in ("count(*) as n", "count(*) as n, sum(price) as s")
    )
    assert "depends on the watermark at their arrival" in said(tmp_path, old, new)


def test_a_micro_batch_that_is_not_all_in(tmp_path: Any) -> None:
    old, new = program(grouped("count(*) as n")), program(grouped("count(*) as n, sum(price) as s"))
    assert "its last micro-batch is only partly ingested" in said(tmp_path, old, new, SplitPoint(5, ("ts",)))


def test_state_ttl_needs_a_count_of_all_rows(tmp_path: Any) -> None:
    wanted = "with state_ttl, it keeps no COUNT(*) to show"
    new = program(grouped("count(*) as n, max(price) as m, sum(price) as s"), 1_000_000)
    old = program(grouped("max(price) as m"), 1_000_000)
    assert wanted in said(tmp_path, old, new)
    old = program(grouped("count(*) as n, max(price) as m"), 1_000_000)
    assert wanted not in said(tmp_path, old, new)
    # One that lacks rows itself says nothing.
    assert wanted in said(tmp_path, old, new, marked=True)


def test_what_lacks_rows_is_noted_for_good() -> None:
    one, two, three = (
        program(grouped(items)).signature
        for items in (
            "count(*) as n",
            "count(*) as n, sum(price) as s",
            "count(*) as n, sum(price) as s, max(price) as m",
        )
    )
    found = evolution(one, two)
    now = migrated_signature(one, two, {}, from_now=found.new_keys)
    assert not evolution(now, two).is_migration
    last = migrated_signature(migrated_signature(now, two, {}), three, {})

    def metrics(signature: Signature) -> Iterable[MetricState]:
        (aggregates,) = signature.aggregates.values()
        return aggregates.metrics.values()

    marks = {metric.sql: metric.from_now for metric in metrics(last)}
    assert marks == {"COUNT(*)": False, "SUM(price)": True, "MAX(price)": False}
    # It is forgotten with the aggregate.
    back = migrated_signature(migrated_signature(now, one, {}), two, {})
    assert not any(metric.from_now for metric in metrics(back))


def test_messages_of_kafka(tmp_path: Any) -> None:
    made = model(tmp_path, StreamSource("raw.bid", "", "kafka"))
    made.storage.write_text(f"{made.checkpoint}/offsets/3", 'v1\n{"batchWatermarkMs":0}\n{"bids":{"0":7}}')
    none: Any = None
    inputs = program(grouped("count(*) as n")).inputs
    with pytest.raises(StreamError, match=r"doesn't say from where it has read raw\.bid"):
        history(none, made, inputs, 3)
    made.storage.write_text(f"{made.checkpoint}/sources/0/0", '\0v1\n{"bids":{"0":2}}')
    made.storage.write_text(
        f"{made.checkpoint}/offsets/3", 'v1\n{"batchWatermarkMs":0}\n{"bids":{"0":7,"1":4}}'
    )
    found = history(none, made, inputs, 3)
    assert (found.size_text, found.count) == ("9 messages of raw.bid", 9)
    declared = model(tmp_path, StreamSource("raw.bid", "", "kafka", name="web.bids"))
    assert history(none, declared, inputs, 3).size_text == "9 messages of web.bids"
    assert "may be gone, as where a topic is compacted" in found.unsure[0]
    lossy = model(tmp_path, StreamSource("raw.bid", "", "kafka", options={"failOnDataLoss": "False"}))
    with pytest.raises(StreamError, match="may have been gone before they were read"):
        history(none, lossy, inputs, 3)
    with pytest.raises(StreamError, match="doesn't say how far micro-batch 4 has read"):
        history(none, made, program(grouped("count(*) as n")).inputs, 4)
