"""History too large for memory: is it taken in, and what happens when Spark's JVM dies of it?

Page views of a day (200 skewed pages, devices seen five times each), a 1-minute cumulate over the day with an exact
count(distinct device), from empty state to the last window, all in one micro-batch, in the default profile (2 GB). Each
size has a process of its own. Where one fails, what it says is printed, and it is run again, as `dbt run` would be.

    python bench/memory.py --rows 5000000 20000000 60000000
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from day import COLUMNS, EVENTS, QUERY, Bench, cumulate

from dbt.adapters.spark_streaming.environment import close_environments
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.run.runner import flush, run_stream

TRIES = 4


def make(options: argparse.Namespace) -> None:
    """The views, in files of some 5 million rows."""
    bench = Bench(options)
    bench.events("views", options.rows[0], max(1, options.rows[0] // 5_000_000))
    bench.spark.sql(f"create table bench.views ({COLUMNS}) using iceberg")


def take_in(options: argparse.Namespace) -> None:
    """One run of the model."""
    bench = Bench(options)
    program = generate.generate_program(plan_query.plan(QUERY.format(cumulate=cumulate("raw.events"))))
    source = StreamSource("raw.events", str(bench.root / "views"), "parquet", EVENTS)
    target = "lakehouse.bench.views"
    model = StreamModel("views", target, f"{target}__state", bench.environment.storage, (source,))
    began = time.monotonic()
    try:
        found = run_stream(bench.spark, model, program)
        flush(bench.spark, replace(model, sources=()), program)
    except StreamError as problem:
        print(f"    after {time.monotonic() - began:.0f} s: {problem.msg}", flush=True)
        raise SystemExit(1) from None
    seconds = time.monotonic() - began
    last = bench.spark.table(target).where("window_end = timestamp'2026-03-02'")
    views, devices = last.selectExpr("sum(views)", "sum(devices)").collect()[0]
    bench.spark.read.schema(EVENTS).parquet(str(bench.root / "views")).createOrReplaceTempView("views_there")
    expected = bench.spark.sql(
        "select count(*) from (select distinct page, device from views_there)"
    ).collect()[0][0]
    right = (views, devices) == (options.rows[0], expected)
    print(
        f"    {seconds:.0f} s in {found.batches} pieces, {options.rows[0] / seconds:,.0f} rows/s, "
        f"{'the right counts' if right else f'WRONG COUNTS {views} {devices} {expected}'}",
        flush=True,
    )
    raise SystemExit(0 if right else 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000, 20_000_000, 60_000_000])
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--root", default="/tmp/dbt-spark-streaming-memory")
    parser.add_argument("--do", choices=("make", "take_in"), help="one step, in this process")
    options = parser.parse_args()
    if options.do:
        try:
            (make if options.do == "make" else take_in)(options)
        finally:
            close_environments()
        return
    for rows in options.rows:
        shutil.rmtree(options.root, ignore_errors=True)
        print(f"{rows:,} rows", flush=True)
        again = [sys.executable, __file__, "--root", options.root, "--rows", str(rows)]
        subprocess.run([*again, "--do", "make", "--memory", "4g"], check=True)
        for _ in range(TRIES):
            ended = subprocess.run([*again, "--do", "take_in", "--memory", options.memory]).returncode
            if ended != 1:
                break
        if ended:
            raise SystemExit(f"{rows:,} rows were not taken in, see {Path(options.root)}")


if __name__ == "__main__":
    main()
