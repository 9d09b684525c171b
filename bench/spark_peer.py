"""A process that runs `workloads.py` on Spark for `compare.py`: this project, Spark's own streams, or batch again and again.

ours       the stream of a model, then its flush
native     Structured Streaming's own operators, in append mode; one row of two days later closes its last windows
recompute  plain Spark: after each piece the query over all there is so far, which replaces the table

Each writes an Iceberg table, in a session as this project makes it. `protocol.py` says how it is spoken to.

    python bench/spark_peer.py ours '{"root": FOLDER, "memory": "2g"}'
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from micro_batch import cpu_seconds
from protocol import serve
from workloads import DOMAINS, SCHEMAS, WORKLOADS, Ours, Plain, Workload, rows_of

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.microbatch import loop
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream, flush, run_stream

Folders = dict[str, str]
ALL = 1_000_000
"""More files than there are."""


class SparkPeer(ABC):
    """A session, and the tables that come of it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.root = Path(settings["root"])
        self.environment = get_environment(
            SparkStreamingCredentials(
                schema="bench",
                master="local[2]",
                storage_root=str(self.root),
                server_side_parameters={"spark.driver.memory": settings["memory"]},
            )
        )
        self.spark = self.environment.session()
        self.pid = self.spark._jvm.java.lang.ProcessHandle.current().pid()
        self.spark.sql("create namespace if not exists bench")
        self.spark.sql("create namespace if not exists raw")
        for source, schema in SCHEMAS.items():
            # Empty; for what types its columns have.
            self.spark.sql(f"create or replace table raw.{source} ({schema}) using iceberg")
        self.number = 0
        self.target = ""
        self.prepared: Callable[[], None]
        self.batches: list[dict[str, float]] = []
        self.last = self.now()

    def now(self) -> tuple[float, float]:
        """Wall and CPU seconds."""
        return time.monotonic(), cpu_seconds(self.pid) + time.process_time()

    def mark(self, **more: float) -> None:
        """A micro-batch is over."""
        last, self.last = self.last, self.now()
        self.batches.append({"wall": self.last[0] - last[0], "cpu": self.last[1] - last[1], **more})

    def make(self, source: str, folder: str, rows: int, files: int, step: int) -> None:
        """The rows of a source among so many, a step apart, in so many files in order of time."""
        where, columns = rows_of(source, f"id * {step}", max(rows // 5, 1))
        written = self.spark.range(0, rows, numPartitions=files).where(where).selectExpr(*columns)
        written.write.parquet(f"{folder}.made")
        Path(folder).mkdir(parents=True)
        for number, file in enumerate(sorted(Path(f"{folder}.made").glob("part-*.parquet"))):
            os.utime(file, (number, number))
            file.rename(Path(folder) / f"{number:04}.parquet")
        shutil.rmtree(f"{folder}.made")

    def prepare(self, workload: str, folders: Folders, pieces: int) -> None:
        """All that comes before the first micro-batch of `run`: the start is measured on its own."""
        self.prepared = self.work(WORKLOADS[workload], folders, pieces)

    def run(self) -> dict[str, Any]:
        """What was prepared; the figures of its micro-batches."""
        self.batches, self.last = [], self.now()
        self.prepared()
        return {"batches": self.batches}

    def name(self, workload: Workload) -> str:
        """The name of the next table."""
        self.number += 1
        self.target = f"lakehouse.bench.{workload.name}_{self.number}"
        return self.target

    def create(self, workload: Workload, result: Any) -> str:
        """The next table, with the columns of a query."""
        fields = (f"{field.name} {field.dataType.simpleString()}" for field in result.schema.fields)
        self.spark.sql(f"create table {self.name(workload)} ({', '.join(fields)}) using iceberg")
        return self.target

    def dump(self, path: str) -> None:
        """The last table as Parquet, times as numbers."""
        self.spark.table(self.target).selectExpr(*map(self.plain, self.columns())).write.parquet(path)

    def columns(self) -> dict[str, str]:
        """Those of the last table, with their types."""
        return {f.name: f.dataType.simpleString() for f in self.spark.table(self.target).schema.fields}

    def plain(self, column: str) -> str:
        """A column, a time as a number."""
        return f"unix_micros({column}) as {column}" if self.columns()[column] == "timestamp" else column

    def drop(self) -> None:
        """The last table isn't needed any more."""
        for suffix in "", "__state":
            self.spark.sql(f"drop table if exists {self.target}{suffix} purge")

    def seen(self, key: list[str], moment: str, path: str) -> None:
        """For each key and moment that was ever in the last table, when it was there first; as Parquet."""
        snapshots = self.spark.sql(f"select committed_at, snapshot_id from {self.target}.snapshots").collect()
        columns = ", ".join(dict.fromkeys([*key, moment]))
        found = None
        for each in snapshots:
            rows = self.spark.sql(
                f"select {columns}, {each.committed_at.timestamp()!r}d as there from {self.target} "
                f"version as of {each.snapshot_id}"
            )
            found = rows if found is None else found.union(rows)
        assert found is not None
        found.createOrReplaceTempView("seen")
        first = f"select unix_micros({moment}) as moment, min(there) as there from seen group by {columns}"
        self.spark.sql(first).write.parquet(path)

    @abstractmethod
    def work(self, workload: Workload, folders: Folders, pieces: int) -> Callable[[], None]:
        """The query over all files, in so many micro-batches."""

    @abstractmethod
    def begin(self, workload: str, folders: Folders, delay: int) -> None:
        """The query over files that come, until `end`; the watermark stays so many seconds behind."""

    @abstractmethod
    def end(self) -> None:
        """No more files will come: what is there is taken in."""


class OurPeer(SparkPeer):
    """This project."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)

        def keep(model: StreamModel, progress: dict[str, Any]) -> None:
            self.mark(jobs=progress["last"]["jobs"])

        loop.write_progress = keep  # type: ignore[assignment]

    def planned(self, workload: Workload, text: str) -> Any:
        """What a micro-batch does, as the materialization has it."""
        known = {f"raw.{source}": RelationInfo("ts") for source in workload.sources}

        def ask(query: str) -> tuple[Any, ...]:
            return tuple(self.spark.sql(query).head())

        return generate.generate_program(plan_query.plan(text, known, domains=DOMAINS, ask=ask))

    def model(
        self, workload: Workload, text: str, folders: Folders, files: int, trigger: str | None
    ) -> StreamModel:
        """A model whose table is there."""
        at_once = {"maxFilesPerTrigger": str(files)}
        sources = tuple(
            StreamSource(f"raw.{source}", folders[source], "parquet", SCHEMAS[source], at_once)
            for source in workload.sources
        )
        target = self.create(workload, self.spark.sql(whole_query.text_in_batch(text)))
        name, storage = target.rpartition(".")[2], self.environment.storage
        return StreamModel(name, target, f"{target}__state", storage, sources, trigger=trigger)

    def work(self, workload: Workload, folders: Folders, pieces: int) -> Callable[[], None]:
        text = workload.text(Ours())
        program = self.planned(workload, text)
        model = self.model(workload, text, folders, 1 if pieces > 1 else ALL, None)

        def work() -> None:
            run_stream(self.spark, model, program)
            flush(self.spark, replace(model, sources=()), program)

        return work

    def begin(self, workload: str, folders: Folders, delay: int) -> None:
        of = WORKLOADS[workload]
        text = of.text(Ours(trickle=True))
        program = self.planned(of, text)
        model = self.model(of, text, folders, ALL, "1 millisecond")
        self.stream = RunningStream(self.spark, replace(model, watermark_delay=delay * 1_000_000), program)

    def end(self) -> None:
        try:
            with suppress(Exception):  # which `wait` tells better
                self.stream.query.processAllAvailable()
            self.stream.wait(0.1)
        finally:
            self.stream.stop()


class NativePeer(SparkPeer):
    """Structured Streaming."""

    def writer(self, workload: Workload, folders: Folders, files: int, delay: int = 0) -> Any:
        """A query, not yet begun."""
        assert workload.native is not None
        for source in workload.sources:
            rows = self.spark.readStream.schema(SCHEMAS[source]).option("maxFilesPerTrigger", files)
            timed = rows.parquet(folders[source]).withWatermark("ts", f"{delay} seconds")
            timed.createOrReplaceTempView(source)
        result = self.spark.sql(workload.native)
        target = self.create(workload, result)

        def take(batch: Any, number: int) -> None:
            batch.writeTo(target).append()
            self.mark()

        checkpoint = str(self.root / "native" / target)
        writer = result.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
        return writer.foreachBatch(take)

    def closed(self, source: str, folder: str) -> str:
        """The same files, and after them one that lets the last windows close."""
        closed = Path(f"{folder}_closed")
        if not closed.exists():
            _, columns = rows_of(source, "172800000000", 1)
            self.spark.range(4, 5).selectExpr(*columns).coalesce(1).write.parquet(str(closed))
            (last,) = closed.glob("*.parquet")
            os.utime(last, (ALL, ALL))
            for file in Path(folder).glob("*.parquet"):
                (closed / file.name).symlink_to(file)
        return str(closed)

    def work(self, workload: Workload, folders: Folders, pieces: int) -> Callable[[], None]:
        closed = {source: self.closed(source, folders[source]) for source in workload.sources}
        writer = self.writer(workload, closed, 1 if pieces > 1 else ALL).trigger(availableNow=True)
        return lambda: writer.start().awaitTermination()

    def begin(self, workload: str, folders: Folders, delay: int) -> None:
        writer = self.writer(WORKLOADS[workload], folders, ALL, delay)
        self.stream = writer.trigger(processingTime="0 seconds").start()

    def end(self) -> None:
        self.stream.processAllAvailable()
        self.stream.stop()


class RecomputingPeer(SparkPeer):
    """Batch, again and again."""

    def compute(self, text: str, files: dict[str, list[str]]) -> None:
        """The query over some files, into the table."""
        for source, listed in files.items():
            self.spark.read.schema(SCHEMAS[source]).parquet(*listed).createOrReplaceTempView(source)
        self.spark.sql(text).writeTo(self.target).using("iceberg").createOrReplace()
        self.mark()

    def work(self, workload: Workload, folders: Folders, pieces: int) -> Callable[[], None]:
        text = workload.plain or workload.text(Plain())
        self.name(workload)
        files = {source: _files(folders[source]) for source in workload.sources}

        def work() -> None:
            for piece in range(1, pieces + 1):
                so_far = {each: listed[: len(listed) * piece // pieces] for each, listed in files.items()}
                self.compute(text, so_far)

        return work

    def begin(self, workload: str, folders: Folders, delay: int) -> None:
        of = WORKLOADS[workload]
        text = of.plain or of.text(Plain(trickle=True))
        self.name(of)
        self.ended = threading.Event()

        def again() -> None:
            done: dict[str, list[str]] = {}
            while True:
                last = self.ended.is_set()
                files = {source: _files(folders[source]) for source in of.sources}
                if files != done and all(files.values()):
                    self.compute(text, files)
                    done = files
                elif last:
                    return
                else:
                    time.sleep(0.02)

        self.stream = threading.Thread(target=again)
        self.stream.start()

    def end(self) -> None:
        self.ended.set()
        self.stream.join()


def _files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.parquet")))


PEERS = {"ours": OurPeer, "native": NativePeer, "recompute": RecomputingPeer}


def main() -> None:
    """Serve."""
    try:
        peer = PEERS[sys.argv[1]](json.loads(sys.argv[2]))
        names = ("make", "prepare", "run", "dump", "drop", "seen", "begin", "end")
        serve({name: getattr(peer, name) for name in names})
    finally:
        close_environments()


if __name__ == "__main__":
    main()
