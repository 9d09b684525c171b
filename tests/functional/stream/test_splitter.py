"""A micro-batch that is too large for memory: taken in in pieces, with the rows that it gives as a whole."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamSource
from dbt.adapters.spark_streaming.stream.microbatch import splitter
from dbt.adapters.spark_streaming.stream.state.table import StateTable
from tests.planned import plan_of

from . import programs
from .harness import CUMULATE, EVENTS, TUMBLE, Stream, replayed, sorted_rows
from .programs import SECOND

GROUPS = "select k, count(*) as c, sum(v) as s, count(distinct x) as d from (select /*+ STREAM */ * from events) group by k"
OPERATORS = f"select c, count(*) as keys, max(s) as most from ({GROUPS}) group by c"
HOP = """
select window_start, window_end, k, count(*) as c, sum(v) as s from {window} group by window_start, window_end, k
"""
JOINED = """
select a.window_start, a.window_end, a.k, a.c, b.s
from (select window_start, window_end, k, count(*) as c from {events} group by window_start, window_end, k) as a
join (select window_start, window_end, k, sum(v) as s from {others} group by window_start, window_end, k) as b
  on a.window_start = b.window_start and a.window_end = b.window_end and a.k = b.k
"""


NO_TIME = (None, 300_000_000_000_000, -70_000_000_000_000)
"""None, and times that no window has."""


def rows(count: int) -> list[tuple[Any, ...]]:
    """In no order; some without a time."""
    chance = random.Random(17)
    return [
        (
            NO_TIME[number % 3] if number % 17 == 7 else chance.randrange(60_000),
            chance.choice("abc"),
            number,
            number % 11,
        )
        for number in range(count)
    ]


def make(spark: Any, root: Path) -> Stream:
    return Stream(
        spark, root, programs.cumulate(5 * SECOND, 20 * SECOND), CUMULATE, delay=2 * SECOND, changelog=True
    )


def few(patched: pytest.MonkeyPatch) -> None:
    """No more than 50 rows fit."""
    patched.setattr(splitter, "_FEWEST", 10)
    patched.setattr(splitter.BatchSplitter, "_rows_that_fit", lambda *_: 50)


@pytest.mark.thorough
def test_the_same_rows(spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = make(spark, storage_root), make(spark, storage_root)
    for stream in (whole, cut):
        stream.add(*rows(150))
    at_once = whole.run()
    whole.add((100, "a", 1), (70_000, "b", 2))
    late = whole.run()
    whole.flush()
    assert (at_once.batches, late.late_rows) == (1, 1)

    with monkeypatch.context() as patched:
        few(patched)
        # One piece is in when the run is cut short, by the end of the JVM, say.
        append = StateTable.append
        commits: list[int] = []

        def second(*arguments: Any) -> None:
            if commits:
                raise RuntimeError("java.lang.OutOfMemoryError: Java heap space")
            commits.append(1)
            append(*arguments)

        with patched.context() as once:
            once.setattr(StateTable, "append", second)
            with pytest.raises(
                StreamError, match=r"Spark's memory is used up\..* the next run continues from there"
            ):
                cut.run()
        with pytest.raises(StreamError, match="its last micro-batch is only partly ingested"):
            cut.flush()
        found = cut.run()
    assert 4 <= found.batches <= 6, "half as many rows at once, for the run before ended for lack of memory"
    last = [each for each in cut.snapshots(cut.model.state) if "stream.batch-id" in each][-1]
    assert last["stream.batch-id"] == "0"
    assert "stream.cut" not in last
    assert int(last["stream.rows-in"]) == at_once.rows_in
    assert int(last["stream.null-time-rows"]) == at_once.null_time_rows == 9
    assert int(last["stream.late-rows"]) == 0
    assert not cut.model.storage.exists(cut.model.attempt)
    cut.add((100, "a", 1), (70_000, "b", 2))
    assert cut.run().late_rows == 1
    cut.flush()
    assert cut.rows() == whole.rows()


@pytest.mark.thorough
def test_queries_of_other_kinds(spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = {"events": RelationInfo(event_time="ts"), "others": RelationInfo(event_time="ts")}
    asked = emission.emission_from_configs(
        {
            "first_result_offset": "-8 seconds",
            "update_rate": "2 seconds",
            "last_result_offset": "20 seconds",
            "late_updates": True,
        }
    )
    window = expansion.expand_window(
        "events", window_arguments.make_window("hop", "ts", "5 seconds", "10 seconds")
    )
    results = generate.generate_program(plan_of(HOP.format(window=window), timed), asked)
    makers = {
        "groups": (GROUPS, "k string, c bigint, s bigint, d bigint", None),
        "operators": (OPERATORS, "c bigint, keys bigint, most bigint", None),
        "results": ("", TUMBLE, results),
    }
    for name, (text, columns, program) in makers.items():
        made = program or generate.generate_program(plan_query.plan(text, timed, domains=["k", "c"]))
        whole, cut = (
            Stream(spark, storage_root, made, columns, delay=3 * SECOND, changelog=True) for _ in range(2)
        )
        for stream in (whole, cut):
            stream.add(*rows(150))
        at_once = whole.run()
        with monkeypatch.context() as patched:
            few(patched)
            in_pieces = cut.run()
        assert (at_once.batches, in_pieces.batches) == (1, 3), name
        assert in_pieces.watermark == at_once.watermark, name
        for stream in (whole, cut):
            # A row that is late for some windows, and one that closes others.
            stream.add((52_000, "a", 1), (70_000, "b", 2))
            stream.run()
            stream.flush()
        assert cut.rows() == whole.rows(), name
        assert sorted_rows(replayed(spark, cut.model, until=10**9)) == cut.rows(), name
        if not program:
            expected = spark.sql(re.sub(r"\bevents\b", cut.events, text)).collect()
            assert cut.rows() == sorted_rows(expected), name


def test_several_streams(spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    timed = {"events": RelationInfo(event_time="ts"), "others": RelationInfo(event_time="ts")}
    window = window_arguments.make_window("tumble", "ts", "10 seconds")
    windows = {name: expansion.expand_window(name, window) for name in timed}
    both = generate.generate_program(plan_of(JOINED.format(**windows), timed))
    columns = "window_start timestamp, window_end timestamp, k string, c bigint, s bigint"
    stream = Stream(spark, storage_root, both, columns)
    others = f"{stream.events}_others"
    # Of a type without a zone.
    spark.sql(f"create table {others} ({EVENTS.replace('ts timestamp', 'ts timestamp_ntz')}) using iceberg")
    sources = (StreamSource("events", stream.events), StreamSource("others", others))
    # However long a piece takes, a stream that is in the micro-batch isn't silent.
    stream.model = replace(stream.model, sources=sources, idle_timeout=1)
    stream.add(*rows(75))
    spark.sql(
        f"insert into {others} select * from {stream.events} where ts < timestamp_millis(30000) or ts is null"
    )
    found = stream.run()
    assert found.batches == 3
    assert found.late_rows == 0
    last = spark.sql(
        f"select unix_micros(max(ts)) from {stream.events} where ts < timestamp_millis(30000)"
    ).collect()
    assert found.watermark == last[0][0]
    stream.flush()
    expected = spark.sql(
        "select unix_millis(start), unix_millis(start) + 10000, k, count(*), sum(v) from ("
        f"  select timestamp_millis(unix_millis(ts) - unix_millis(ts) % 10000) as start, * from {stream.events}"
        ") where start >= timestamp_millis(0) and start < timestamp_millis(30000) group by start, k"
    ).collect()
    assert stream.rows() == sorted_rows(expected)
