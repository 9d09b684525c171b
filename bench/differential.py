"""Random queries, each as a stream in cuts and as plain Spark SQL over all rows: the same rows, or refused.

Each query is put together from the grammar of a model (tests/differential/generate.py), planned and run by the adapter's
own code without dbt, fed 1 to 6 cuts of small random tables with rows out of order, and flushed. What differs is made
smaller and printed.

spark    planner, micro-batches, state and tables as they are: the whole of it, some seconds per query
duckdb   the planner's programs alone, translated for DuckDB: many times as quick, to find what composes wrongly

    python bench/differential.py --queries 300 --seed 1
    python bench/differential.py --queries 1000 --seed 2 --engine duckdb
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from tests.differential import duck, planning, spark, tables
from tests.differential.generate import Generator
from tests.differential.outcome import EQUAL, REFUSED, Outcome
from tests.differential.shrink import shrink
from tests.differential.tables import Tables
from tests.differential.tree import Case

SHARED = 20
"""So many queries read the same rows."""


def numbered(seed: int, number: int) -> tuple[Case, Tables]:
    """A query of a seed, and its rows."""
    return planning.advised(Generator(f"{seed} {number}").case()), tables.make(
        seed * 1_000_003 + number // SHARED
    )


def main() -> None:
    """Run all, print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("spark", "duckdb"), default="spark")
    parser.add_argument("--first", type=int, default=0, help="the number of the first query")
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of the queries to run")
    parser.add_argument("--tries", type=int, default=60, help="at most, to make what differs smaller")
    parser.add_argument("--minutes", type=float, default=None, help="stop after that")
    parser.add_argument("--log", help="a file that gets a line per query")
    parser.add_argument("--memory", default="3g")
    parser.add_argument("--root", default="/tmp/dbt-spark-streaming-differential")
    options = parser.parse_args()
    laboratory = duck.Laboratory() if options.engine == "duckdb" else on_spark(options.root, options.memory)
    numbers = options.only or range(options.first, options.first + options.queries)
    outcomes: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    began, batches = time.monotonic(), 0
    try:
        for number in numbers:
            if options.minutes and time.monotonic() - began > options.minutes * 60:
                break
            case, rows = numbered(options.seed, number)
            found = laboratory.run(case, rows)
            outcomes[found.kind] += 1
            batches += found.batches
            if found.kind == REFUSED:
                refused[planning.reason(found.detail)] += 1
            if options.log:
                _log(options.log, options.seed, number, found)
            if found.kind not in (EQUAL, REFUSED):
                print(f"\n#{number} of seed {options.seed}: {found.kind}\n{found.detail}\n{case}", flush=True)
            if found.is_wrong and options.tries:
                print(made_smaller(laboratory, case, rows, found, options.tries), flush=True)
    finally:
        minutes = (time.monotonic() - began) / 60
        total = sum(outcomes.values())
        print(
            f"\n{options.engine}: {total} queries of seed {options.seed}, {batches} micro-batches, {minutes:.1f} minutes"
        )
        for kind, count in outcomes.most_common():
            print(f"{count:6} {kind}")
        for sentence, count in refused.most_common():
            print(f"{count:6} refused: {sentence}")
        close_environments()
    raise SystemExit(1 if outcomes["different"] or outcomes["crashed"] else 0)


def on_spark(root: str, memory: str) -> spark.Laboratory:
    """A Spark to run cases in."""
    shutil.rmtree(root, ignore_errors=True)
    session = get_environment(credentials(root, memory)).session()
    session.sparkContext.setLogLevel("ERROR")
    return spark.Laboratory(session, Path(root))


def credentials(root: str, memory: str) -> SparkStreamingCredentials:
    """A small Spark for many small queries."""
    settings = {
        "spark.driver.memory": memory,
        # Rows are few and texts are many: what is compiled for a text is used once or twice.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    }
    return SparkStreamingCredentials(
        schema="default", storage_root=root, master="local[1]", server_side_parameters=settings
    )


def made_smaller(
    laboratory: duck.Laboratory | spark.Laboratory, case: Case, rows: Tables, found: Outcome, tries: int
) -> str:
    """What goes wrong, smaller, as text."""

    def still_wrong(other: Case, fewer: Tables) -> bool:
        return laboratory.run(other, fewer).kind == found.kind

    case, rows = shrink(case, rows, still_wrong, tries)
    outcome = laboratory.run(case, rows)
    lines = [f"--- smaller: {outcome.kind}", outcome.detail, str(case)]
    for name, pieces in rows.streams.items():
        lines += [f"{name} {at}: {row}" for at, piece in enumerate(pieces) for row in piece]
    return "\n".join(lines[:60])


def _log(path: str, seed: int, number: int, found: Outcome) -> None:
    line = {
        "seed": seed,
        "number": number,
        "kind": found.kind,
        "detail": found.detail,
        "batches": found.batches,
        "seconds": round(found.seconds, 2),
    }
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
