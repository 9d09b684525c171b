"""History taken in at once and in pieces, against Spark SQL written by hand for the same rows.

5 million page views of a day, 200 skewed pages, 1 million devices; a 1-minute cumulate over the day of
count(*), sum and exact count(distinct device). In one run, in one JVM, each after a warm-up on a tenth:

peer     plain Spark: slices and first sights by hand, running sums, into an Iceberg table
one      the stream, `available_now`, empty state, one micro-batch
pieces   the stream in `--pieces` micro-batches
naive    explode each row into its windows, on `--naive` rows (of which the time is scaled up)

    python bench/backfill.py
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from micro_batch import cpu_seconds

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query import expansion, generate, planner, window_arguments
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream import batches
from dbt.adapters.spark_streaming.stream.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.runner import flush, run_stream

COLUMNS = (
    "window_start timestamp, window_end timestamp, page string, views bigint, total bigint, devices bigint"
)
EVENTS = "ts timestamp, page string, device bigint, v bigint"
QUERY = """
select window_start, window_end, page, count(*) as views, sum(v) as total, count(distinct device) as devices
from {cumulate} group by window_start, window_end, page
"""
# Rows of a key hold from its slice to the one before its next; first sights give the distinct counts.
PEER = """
with rows as (
  select page, device, v, date_trunc('day', ts) as day, date_trunc('minute', ts) + interval 1 minute as slice from {events}
),
firsts as (select day, page, min(slice) as slice from rows group by day, page, device),
slices as (
  select day, page, slice, sum(views) as views, sum(total) as total, sum(devices) as devices from (
    select day, page, slice, count(*) as views, sum(v) as total, 0L as devices from rows group by day, page, slice
    union all
    select day, page, slice, 0L, null, count(*) from firsts group by day, page, slice
  ) group by day, page, slice
),
running as (
  select day, page, slice, sum(views) over w as views, sum(total) over w as total, sum(devices) over w as devices,
    lead(slice) over (partition by day, page order by slice) as following
  from slices window w as (partition by day, page order by slice rows between unbounded preceding and current row)
)
select day as window_start,
  explode(sequence(slice, coalesce(following - interval 1 minute, day + interval 1 day), interval 1 minute)) as window_end,
  page, views, total, devices
from running
"""


class Bench:
    """One session, one data set, and the runs over it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.root = options, Path(options.root)
        self.environment = get_environment(
            SparkStreamingCredentials(
                schema="bench",
                master="local[2]",
                storage_root=str(self.root),
                server_side_parameters={"spark.driver.memory": options.memory},
            )
        )
        self.spark = self.environment.session()
        self.pid = self.spark._jvm.java.lang.ProcessHandle.current().pid()
        self.spark.sql("create namespace if not exists bench")
        self.spark.sql("create namespace if not exists raw")

    def cpu(self) -> float:
        """CPU seconds so far, of Spark and of this process."""
        return cpu_seconds(self.pid) + time.process_time()

    def events(self, name: str, rows: int, files: int) -> Path:
        """Page views in order of time, in so many files."""
        folder = self.root / name
        folder.mkdir(parents=True)
        for number in range(files):
            first, last = rows * number // files, rows * (number + 1) // files
            part = self.spark.range(first, last, numPartitions=1).selectExpr(
                f"timestamp'2026-03-01' + make_dt_interval(0, 0, 0, id * 86390 / {rows}) as ts",
                # Skewed as 1/sqrt: the first of 200 pages has some 7 % of the views.
                "concat('p', cast(pow((xxhash64(id, 1) & 1048575) / 1048576.0, 2) * 200 as int)) as page",
                f"(xxhash64(id, 2) & 9223372036854775807) % {max(rows // 5, 1)} as device",
                "id % 100 as v",
            )
            part.write.parquet(str(folder / "tmp"))
            (written,) = (folder / "tmp").glob("*.parquet")
            written.rename(folder / f"{number:04}.parquet")
            os.utime(folder / f"{number:04}.parquet", (number, number))
            shutil.rmtree(folder / "tmp")
        return folder

    def streamed(
        self, name: str, relation: str, folder: Path, schema: str, text: str, domains: Collection[str] = ()
    ) -> tuple[StreamModel, Program, list[dict[str, Any]]]:
        """A query kept up to date from a folder's files, one per micro-batch, until all are in: the model, what was
        carried out, and the figures of each micro-batch with its time and CPU in all (a flush adds its own)."""
        self.spark.sql(
            f"create or replace table {relation} ({schema}) using iceberg"
        )  # for what types its columns have
        plan = planner.plan_any(text, domains=domains, ask=lambda query: tuple(self.spark.sql(query).head()))
        program = generate.program(plan)
        source = StreamSource(relation, str(folder), "parquet", schema, {"maxFilesPerTrigger": "1"})
        target = f"lakehouse.bench.{name}"
        model = StreamModel(name, target, f"{target}__state", self.environment.storage, (source,))
        self.spark.read.schema(schema).parquet(str(folder)).createOrReplaceTempView("streamed")
        fields = self.spark.sql(generate.batch(plan).replace(relation, "streamed")).schema.fields
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
        self.spark.sql(f"create or replace table {target} ({columns}) using iceberg")
        found: list[dict[str, Any]] = []
        last, spent = time.monotonic(), self.cpu()

        def keep(model: StreamModel, progress: dict[str, Any]) -> None:
            nonlocal last, spent
            now, cpu = time.monotonic(), self.cpu()
            found.append(
                {**progress["last"], "state": progress["state"], "wall": now - last, "cpu": cpu - spent}
            )
            last, spent = now, cpu

        batches.write_progress = keep  # type: ignore[assignment]
        run_stream(self.spark, model, program)
        return model, program, found

    def peer(self, folder: Path) -> int:
        """Plain Spark SQL by hand."""
        self.spark.read.schema(EVENTS).parquet(str(folder)).createOrReplaceTempView("events")
        self.spark.sql(f"create or replace table bench.peer ({COLUMNS}) using iceberg")
        self.spark.sql(f"insert into bench.peer {PEER.format(events='events')}")
        return int(self.spark.table("bench.peer").count())

    def naive(self, folder: Path) -> int:
        """The window function as any engine would run it."""
        self.spark.read.schema(EVENTS).parquet(str(folder)).createOrReplaceTempView("events")
        text = QUERY.format(cumulate=cumulate("events"))
        self.spark.sql(f"create or replace table bench.naive ({COLUMNS}) using iceberg")
        self.spark.sql(f"insert into bench.naive {text}")
        return int(self.spark.table("bench.naive").count())

    def stream(self, folder: Path, files_at_once: int) -> int:
        """The stream, from empty state to the last window."""
        name = f"{folder.name}_{files_at_once}"
        program = generate.program(planner.plan(QUERY.format(cumulate=cumulate("raw.events"))))
        source = StreamSource(
            "raw.events", str(folder), "parquet", EVENTS, {"maxFilesPerTrigger": str(files_at_once)}
        )
        target = f"lakehouse.bench.{name}"
        model = StreamModel(name, target, f"{target}__state", self.environment.storage, (source,))
        self.spark.sql(f"create or replace table {target} ({COLUMNS}) using iceberg")
        run_stream(self.spark, model, program)
        flush(self.spark, replace(model, sources=()), program)
        return int(self.spark.table(target).count())


def cumulate(relation: str) -> str:
    """The model's window function over a relation."""
    return expansion.expand(relation, window_arguments.make("cumulate", "ts", "1 minute", "1 day"))


def arguments(description: str, name: str, pieces: int = 12) -> argparse.ArgumentParser:
    """The options that all benches over a day's rows have; `name` is that of their folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--pieces", type=int, default=pieces)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--root", default=f"/tmp/dbt-spark-streaming-{name}")
    return parser


def timed(work: Callable[[], int]) -> tuple[float, int]:
    """Wall seconds and what came of it."""
    began = time.monotonic()
    rows = work()
    return time.monotonic() - began, rows


def main() -> None:
    """Run all and print the table."""
    parser = arguments("Backfill against hand-written Spark SQL.", "backfill")
    parser.add_argument("--naive", type=int, default=20_000)
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench = Bench(options)
    try:
        small = bench.events("warm", options.rows // 10, options.pieces)
        large = bench.events("day", options.rows, options.pieces)
        few = bench.events("few", options.naive, 1)
        bench.peer(small)
        bench.stream(small, options.pieces)
        bench.stream(small, 1)
        seconds, cpu = {}, {}
        for name, work in (
            ("peer", lambda: bench.peer(large)),
            ("one", lambda: bench.stream(large, options.pieces)),
            ("pieces", lambda: bench.stream(large, 1)),
            # Java gets faster on the way, so the peer runs before and after; its mean counts.
            ("after", lambda: bench.peer(large)),
            ("naive", lambda: bench.naive(few)),
        ):
            before = bench.cpu()
            seconds[name], rows = timed(work)
            cpu[name] = round(bench.cpu() - before, 1)
            print(f"{name:8} {seconds[name]:8.1f} s {cpu[name]:8.1f} CPU s {rows:10,} rows", flush=True)
        for each in (seconds, cpu):
            each["peer"] = (each["peer"] + each.pop("after")) / 2
        for name, aim in (("one", "1.5"), ("pieces", "3 x 1.5")):
            ratios = f"{seconds[name] / seconds['peer']:.2f} (CPU {cpu[name] / cpu['peer']:.2f})"
            print(f"{name:6} / peer {ratios}   aim {aim}")
        scaled = seconds["naive"] * options.rows / options.naive
        print(f"naive / peer  {scaled / seconds['peer']:.0f}   (scaled up from {options.naive:,} rows)")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({**seconds, "cpu": cpu, "driver_heap": options.memory, "python_peak_kb": peak}))
    finally:
        close_environments()


if __name__ == "__main__":
    main()
