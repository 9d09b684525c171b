"""State, table and change feed stay small however many micro-batches there are, and streams that read them go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query import generate, planner
from dbt.adapters.spark_streaming.stream import maintenance, runner, state
from dbt.adapters.spark_streaming.stream.iceberg import IcebergTable
from dbt.adapters.spark_streaming.stream.model import Retention, StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.runner import RunningStream

from . import programs
from .harness import Stream

EVERY, MOST = 2, 2
GROUPS = "select k, count(*) as c, sum(v) as s from (select /*+ STREAM */ * from events) group by k"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds that a few micro-batches reach."""
    monkeypatch.setattr(maintenance, "EVERY", EVERY)
    monkeypatch.setattr(state, "_RETENTION", Retention(max_snapshots=MOST))


def kept_small(stream: Stream) -> Stream:
    stream.model = replace(stream.model, retention=Retention(max_snapshots=MOST))
    return stream


def pass_on(spark: Any, root: Path, source: str) -> Stream:
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
def shapes(spark: Any, storage_root: Path) -> Iterator[list[Stream]]:
    groups = generate.program(planner.plan(GROUPS))
    yield [
        kept_small(Stream(spark, storage_root, groups, "k string, c bigint, s bigint", changelog=True)),
        kept_small(
            Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, doubled bigint")
        ),
    ]


def figures(spark: Any, name: str) -> tuple[int, int, int]:
    """Snapshots, data files that are read, and files on disk."""
    table = IcebergTable(spark, name)
    folder = Path(str(table._table.location()).removeprefix("file:"))
    files = [each for each in folder.rglob("*") if each.is_file() and not each.name.startswith(".")]
    return table.snapshots, table.count("total-data-files"), len(files)


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
        before = set(stream.rows())
        stream.add((40_000, "a", 1))
        assert stream.run().rows_in == 1
        gone = before - set(stream.rows())
        assert len(gone) == (1 if stream is shapes[0] else 0), (
            "what was compacted is still there, but for a sum that changed"
        )


def test_readers_go_on_and_new_ones_begin(
    spark: Any, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = kept_small(
        Stream(spark, storage_root, programs.pass_through(), "ts timestamp, k string, v bigint")
    )
    upstream.program = replace(upstream.program, output="select ts, k, v from stream")
    slow = pass_on(spark, storage_root, upstream.model.target)
    upstream.add((0, "a", 1))
    upstream.run()
    assert slow.run().rows_in == 1
    with Going(upstream) as going:
        for number in range(1, 8):
            going.feed((number * 1000, "a", number))
    assert IcebergTable(spark, upstream.model.target).snapshots >= 8, "a stream hasn't read them"
    assert slow.run().rows_in == 7
    with Going(upstream) as going:
        for number in range(8, 12):
            going.feed((number * 1000, "a", number))
    assert IcebergTable(spark, upstream.model.target).snapshots <= 4 + 2 * EVERY + MOST
    upstream.add((12_000, "a", 12))
    upstream.run()
    assert slow.run().rows_in == 5
    expected = [(number * 1000, "a", max(2, 2 * number)) for number in range(13)]
    assert slow.rows() == sorted(expected, key=repr)

    # The first snapshots are gone now.
    late = pass_on(spark, storage_root, upstream.model.target)
    late.reads(
        StreamSource("events", upstream.model.target, options={"streaming-max-files-per-micro-batch": "1"})
    )
    result = late.run()
    assert (result.batches, result.rows_in) == (1, 13), "all in one, whatever the limits"
    assert late.rows() == slow.rows()
    for number in range(30, 32):
        upstream.add((number * 1000, "a", number))
        upstream.run()
    assert (late.run().batches, len(late.rows())) == (2, 15), "the limits are back"

    # The table gets another snapshot while a stream begins, so the first try is given up before anything is written.
    later = pass_on(spark, storage_root, upstream.model.target)
    seed = runner.begin_with_all

    def overtaken(session: Any, model: StreamModel) -> bool:
        found = seed(session, model)
        if model.name == later.model.name:
            upstream.run()
        return found

    upstream.add((40_000, "a", 40))
    with monkeypatch.context() as patched:
        patched.setattr(runner, "begin_with_all", overtaken)
        assert later.run().rows_in == 16
    assert later.rows() == sorted([*late.rows(), (40_000, "a", 80)], key=repr)
