"""A ranking over a whole stream, kept up to date, against the ranking computed anew each time.

5 million sales in `--pieces` micro-batches: 200 skewed categories of up to 1,000 products each. In one
run, in one JVM, for each micro-batch:

improving  the 10 products of each category with most sales: a count only grows
general    the 10 with the greatest sum of amounts, which may be negative
rows       the 10 greatest sales of each category: rows of state (aim: 10 for each category)
anew       plain Spark: groups and ranks all sales so far, and overwrites a table

What a micro-batch costs should follow the rows that come in, not those that are there: the ratio of the
last three micro-batches to the first three that are warm is printed too.

    python bench/whole_streams.py --rows 5000000
"""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from backfill import EVENTS, Bench, arguments

from dbt.adapters.spark_streaming.environment import close_environments
from dbt.adapters.spark_streaming.query import generate, planner

SALES = (
    "(select /*+ STREAM */ page as category, pmod(device, 1000) as product, v - 20 as amount from raw.events)"
)
GROUPS = f"select category, product, count(*) as sales, sum(amount) as total from {SALES} group by category, product"
RANKED = (
    "select * from (select *, row_number() over (partition by category order by {order}) as place from {of}) "
    "where place <= 10"
)
QUERIES = {
    "improving": RANKED.format(order="sales desc, product", of=f"({GROUPS})"),
    "general": RANKED.format(order="total desc, product", of=f"({GROUPS})"),
    "rows": RANKED.format(order="amount desc, product", of=SALES),
}


class WholeStreams(Bench):
    """Runs a query over the sales and keeps the figures of its micro-batches."""

    def run(self, name: str, folder: Path, text: str) -> list[dict[str, Any]]:
        """The figures of each micro-batch, with its time in all."""
        return self.streamed(name, "raw.events", folder, EVENTS, text)[-1]

    def batch(self, text: str, *files: Path) -> str:
        """The same query over files that are there."""
        self.spark.read.schema(EVENTS).parquet(*map(str, files)).createOrReplaceTempView("raw_events")
        return generate.batch(planner.plan(text)).replace("raw.events", "raw_events")

    def anew(self, name: str, folder: Path, text: str) -> list[float]:
        """The times of computing the query over the first piece, the first two, and so on."""
        target = f"lakehouse.bench.{name}"
        files = sorted(folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
        taken = []
        for pieces in range(1, len(files) + 1):
            began = time.monotonic()
            rows = self.spark.sql(self.batch(text, *files[:pieces]))
            rows.writeTo(target).using("iceberg").createOrReplace()
            taken.append(time.monotonic() - began)
        return taken


def growth(times: list[float]) -> float:
    """The last three against the first three that are warm."""
    return statistics.mean(times[-3:]) / statistics.mean(times[1:4])


def main() -> None:
    """Run all and print the table."""
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "", "whole-streams")
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES))
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    bench = WholeStreams(options)
    try:
        warm = bench.events("warm", options.rows // 20, options.pieces)
        bench.run("warm", warm, QUERIES["general"])
        bench.anew("warm_anew", warm, QUERIES["general"])
        folder = bench.events("day", options.rows, options.pieces)
        print(
            f"{'':10} {'seconds':>8} {'CPU s':>8} {'last / first':>13} {'jobs':>5} {'rows out':>9} {'state rows':>11}"
        )
        for name in options.queries:
            figures = bench.run(name, folder, QUERIES[name])
            times = [each["wall"] for each in figures]
            cpu = sum(each["cpu"] for each in figures)
            jobs = statistics.median(each["jobs"] for each in figures)
            out, rows = sum(each["rows_out"] for each in figures), figures[-1]["state"]["rows"]
            print(
                f"{name:10} {sum(times):8.1f} {cpu:8.1f} {growth(times):13.2f} {jobs:5.0f} {out:9,} {rows:11,}",
                flush=True,
            )
        before = bench.cpu()
        times = bench.anew("anew", folder, QUERIES["general"])
        cpu = bench.cpu() - before
        print(f"{'anew':10} {sum(times):8.1f} {cpu:8.1f} {growth(times):13.2f}", flush=True)
    finally:
        close_environments()


if __name__ == "__main__":
    main()
