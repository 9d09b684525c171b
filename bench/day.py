"""What benches over a day of page views share: one session, the rows in files, a query kept up to date from them.

200 skewed pages and a device for every five views; `QUERY` is a 1-minute cumulate over the day of count(*), sum and
exact count(distinct device). What that costs, and beside which peers, `compare.py` measures.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from micro_batch import cpu_seconds

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import get_environment
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.microbatch import loop
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream

COLUMNS = (
    "window_start timestamp, window_end timestamp, page string, views bigint, total bigint, devices bigint"
)
EVENTS = "ts timestamp, page string, device bigint, v bigint"
QUERY = """
select window_start, window_end, page, count(*) as views, sum(v) as total, count(distinct device) as devices
from {cumulate} group by window_start, window_end, page
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

    def model(
        self, name: str, relation: str, folder: Path, schema: str, text: str, domains: Collection[str] = ()
    ) -> tuple[StreamModel, Program]:
        """A query over a folder's files, one per micro-batch, whose table is there."""
        self.spark.sql(
            f"create or replace table {relation} ({schema}) using iceberg"
        )  # for what types its columns have
        source = StreamSource(relation, str(folder), "parquet", schema, {"maxFilesPerTrigger": "1"})
        self.spark.read.schema(schema).parquet(str(folder)).createOrReplaceTempView("streamed")
        return self.over(name, source, text, domains, "streamed")

    def over(
        self,
        name: str,
        source: StreamSource,
        text: str,
        domains: Collection[str] = (),
        rows: str | None = None,
    ) -> tuple[StreamModel, Program]:
        """A query over a source, whose table is there; `rows`: what has the source's columns in batch, if not itself."""
        plan = plan_query.plan(text, domains=domains, ask=lambda query: tuple(self.spark.sql(query).head()))
        target = f"lakehouse.bench.{name}"
        model = StreamModel(name, target, f"{target}__state", self.environment.storage, (source,))
        batch = whole_query.batch_sql(plan).replace(source.relation, rows or source.relation)
        fields = self.spark.sql(batch).schema.fields
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
        self.spark.sql(f"create or replace table {target} ({columns}) using iceberg")
        return model, generate.generate_program(plan)

    def streamed(
        self,
        name: str,
        relation: str,
        folder: Path,
        schema: str,
        text: str,
        domains: Collection[str] = (),
        changelog: bool = False,
    ) -> tuple[StreamModel, Program, list[dict[str, Any]]]:
        """A query kept up to date from a folder's files, one per micro-batch, until all are in: the model, what was
        carried out, and the figures of each micro-batch with its time and CPU in all (a flush adds its own)."""
        model, program = self.model(name, relation, folder, schema, text, domains)
        model = replace(model, changelog=changelog)
        found: list[dict[str, Any]] = []
        last, spent = time.monotonic(), self.cpu()

        def keep(model: StreamModel, progress: dict[str, Any]) -> None:
            nonlocal last, spent
            now, cpu = time.monotonic(), self.cpu()
            found.append(
                {**progress["last"], "state": progress["state"], "wall": now - last, "cpu": cpu - spent}
            )
            last, spent = now, cpu

        loop.write_progress = keep  # type: ignore[assignment]
        run_stream(self.spark, model, program)
        return model, program, found

    def stream(self, folder: Path, files_at_once: int) -> int:
        """The stream, from empty state to the last window."""
        name = f"{folder.name}_{files_at_once}"
        program = generate.generate_program(plan_query.plan(QUERY.format(cumulate=cumulate("raw.events"))))
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
    return expansion.expand_window(
        relation, window_arguments.make_window("cumulate", "ts", "1 minute", "1 day")
    )


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
