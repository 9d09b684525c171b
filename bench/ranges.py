"""The last day of a 30-day table computed anew, against the table made at once.

`--rows` page views over 30 days in an Iceberg table with a file or more per day; a 1-minute cumulate over
the day of count(*), sum and exact count(distinct device), grouped by page, into a table that is partitioned
by day too. In one run, in one JVM, after a warm-up:

whole    the table is made at once
day      its last day is computed anew and replaced, as `window_overwrite` and `dbt-stream backfill` do
again    the same once more

    python bench/ranges.py --rows 5000000
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from datetime import datetime
from typing import Any

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.batch.replace_rows import replace_files_sql, replace_where_sql
from dbt.adapters.spark_streaming.query.batch.window_range import WindowOverwriter
from dbt.adapters.spark_streaming.query.planner import plan_query as planner
from dbt.adapters.spark_streaming.query.windows import expansion, ranges, window_arguments
from dbt.adapters.spark_streaming.query.windows.ranges import TimeRange

DAYS = 30
FIRST = datetime(2024, 3, 1)
QUERY = """
select window_start, window_end, page, count(*) as views, sum(v) as total, count(distinct device) as devices
from {cumulate} group by window_start, window_end, page
"""


def make_events(spark: Any, table: str, rows: int) -> None:
    spark.sql(f"drop table if exists {table}")
    spark.sql(
        f"create table {table} (ts timestamp, page string, device bigint, v bigint) using iceberg "
        "partitioned by (days(ts))"
    )
    seconds = DAYS * 86_400
    spark.sql(
        f"""insert into {table}
        select timestamp_micros({ranges.instant_of(FIRST)}L + (id * {seconds}L div {rows}) * 1000000L) as ts,
          concat('page ', pmod(hash(id, 1), 200) * pmod(hash(id, 2), 200) div 200) as page,
          pmod(hash(id, 3), 1000000) as device, pmod(hash(id, 4), 100) as v
        from range({rows})"""
    )


def timed(name: str, work: Any) -> dict[str, Any]:
    began = time.perf_counter()
    work()
    return {"what": name, "seconds": round(time.perf_counter() - began, 2)}


def run(spark: Any, rows: int) -> list[dict[str, Any]]:
    events, target = "bench.range_events", "bench.range_curves"
    spark.sql("create namespace if not exists bench")
    make_events(spark, events, rows)
    window = window_arguments.make_window("cumulate", "ts", "1 minute", "1 day")
    text = QUERY.format(cumulate=expansion.expand_window(events, window))
    overwriting = WindowOverwriter(text, lambda query: tuple(spark.sql(query).first()))
    last = ranges.instant_of(FIRST) + (DAYS - 1) * 86_400_000_000

    def whole() -> None:
        spark.sql(f"drop table if exists {target}")
        spark.sql(
            f"create table {target} using iceberg partitioned by (days(window_start)) as "
            f"{whole_query.batch_sql(planner.plan(text))}"
        )

    def day() -> None:
        ends = overwriting.touched_windows(TimeRange(last, last + 86_400_000_000))
        made = overwriting.overwrite(ends)
        types = dict(spark.table(target).dtypes)
        (divided,) = spark.sql(overwriting.divided_files_query(target, ends)).first()
        statement = replace_where_sql if divided else replace_files_sql
        spark.sql(statement(target, f"(\n{made.sql}\n)", types, made.condition))

    found = [timed("whole", whole), timed("day", day), timed("again", day)]
    where = TimeRange(last, last + 86_400_000_000).condition("ts")
    read, there = (
        spark.sql(f"select count(distinct _file) from {events} where {condition}").first()[0]
        for condition in (where, "true")
    )
    return [*found, {"what": "files of the day", "of": there, "read": read}]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--root", default="/tmp/bench-ranges")
    parser.add_argument("--memory", default="3g")
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    environment = get_environment(
        SparkStreamingCredentials(
            schema="bench",
            master="local[2]",
            storage_root=options.root,
            server_side_parameters={"spark.driver.memory": options.memory},
        )
    )
    try:
        spark = environment.session()
        run(spark, max(1000, options.rows // 100))
        for entry in run(spark, options.rows):
            print(json.dumps(entry))
    finally:
        close_environments()
        shutil.rmtree(options.root, ignore_errors=True)


if __name__ == "__main__":
    main()
