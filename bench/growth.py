"""How the cost of a stream grows: with its rows, keys, distinct values, steps, and with the models beside it.

One thing grows at a time and all else stays as it is, in one run, in one JVM, after a warm-up; each time all is taken in
in `--pieces` micro-batches, from an empty state. What is printed is the time, the CPU of both processes, the Spark jobs
while a micro-batch went on, and the exponent: 1 is a cost that grows as fast as the thing does, 0 one that doesn't grow.
In the last line it is that of the whole range.

rows     a cumulate of 1 hour over a day with an exact distinct count, over more and more rows
keys     count, sum and an exact distinct count of more and more keys, without windows
values   an exact distinct count over more and more distinct values
steps    the cumulate in more and more steps of the day
models   so many streams of the 1-minute tumble at once, each over all rows

    python bench/growth.py --only rows --rows 500000 1000000 2000000 4000000
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from day import EVENTS, Bench

from dbt.adapters.spark_streaming.environment import close_environments
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.microbatch import loop
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream

AGGREGATES = "count(*) as n, sum(v) as total, count(distinct device) as devices"
TOTALS = f"select page, {AGGREGATES} from (select /*+ STREAM */ * from raw.events) group by page"


def windowed(kind: str, *lengths: str) -> str:
    """The aggregates of windows."""
    window = expansion.expand_window("raw.events", window_arguments.make_window(kind, "ts", *lengths))
    columns = "window_start, window_end, page"
    aggregates = AGGREGATES if kind == "cumulate" else "count(*) as n, sum(v) as total"
    return f"select {columns}, {aggregates} from {window} group by {columns}"


@dataclass(frozen=True)
class Cost:
    """Of one size."""

    size: int
    wall: float
    cpu: float
    jobs: float


class Growth(Bench):
    """Makes data and runs streams over it."""

    def data(self, rows: int, keys: int, values: int) -> Path:
        """Page views of a day in time order, in a file for each micro-batch."""
        folder = self.root / f"views_{rows}_{keys}_{values}"
        if folder.exists():
            return folder
        made = self.spark.range(0, rows, numPartitions=self.options.pieces).selectExpr(
            f"timestamp'2026-03-01' + make_dt_interval(0, 0, 0, id * 86390 / {rows}) as ts",
            f"concat('p', pmod(xxhash64(id, 1), {keys})) as page",
            f"pmod(xxhash64(id, 2), {values}) as device",
            "id % 100 as v",
        )
        made.write.parquet(str(folder))
        for number, file in enumerate(sorted(folder.glob("part-*.parquet"))):
            os.utime(file, (number, number))
        return folder

    def cost(self, size: int, folder: Path, text: str, models: int = 1) -> Cost:
        """What so many streams of a query cost."""
        self.number = getattr(self, "number", 0) + 1
        made = [
            self.model(f"m{self.number}_{each}", "raw.events", folder, EVENTS, text, ("page", "device"))
            for each in range(models)
        ]
        jobs: list[float] = []

        def keep(model: StreamModel, progress: dict[str, dict[str, float]]) -> None:
            jobs.append(progress["last"]["jobs"])

        loop.write_progress = keep  # type: ignore[assignment]
        began, spent = time.monotonic(), self.cpu()
        with ExitStack() as stack:
            for stream in [stack.enter_context(RunningStream(self.spark, *each)) for each in made]:
                stream.wait()
        cost = Cost(size, time.monotonic() - began, self.cpu() - spent, statistics.median(jobs))
        for model, _ in made:
            for table in model.target, model.state:
                self.spark.sql(f"drop table if exists {table} purge")
        return cost


def exponent(one: Cost, other: Cost) -> float:
    """By which power of the size the CPU grows.

    >>> exponent(Cost(10, 1.0, 2.0, 4), Cost(1000, 1.0, 20.0, 4))
    0.5
    """
    return round(math.log(other.cpu / one.cpu) / math.log(other.size / one.size), 2)


def main() -> None:
    """Run all and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    things = ("rows", "keys", "values", "steps", "models")
    parser.add_argument("--only", nargs="+", choices=things, default=things)
    parser.add_argument("--base", type=int, default=1_000_000, help="rows, where they don't grow")
    parser.add_argument("--rows", type=int, nargs="+", default=[500_000, 1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--keys", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--values", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 24, 144, 1440])
    parser.add_argument("--models", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--pieces", type=int, default=12)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--root", default="/tmp/dbt-spark-streaming-growth")
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench, base = Growth(options), options.base
    hourly, some = windowed("cumulate", "1 hour", "1 day"), 200
    costs: dict[str, Callable[[int], Cost]] = {
        "rows": lambda size: bench.cost(size, bench.data(size, some, base // 5), hourly),
        "keys": lambda size: bench.cost(size, bench.data(base, size, base // 5), TOTALS),
        "values": lambda size: bench.cost(size, bench.data(base, some, size), TOTALS),
        "steps": lambda size: bench.cost(
            size,
            bench.data(base, some, base // 5),
            windowed("cumulate", f"{1440 // size} minutes", "1 day"),
        ),
        "models": lambda size: bench.cost(
            size, bench.data(base // 10, some, base // 5), windowed("tumble", "1 minute"), models=size
        ),
    }
    try:
        for text in hourly, TOTALS:
            bench.cost(0, bench.data(base // 10, some, base // 50), text)
        for thing in options.only:
            print(f"\n{thing:>12} {'seconds':>8} {'CPU s':>8} {'jobs':>5} {'exponent':>9}")
            found: list[Cost] = []
            for size in getattr(options, thing):
                found.append(each := costs[thing](size))
                grown = f"{exponent(found[-2], each):9.2f}" if len(found) > 1 else ""
                print(f"{size:12,} {each.wall:8.1f} {each.cpu:8.1f} {each.jobs:5.0f} {grown}", flush=True)
            if len(found) > 2:
                print(f"{'all':>12} {'':8} {'':8} {'':5} {exponent(found[0], found[-1]):9.2f}", flush=True)
    finally:
        close_environments()


if __name__ == "__main__":
    main()
