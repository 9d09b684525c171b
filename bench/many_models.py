"""What many small models over one stream cost, beside one: while nothing comes, and while 1,000 rows a second do.

All are in one Spark, as `dbt-stream run` has them, over one Iceberg table. What is printed, for each number of models: CPU
seconds of both processes per second with nothing to do, the same with rows coming (less what it takes to write these, which
a run without models measures), micro-batches, and from a row's commit until the models that have a row
for each of theirs have it in their tables.

    python bench/many_models.py --models 1 5 20 --seconds 30
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from day import Bench

from dbt.adapters.spark_streaming.environment import close_environments
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.microbatch import loop
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream

CLICKS = "raw.clicks"
WINDOWED = "select window_start, window_end, page, {aggregates} from {window} group by window_start, window_end, page"


def windowed(kind: str, aggregates: str, *lengths: str) -> str:
    """A query over windows of the clicks."""
    window = expansion.expand_window(CLICKS, window_arguments.make_window(kind, "ts", *lengths))
    return WINDOWED.format(window=window, aggregates=aggregates)


QUERIES = (
    windowed("tumble", "count(*) as n, sum(v) as total", "10 seconds"),
    windowed("cumulate", "count(*) as n, count(distinct device) as devices", "10 seconds", "1 hour"),
    f"select page, count(*) as n, max(v) as most from (select /*+ STREAM */ * from {CLICKS}) group by page",
    f"select ts, page, v from (select /*+ STREAM */ * from {CLICKS}) where v = 7",
)
"""What the models are, in turn."""


class Many(Bench):
    """Clicks that are written, and models that read them."""

    def made(self, models: int) -> list[tuple[StreamModel, Program]]:
        """So many models whose tables are there and empty."""
        self.spark.sql(f"drop table if exists {CLICKS} purge")
        self.spark.sql(
            f"create table {CLICKS} (ts timestamp, page string, device bigint, v bigint) using iceberg"
        )
        found = []
        # So many may be measured again, as after the warm-up.
        self.rounds = getattr(self, "rounds", 0) + 1
        for number in range(models):
            text = QUERIES[number % len(QUERIES)]
            model, program = self.over(f"many_{self.rounds}_{number}", StreamSource(CLICKS, CLICKS), text)
            found.append((replace(model, trigger="1 second"), program))
        return found

    def write(self, rows: int) -> None:
        """Clicks of this instant."""
        self.spark.range(0, rows, numPartitions=1).selectExpr(
            "current_timestamp() as ts", "concat('p', id % 200) as page", "id % 97 as device", "id % 100 as v"
        ).writeTo(CLICKS).append()

    def measure(self, models: int) -> dict[str, Any]:
        """The figures of so many models."""
        made = self.made(models)
        done: Counter[str] = Counter()
        taken: list[float] = []
        written: dict[int, float] = {}

        def keep(model: StreamModel, progress: dict[str, Any]) -> None:
            rows = progress["total"]["rows_in"]
            done[model.name] += 1
            for upto, at in written.items():
                if rows >= upto and (model.name, upto) not in seen:
                    seen.add((model.name, upto))
                    taken.append(time.monotonic() - at)

        seen: set[tuple[str, int]] = set()
        loop.write_progress = keep  # type: ignore[assignment]
        total = 0
        with ExitStack() as stack:
            for each in made:
                stack.enter_context(RunningStream(self.spark, *each))
            # Until each has been through a few.
            for _ in range(8):
                self.write(1000)
                total += 1000
                time.sleep(1 + 0.2 * models)
            time.sleep(5 + models / 2)
            spent, began = self.cpu(), time.monotonic()
            time.sleep(self.options.seconds)
            idle = (self.cpu() - spent) / (time.monotonic() - began)
            done.clear()
            spent, began = self.cpu(), time.monotonic()
            while time.monotonic() - began < self.options.seconds:
                next_at = time.monotonic() + 1
                self.write(1000)
                total += 1000
                written[total] = time.monotonic()
                time.sleep(max(0.0, next_at - time.monotonic()))
            wall = time.monotonic() - began
            while models and len(seen) < models * len(written) and time.monotonic() - began < 4 * wall:
                time.sleep(0.2)
            busy = self.cpu() - spent
            took = time.monotonic() - began
        figures = {
            "models": models,
            "idle": idle,
            "busy": busy,
            "batches": sum(done.values()),
            "seconds": took,
        }
        if taken:
            figures["p50"] = statistics.median(taken)
            figures["p95"] = sorted(taken)[int(len(taken) * 0.95)]
        return figures


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--root", default="/tmp/dbt-spark-streaming-many")
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench = Many(options)
    bench.measure(2)  # warm
    writes = bench.measure(0)
    print(f"writing alone: {writes['busy']:.1f} CPU s, {writes['idle']:.3f} idle a second")
    print(
        f"{'models':>7}{'idle CPU s/s':>14}{'CPU s':>8}{'batches':>9}{'CPU s each':>12}{'p50 s':>7}{'p95 s':>7}"
    )
    for models in options.models:
        found = bench.measure(models)
        busy = found["busy"] - writes["busy"]
        print(
            f"{models:>7}{found['idle'] - writes['idle']:>14.3f}{busy:>8.1f}{found['batches']:>9}"
            f"{busy / max(found['batches'], 1):>12.2f}{found.get('p50', 0):>7.2f}{found.get('p95', 0):>7.2f}",
            flush=True,
        )
    close_environments()


if __name__ == "__main__":
    main()
