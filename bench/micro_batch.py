"""What a small micro-batch costs on a large state, beside Spark's own streaming aggregate.

A day of page views: 200 skewed pages, 1 million devices. The model is a cumulate of 1 minute over a day
with count(*), sum and an exact count(distinct device). First a history of `--history` rows is taken in
as one micro-batch, then `--batches` micro-batches of `--rows` rows each.

    python bench/micro_batch.py --history 5000000 --rows 1000 --batches 30

`--tumble` and `--native` do the same for a 1-minute tumble of count(*) and sum: ours, and Structured
Streaming's own, into the same kind of table. `--groups` counts and sums by device, without windows, and `--last` keeps each
device's last row; of `--devices` there are as many as the table has rows then.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.microbatch import loop as batches_module
from dbt.adapters.spark_streaming.stream.run.runner import run_stream

DAY = "timestamp'2026-03-01 00:00:00'"
EVENTS = "ts timestamp, page string, device bigint, v bigint"
TARGET = (
    "window_start timestamp, window_end timestamp, page string, views bigint, total bigint, devices bigint"
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--history", type=int, default=5_000_000)
    arguments.add_argument("--rows", type=int, default=1000)
    arguments.add_argument("--batches", type=int, default=30)
    arguments.add_argument("--root", default="/tmp/dbt-spark-streaming-bench")
    arguments.add_argument("--memory", default="2g")
    arguments.add_argument("--conf", action="append", default=[], help="key=value, for Spark")
    arguments.add_argument("--json", action="store_true", help="print figures of each micro-batch")
    arguments.add_argument("--tumble", action="store_true", help="a 1-minute tumble in place of the cumulate")
    arguments.add_argument("--groups", action="store_true", help="count and sum of each device")
    arguments.add_argument("--last", action="store_true", help="each device's last row")
    arguments.add_argument("--devices", type=int, default=1_000_000)
    arguments.add_argument("--native", action="store_true", help="the same tumble by Spark's own operator")
    options = arguments.parse_args()
    root = Path(options.root)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    environment = get_environment(
        SparkStreamingCredentials(
            schema="bench",
            master="local[2]",
            storage_root=str(root),
            server_side_parameters={
                "spark.driver.memory": options.memory,
                **dict(setting.split("=", 1) for setting in options.conf),
            },
        )
    )
    try:
        spark = environment.session()
        spark.sql("create namespace if not exists bench")
        make_events(spark, root, options)
        figures = native(spark, root, options) if options.native else ours(spark, environment, options, root)
        show(figures, options)
    finally:
        close_environments()


def make_events(spark: Any, root: Path, options: argparse.Namespace) -> None:
    """The history as one file, then a file per micro-batch, which together take an hour of the day."""
    total = options.history + options.rows * options.batches
    history = spark.range(options.history, numPartitions=2).selectExpr(
        "id", f"{DAY} + make_dt_interval(0, 0, 0, id * 72000 / {max(options.history, 1)}) as ts"
    )
    write(history, root / "events", options.devices)
    for number in range(options.batches):
        first = options.history + number * options.rows
        rows = spark.range(first, first + options.rows, numPartitions=1).selectExpr(
            "id",
            f"{DAY} + make_dt_interval(0, 20, 0, (id - {options.history}) * 3600 / "
            f"{max(total - options.history, 1)}) as ts",
        )
        write(rows, root / "events", options.devices)


def write(rows: Any, folder: Path, devices: int) -> None:
    rows.selectExpr(
        "ts",
        "concat('page ', int(200 * pow(pmod(hash(id, 1), 100000) / 100000, 3))) as page",
        f"pmod(xxhash64(id, 2), {devices}) as device",
        "bigint(pmod(hash(id, 3), 1000)) as v",
    ).coalesce(1).write.mode("append").parquet(str(folder))


def ours(spark: Any, environment: Any, options: argparse.Namespace, root: Path) -> list[dict[str, Any]]:
    window, devices = (
        window_arguments.make_window("cumulate", "ts", "1 minute", "1 day"),
        "count(distinct device)",
    )
    if options.tumble:
        window, devices = window_arguments.make_window("tumble", "ts", "1 minute"), "cast(null as bigint)"
    query = f"""
        select window_start, window_end, page, count(*) as views, sum(v) as total, {devices} as devices
        from {expansion.expand_window("events", window)} group by window_start, window_end, page
    """
    target = TARGET
    if options.groups:
        query = "select device, count(*) as views, sum(v) as total from (select /*+ STREAM */ * from events) group by device"
        target = "device bigint, views bigint, total bigint"
    elif options.last:
        query = (
            "select ts, page, device, v from (select *, row_number() over (partition by device order by ts desc) as n "
            "from (select /*+ STREAM */ * from events)) where n = 1"
        )
        target = EVENTS
    program = generate.generate_program(plan_query.plan(query, domains=["device"]))
    spark.sql(f"create table bench.views ({target}) using iceberg")
    model = StreamModel(
        name="views",
        target="bench.views",
        state="bench.views__state",
        storage=environment.storage,
        sources=(
            StreamSource("events", str(root / "events"), "parquet", EVENTS, {"maxFilesPerTrigger": "1"}),
        ),
    )
    found: list[dict[str, Any]] = []
    probe = Probe(spark)

    def write_progress(model: Any, progress: dict[str, Any]) -> None:
        found.append({**progress["last"], "state": progress["state"], **probe.since()})

    batches_module.write_progress = write_progress
    run_stream(spark, model, program)
    return found


def native(spark: Any, root: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F

    found: list[dict[str, Any]] = []
    probe = Probe(spark)
    rows = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).parquet(str(root / "events"))
    counted = (
        rows.withWatermark("ts", "0 seconds")
        .groupBy(F.window("ts", "1 minute"), "page")
        .agg(F.count("*").alias("views"), F.sum("v").alias("total"))
        .selectExpr("window.start", "window.end", "page", "views", "total")
    )
    spark.sql(
        "create table bench.native (start timestamp, end timestamp, page string, views bigint, total bigint) "
        "using iceberg"
    )
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")

    def take(batch: Any, number: int) -> None:
        batch.writeTo("bench.native").append()
        found.append({"rows_in": 0, "seconds": {}, **probe.since()})

    query = (
        counted.writeStream.outputMode("append")
        .option("checkpointLocation", str(root / "native"))
        .trigger(availableNow=True)
        .foreachBatch(take)
        .start()
    )
    query.awaitTermination()
    return found


class Probe:
    """What was spent since the last look: wall time, CPU of the JVM, jobs, compilations."""

    def __init__(self, spark: Any) -> None:
        self._scheduler = spark._jsc.sc().dagScheduler()
        metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
        self._compilations = metrics.METRIC_COMPILATION_TIME()
        self._pid = spark._jvm.java.lang.ProcessHandle.current().pid()
        self._last = self._look()

    def _look(self) -> dict[str, float]:
        return {
            "wall": time.monotonic(),
            "cpu": cpu_seconds(self._pid) + time.process_time(),
            "jobs": self._scheduler.numTotalJobs(),
            "compilations": self._compilations.getCount(),
        }

    def since(self) -> dict[str, float]:
        now = self._look()
        last, self._last = self._last, now
        return {name: round(now[name] - last[name], 3) for name in now}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(figures: list[dict[str, Any]], options: argparse.Namespace) -> None:
    if options.json:
        for each in figures:
            print(json.dumps(each))
    warm = figures[len(figures) // 2 :]
    phases = sorted({phase for each in warm for phase in each["seconds"]})
    row = {
        name: statistics.median(each[name] for each in warm)
        for name in ("wall", "cpu", "jobs", "compilations")
    }
    row |= {phase: statistics.median(each["seconds"].get(phase, 0.0) for each in warm) for phase in phases}
    print("first:", json.dumps(figures[0]))
    print("median of the later half:", json.dumps({name: round(value, 3) for name, value in row.items()}))


if __name__ == "__main__":
    main()
