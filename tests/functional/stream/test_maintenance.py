"""State, table and change feed stay small however many micro-batches there are, and streams that read them go on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import Retention, StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.common.session import working_session
from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream
from dbt.adapters.spark_streaming.stream.sources import initial_offset
from dbt.adapters.spark_streaming.stream.state import table as state
from tests.planned import plan_of

from . import programs
from .harness import Stream, replayed, sorted_rows

EVERY, MOST = 2, 2
GROUPS = "select k, count(*) as c, sum(v) as s from (select /*+ STREAM */ * from events) group by k"
OPERATORS = f"select c, count(*) as keys, max(s) as most from ({GROUPS}) group by c"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A storage root of its own: a checkpoint that can't be read, as other tests leave them, keeps all snapshots."""
    return tmp_path


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds that a few micro-batches reach."""
    monkeypatch.setattr(maintenance, "EVERY", EVERY)
    monkeypatch.setattr(state, "_RETENTION", Retention(max_snapshots=MOST))


def kept_small(stream: Stream) -> Stream:
    stream.model = replace(stream.model, retention=Retention(max_snapshots=MOST))
    return stream


def write_without_state(spark: Any, root: Path, source: str) -> Stream:
    """A stream that passes on the rows of a table."""
    stream = Stream(spark, root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
    stream.reads(StreamSource("events", source))
    return stream


class Going:
    """A stream that goes on, fed one micro-batch after the other."""

    def __init__(self, stream: Stream) -> None:
        self._stream = replace(stream.model, trigger="0 seconds")
        self._of = stream

    def __enter__(self) -> Going:
        self._running = RunningStream(self._of.spark, self._stream, self._of.program)
        return self

    def feed(self, *rows: tuple[Any, ...]) -> None:
        self._of.add(*rows)
        self._running.query.processAllAvailable()

    def __exit__(self, *_: Any) -> None:
        self._running.stop()


@pytest.fixture
def shapes(spark: Any, root: Path) -> Iterator[list[Stream]]:
    groups = generate.generate_program(plan_of(GROUPS))
    operators = generate.generate_program(plan_query.plan(OPERATORS, domains=["k", "c"]))
    yield [
        kept_small(Stream(spark, root, groups, "k string, c bigint, s bigint", changelog=True)),
        kept_small(Stream(spark, root, operators, "c bigint, keys bigint, most bigint")),
        kept_small(Stream(spark, root, programs.pass_through(), "ts timestamp, k string, doubled bigint")),
    ]


def figures(spark: Any, name: str) -> tuple[int, int, int]:
    """Snapshots, data files that are read, and files on disk."""
    table = IcebergTable(spark, name)
    folder = Path(str(table.java.location()).removeprefix("file:"))
    files = [each for each in folder.rglob("*") if each.is_file() and not each.name.startswith(".")]
    return table.snapshot_count, table.summary_count("total-data-files"), len(files)


@pytest.mark.thorough
def test_bounded(shapes: list[Stream]) -> None:
    spark = shapes[0].spark
    for stream in shapes:
        found: dict[str, list[tuple[int, int, int]]] = {}
        with Going(stream) as going:
            for number in range(9):
                going.feed((number * 1000, "a", number), (number * 1000, f"k{number % 3}", 1))
                for name in (stream.model.target, stream.model.state, stream.model.changes):
                    if spark.catalog.tableExists(name):
                        found.setdefault(name, []).append(figures(spark, name))
        assert stream.run().rows_in == 0, "the positions are still there"
        for name, each in found.items():
            snapshots, files, on_disk = zip(*each, strict=True)
            # Expiry is looked at after the compaction, which leaves a snapshot too.
            assert max(snapshots) <= MOST + 2 * EVERY, (name, each)
            assert max(files[5:]) <= 2 * EVERY + 2 or name == stream.model.state, (name, each)
            assert max(on_disk[6:]) <= 1.5 * max(on_disk[3:6]), (name, each)
        text = {0: GROUPS, 1: OPERATORS}.get(shapes.index(stream), "select ts, k, v * 2 from events")
        text = re.sub(r"\bevents\b", stream.events, text)
        assert stream.rows() == sorted_rows(spark.sql(text).collect()), "what was compacted is still there"
    groups = shapes[0]
    assert sorted_rows(replayed(spark, groups.model, until=10**9)) == groups.rows()


@pytest.mark.thorough
def test_what_others_change_before_a_compaction_is_in_the_changelog(shapes: list[Stream]) -> None:
    stream = shapes[0]
    spark = stream.spark
    deleted: list[str] = []

    def delete(point: str, _: str) -> None:
        if point == "table.compact:before" and not deleted:
            spark.sql(f"delete from {stream.model.target} where k = 'k1'")
            deleted.append(point)

    failpoints.arm(delete)
    try:
        with Going(stream) as going:
            for number in range(8):
                going.feed((number * 1000, f"k{number}", 1))
    finally:
        failpoints.arm(None)
    assert deleted
    assert {row[0] for row in stream.rows()} == {f"k{number}" for number in range(8) if number != 1}
    assert sorted_rows(replayed(spark, stream.model, until=10**9)) == stream.rows()


def test_a_compaction_in_a_thread_that_has_no_session(spark: Any, root: Path) -> None:
    """As where models run side by side."""
    name = Stream(spark, root, programs.pass_through(), "ts timestamp, k string").model.target
    for number in range(2):
        spark.sql(f"insert into {name} values (timestamp_seconds({number}), 'a')")
    table = IcebergTable(spark, name)
    session = working_session(spark)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: table.compact(session, {}, 1 << 20, at_least=2)).result()
    table.advance_to_newest()
    assert table.summary_count("total-data-files") == 1
    assert spark.table(name).count() == 2


@pytest.mark.thorough
def test_readers_go_on_and_new_ones_begin(spark: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = kept_small(Stream(spark, root, programs.pass_through(), "ts timestamp, k string, v bigint"))
    upstream.program = replace(upstream.program, output="select ts, k, v from stream")
    slow, waiting = (write_without_state(spark, root, upstream.model.target) for _ in range(2))
    assert waiting.run().rows_in == 0, "there is nothing yet"
    upstream.add((0, "a", 1))
    upstream.run()
    assert slow.run().rows_in == 1
    with Going(upstream) as going:
        for number in range(1, 8):
            going.feed((number * 1000, "a", number))
    assert IcebergTable(spark, upstream.model.target).snapshot_count >= 8, "streams haven't read them"
    assert slow.run().rows_in == 7
    with Going(upstream) as going:
        for number in range(8, 12):
            going.feed((number * 1000, "a", number))
    assert IcebergTable(spark, upstream.model.target).snapshot_count >= 12, "one has read nothing yet"
    assert waiting.run().rows_in == 12
    waiting.reset()
    with Going(upstream) as going:
        for number in range(12, 16):
            going.feed((number * 1000, "a", number))
    assert IcebergTable(spark, upstream.model.target).snapshot_count <= 8 + 3 * EVERY + MOST
    upstream.add((16_000, "a", 16))
    upstream.run()
    assert slow.run().rows_in == 9
    expected = [(number * 1000, "a", max(2, 2 * number)) for number in range(17)]
    assert slow.rows() == sorted(expected, key=repr)

    # The first snapshots are gone now.
    late = write_without_state(spark, root, upstream.model.target)
    late.reads(
        StreamSource("events", upstream.model.target, options={"streaming-max-files-per-micro-batch": "1"})
    )
    result = late.run()
    assert (result.batches, result.rows_in) == (1, 17), "all in one, whatever the limits"
    assert late.rows() == slow.rows()
    for number in range(30, 32):
        upstream.add((number * 1000, "a", number))
        upstream.run()
    assert (late.run().batches, len(late.rows())) == (2, 19), "the limits are back"

    # The table gets another snapshot while a stream begins.
    later = write_without_state(spark, root, upstream.model.target)
    begin = initial_offset.prepare_initial_load

    def overtaken(session: Any, model: StreamModel) -> bool:
        found = begin(session, model)
        if model.name == later.model.name:
            upstream.run()
        return found

    upstream.add((40_000, "a", 40))
    with monkeypatch.context() as patched:
        patched.setattr(initial_offset, "prepare_initial_load", overtaken)
        assert later.run().rows_in == 20
    assert later.rows() == sorted([*late.rows(), (40_000, "a", 80)], key=repr)

    # Its first snapshots expire while a stream begins, which had seen that they are there.
    last = write_without_state(spark, root, later.model.target)
    read = replace(last.program.inputs[0], columns=("ts", "k", "doubled"))
    last.program = replace(last.program, inputs=(read,), output="select ts, k, doubled from stream")
    catalog = spark.conf.get("spark.sql.defaultCatalog")

    def expired(session: Any, model: StreamModel) -> bool:
        found = begin(session, model)
        spark.sql(
            f"call {catalog}.system.expire_snapshots(table => '{later.model.target}', older_than => now(), retain_last => 2)"
        )
        return found

    for number in range(2):
        upstream.add((41_000 + number, "a", 1))
        upstream.run()
        later.run()
    with monkeypatch.context() as patched:
        patched.setattr(initial_offset, "prepare_initial_load", expired)
        with pytest.raises(
            StreamError, match=r"came or expired while its stream began\. Nothing was ingested"
        ):
            last.run()
    assert last.rows() == []
    assert last.run().rows_in == 22
    assert last.rows() == later.rows()
