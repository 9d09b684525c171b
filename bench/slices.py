"""Windows below a LAG in batch: computed from slices, against plain SQL, which repeats each row for all its windows.

`--rows` rows of 50 keys over two days, in memory. For each window, by the number of windows that a row is in: the least time
of some runs of both texts, in turn. `Window.is_highly_overlapping` decides by these figures.

    python bench/slices.py --rows 500000
"""

from __future__ import annotations

import argparse
import time

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query.batch.whole_query import within_windows
from dbt.adapters.spark_streaming.query.windows.expansion import expand_window
from dbt.adapters.spark_streaming.query.windows.window_arguments import make_window
from dbt.adapters.spark_streaming.query.windows.windows import Window

WINDOWS: dict[str, Window] = {
    "tumble": make_window("tumble", "ts", "10 minutes"),
    "hop, 3 windows": make_window("hop", "ts", "10 minutes", "30 minutes"),
    "hop, 6": make_window("hop", "ts", "10 minutes", "1 hour"),
    "hop, 12": make_window("hop", "ts", "5 minutes", "1 hour"),
    "hop, 24": make_window("hop", "ts", "5 minutes", "2 hours"),
    "cumulate, 6": make_window("cumulate", "ts", "10 minutes", "1 hour"),
    "cumulate, 12": make_window("cumulate", "ts", "5 minutes", "1 hour"),
    "cumulate, 144": make_window("cumulate", "ts", "10 minutes", "1 day"),
    "session": make_window("session", "ts", "1 minute", partition_by=["k"]),
}
AGGREGATES = {
    "sums": "count(*) as n, sum(v) as s, max(ts) as last",
    "distinct": "count(*) as n, sum(v) as s, count(distinct v) as d",
}


def main() -> None:
    """Runs all, and prints the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    settings = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"}
    credentials = SparkStreamingCredentials(
        schema="default",
        storage_root="/tmp/dbt-spark-streaming-slices",
        master="local[2]",
        server_side_parameters=settings,
    )
    spark = get_environment(credentials).session()
    at = "timestamp'2024-01-01' + make_interval(0, 0, 0, 0, 0, 0, cast(id * 7919 % 86400 * 2 as int))"
    spark.sql(
        f"cache table slice_rows as select {at} as ts, concat('k', id % 50) as k, id % 97 as v from range({options.rows})"
    )
    for name, window in WINDOWS.items():
        for kind, aggregates in AGGREGATES.items():
            over = expand_window("slice_rows", window)
            grouped = f"select k, window_start, window_end, {aggregates} from {over} group by k, window_start, window_end"
            above = "select *, lag(n) over (partition by k order by window_end) as before from ({}) as p"
            texts = [above.format(each) for each in (within_windows(grouped), grouped)]
            least = [float("inf")] * len(texts)
            for _ in range(options.runs):
                for number, each in enumerate(texts):
                    began = time.perf_counter()
                    spark.sql(each).write.format("noop").mode("overwrite").save()
                    least[number] = min(least[number], time.perf_counter() - began)
            slices, plain = least
            print(
                f"{name:16} {kind:9} slices {slices:6.2f} s  plain {plain:6.2f} s  ratio {slices / plain:.2f}",
                flush=True,
            )
    close_environments()


if __name__ == "__main__":
    main()
