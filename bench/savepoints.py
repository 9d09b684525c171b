"""Savepoints of small and large states: does taking one, and going back to it, cost the same?

A count per key: `--rows` of the state's rows each. Of each size it prints the seconds of a savepoint, of a restore after one
more micro-batch, and of the undo of that, the median of `--times`; how many files of rows came on the way (none should);
and how large what is kept is.

    python bench/savepoints.py --rows 100000 1000000 10000000
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query import generate, planner
from dbt.adapters.spark_streaming.stream.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.restoring import restore, undo
from dbt.adapters.spark_streaming.stream.runner import run_stream
from dbt.adapters.spark_streaming.stream.saving import delete, save

COUNTS = "select k, count(*) as n from (select /*+ STREAM */ * from events) group by k"


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--root", default="/tmp/bench-savepoints")
    options = parser.parse_args()
    root = Path(options.root)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    environment = get_environment(
        SparkStreamingCredentials(schema="bench", master="local[2]", storage_root=str(root))
    )
    spark = environment.session()
    spark.sql("create namespace if not exists bench")
    program = generate.program(planner.plan(COUNTS))
    print(f"{'rows':>12} {'savepoint':>10} {'restore':>10} {'undo':>10} {'files':>6} {'kept':>10}")
    for rows in options.rows:
        name = f"counts_{rows}"
        spark.sql(f"create table bench.{name}_events (ts timestamp, k bigint) using iceberg")
        spark.sql(f"create table bench.{name} (k bigint, n bigint) using iceberg")
        model = StreamModel(
            name=name,
            target=f"bench.{name}",
            state=f"bench.{name}__state",
            storage=environment.storage,
            sources=(StreamSource("events", f"bench.{name}_events"),),
        )

        def feed(ids: str, table: str = f"bench.{name}_events", model: StreamModel = model) -> None:
            spark.sql(f"insert into {table} select timestamp_seconds(0), id from {ids}")
            run_stream(spark, model, program)

        feed(f"range({rows})")
        seconds: dict[str, list[float]] = {"save": [], "restore": [], "undo": []}
        kept, came = 0, 0
        for number in range(options.times + 1):
            files = _files(root)
            took = {"save": _timed(save, spark, model, "kept")}
            came += len(_files(root) - files)
            kept = sum(path.stat().st_size for path in (root / "savepoints").rglob("*") if path.is_file())
            feed(f"range({number}, {number + 10})")
            took["restore"] = _timed(restore, spark, model, program, "kept")
            took["undo"] = _timed(undo, spark, model, program)
            delete(spark, model, "kept")
            for what, taken in took.items():
                if number:  # the first warms up
                    seconds[what].append(taken)
        medians = " ".join(f"{statistics.median(each):>10.2f}" for each in seconds.values())
        print(f"{rows:>12,} {medians} {came:>6} {kept:>10,}", flush=True)
    close_environments()


def _files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*.parquet") if not path.name.startswith(".")}


def _timed(action: Callable[..., object], *arguments: object) -> float:
    began = time.monotonic()
    action(*arguments)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
