"""The query of `backfill` in Apache Flink, over the same files: a process of its own, started by `flink.py`.

It is given PyFlink, and not this project, so it imports nothing from here.

    python bench/flink_peer.py '{"jars": [...], "runs": [["streaming", FOLDER], …], "out": FOLDER}'

prints a line of JSON for each run: its mode, its folder and its seconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

# Rows of a folder's files come in any order, and all are within a day.
SOURCE = """
create table events (
  ts timestamp(3), page string, device bigint, v bigint,
  watermark for ts as ts - interval '1' day
) with ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'parquet')
"""
SINK = """
create table curves (window_start timestamp(3), window_end timestamp(3), page string, n bigint, amount bigint, seen bigint)
with ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'parquet')
"""
QUERY = """
insert into curves
select window_start, window_end, page, count(*), sum(v), count(distinct device)
from table(cumulate(table events, descriptor(ts), interval '1' minute, interval '1' day))
group by window_start, window_end, page
"""


def run(mode: str, given: dict[str, Any], source: str, name: str) -> float:
    """Seconds of the query over a folder."""
    settings = EnvironmentSettings.new_instance()
    settings = settings.in_batch_mode() if mode == "batch" else settings.in_streaming_mode()
    tables = TableEnvironment.create(settings.build())
    config = tables.get_config()
    config.set("pipeline.jars", ";".join(f"file://{jar}" for jar in given["jars"]))
    config.set("parallelism.default", "2")
    config.set("taskmanager.numberOfTaskSlots", "2")
    config.set("taskmanager.memory.managed.size", "1g")
    config.set("table.local-time-zone", "UTC")
    for name_of, value in given.get("settings", {}).items():
        config.set(name_of, value)
    tables.execute_sql(SOURCE.format(path=source))
    tables.execute_sql(SINK.format(path=Path(given["out"]) / name))
    began = time.monotonic()
    tables.execute_sql(QUERY).wait()
    return time.monotonic() - began


def main() -> None:
    """Each run in turn."""
    given = json.loads(sys.argv[1])
    for number, (mode, folder) in enumerate(given["runs"]):
        print(json.dumps([mode, folder, run(mode, given, folder, f"{number}_{mode}")]), flush=True)


if __name__ == "__main__":
    main()
