"""Batch against Apache Flink: the query of `backfill`, on the same files, on the same machine, in one run.

batch      our batch plan, into an Iceberg table: once before Flink and once after it; the mean counts
stream     our stream over all of it in one micro-batch, with its flush
streaming  Flink's streaming mode with its state in memory and no checkpoints, into Parquet files
naive      Flink's batch mode, which makes a row of each row's 1440 windows: on `--naive` rows, the time scaled up

Each after a warm-up on a tenth. Flink has two slots and a heap of 4 GB, Spark two threads and one of 2 GB.
PyFlink gets an environment of its own from uv, and Flink's Parquet format comes from Maven.

    python bench/flink.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from backfill import COLUMNS, EVENTS, QUERY, Bench, arguments, cumulate, timed

from dbt.adapters.spark_streaming.environment import close_environments
from dbt.adapters.spark_streaming.environment.java import find_java, spark_home
from dbt.adapters.spark_streaming.environment.packages import default_cache, jars
from dbt.adapters.spark_streaming.query import generate, planner

FLINK = "1.20.0"
# What it needs of Hadoop comes with Spark.
FROM_SPARK = ("hadoop-client-*.jar", "snappy-java-*.jar", "commons-logging-*.jar")


class AgainstFlink(Bench):
    """The same query in both."""

    def batch(self, folder: Path) -> int:
        """As `materialized='table'` runs it."""
        self.spark.read.schema(EVENTS).parquet(str(folder)).createOrReplaceTempView("events")
        self.spark.sql(f"create or replace table bench.batch ({COLUMNS}) using iceberg")
        plan = planner.plan(QUERY.format(cumulate=cumulate("events")))
        self.spark.sql(f"insert into bench.batch {generate.batch(plan)}")
        return int(self.spark.table("bench.batch").count())

    def flink(self, runs: list[tuple[str, Path]]) -> list[float]:
        """Seconds of each run, in a process of its own."""
        needed = jars([f"org.apache.flink:flink-parquet:{FLINK}"], find_java(), default_cache())
        for pattern in FROM_SPARK:
            needed += (spark_home() / "jars").glob(pattern)
        given = {
            "jars": [str(jar) for jar in needed],
            "runs": [(mode, str(folder)) for mode, folder in runs],
            "out": str(self.root / "flink"),
        }
        # Beam, which PyFlink brings, asks for what setuptools had once.
        packages = ["--with", f"apache-flink=={FLINK}", "--with", "setuptools<81"]
        peer = str(Path(__file__).with_name("flink_peer.py"))
        command = ["uv", "run", "--no-project", "--python", self.options.python, *packages, "python", peer]
        environment = {**os.environ, "JVM_ARGS": "-Xmx4g"}
        environment.pop("VIRTUAL_ENV", None)
        done = subprocess.run(
            [*command, json.dumps(given)], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        return [float(seconds) for _, _, seconds in found]

    def agrees(self, folder: Path) -> bool:
        """Whether Flink's files have the rows of our table."""
        theirs = self.spark.read.parquet(str(folder)).toDF(*self.spark.table("bench.batch").columns)
        ours = self.spark.table("bench.batch")
        return int(ours.exceptAll(theirs).count()) == 0 and theirs.count() == ours.count()


def main() -> None:
    """Run all and print the table."""
    parser = arguments("Batch against Flink.", "flink")
    parser.add_argument("--naive", type=int, default=20_000)
    parser.add_argument("--python", default="3.11", help="for PyFlink, which needs 3.8 to 3.11")
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench = AgainstFlink(options)
    try:
        small = bench.events("warm", options.rows // 10, options.pieces)
        large = bench.events("day", options.rows, options.pieces)
        few = bench.events("few", options.naive, 1)
        bench.batch(small)
        bench.stream(small, options.pieces)
        before, _ = timed(lambda: bench.batch(large))
        stream, _ = timed(lambda: bench.stream(large, options.pieces))
        _, streaming, naive = bench.flink([("streaming", small), ("streaming", large), ("batch", few)])
        after, rows = timed(lambda: bench.batch(large))
        batch = (before + after) / 2
        same = "the same rows" if bench.agrees(bench.root / "flink" / "1_streaming") else "OTHER ROWS"
        print(f"{rows:,} rows, {same} in Flink")
        print(f"batch            {batch:8.1f} s")
        print(f"stream           {stream:8.1f} s")
        print(f"Flink, streaming {streaming:8.1f} s   batch / it {batch / streaming:.2f}   (aim 1)")
        scaled = naive * options.rows / options.naive
        print(f"Flink, batch     {scaled:8.0f} s   (scaled up)   batch / it {batch / scaled:.4f}   (aim 1)")
    finally:
        close_environments()


if __name__ == "__main__":
    main()
