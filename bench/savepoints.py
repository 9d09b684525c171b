"""Savepoints and deployments of small and large states: does taking one, going back to it, and promoting cost the same?

A count per key: `--rows` of the state's rows each. Of each size it prints the seconds of a savepoint, of a restore after one
more micro-batch, of the undo of that, of the promotion of a new version and of its rollback, the median of `--times`; how
many files of rows came with savepoints and promotions (none should); how large what a savepoint keeps is; and, once, the
seconds of a clone, which copies the rows.

    python bench/savepoints.py --rows 100000 1000000 10000000
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.lifecycle.cloning import clone
from dbt.adapters.spark_streaming.stream.lifecycle.promoting import promote, roll_back, stage_deployment
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import restore, undo
from dbt.adapters.spark_streaming.stream.run.runner import run_stream
from dbt.adapters.spark_streaming.stream.run.saving import delete, save
from dbt.adapters.spark_streaming.stream.storage.deployments import version_of_model

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
    program = generate.generate_program(plan_query.plan(COUNTS))
    named = ("savepoint", "restore", "undo", "promote", "rollback")
    print(f"{'rows':>12} {' '.join(f'{each:>10}' for each in named)} {'files':>6} {'kept':>10} {'clone':>10}")
    for rows in options.rows:
        name = f"counts_{rows}"
        spark.sql(f"create table bench.{name}_events (ts timestamp, k bigint) using iceberg")
        spark.sql(f"create table bench.{name} (k bigint, n bigint) using iceberg")
        model = StreamModel(
            name=name,
            target=f"lakehouse.bench.{name}",
            state=f"lakehouse.bench.{name}__state",
            storage=environment.storage,
            sources=(StreamSource("events", f"bench.{name}_events"),),
        )

        def feed(ids: str, table: str = f"bench.{name}_events", model: StreamModel = model) -> None:
            spark.sql(f"insert into {table} select timestamp_seconds(0), id from {ids}")
            run_stream(spark, model, program)

        feed(f"range({rows})")
        new = version_of_model(model, stage_deployment(spark, model, again=False).new)
        spark.sql(f"create table {new.target} (k bigint, n bigint) using iceberg")
        run_stream(spark, new, program)
        seconds: dict[str, list[float]] = {each: [] for each in named}
        kept, came = 0, 0
        for number in range(options.times + 1):
            files = _files(root)
            took = {"savepoint": _timed(save, spark, model, "kept")}
            came += len(_files(root) - files)
            kept = sum(path.stat().st_size for path in (root / "savepoints").rglob("*") if path.is_file())
            feed(f"range({number}, {number + 10})")
            took["restore"] = _timed(restore, spark, model, program, "kept")
            took["undo"] = _timed(undo, spark, model, program)
            delete(spark, model, "kept")
            run_stream(spark, new, program)
            files = _files(root)
            took["promote"] = _timed(promote, spark, model, True)
            took["rollback"] = _timed(roll_back, spark, model)
            came += len(_files(root) - files)
            for what, taken in took.items():
                if number:  # the first warms up
                    seconds[what].append(taken)
        copy = f"lakehouse.bench.{name}_copy"
        spark.sql(f"create table {copy} (k bigint, n bigint) using iceberg")
        other = replace(model, name=f"{name}_copy", target=copy, state=f"{copy}__state")
        copied = _timed(clone, spark, other, program, model, None)
        medians = " ".join(f"{statistics.median(each):>10.2f}" for each in seconds.values())
        print(f"{rows:>12,} {medians} {came:>6} {kept:>10,} {copied:>10.2f}", flush=True)
    close_environments()


def _files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*.parquet") if not path.name.startswith(".")}


def _timed(action: Callable[..., object], *arguments: object) -> float:
    began = time.monotonic()
    action(*arguments)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
