"""A run of a stream that is killed on the way: `python -m tests.functional.stream.victim ROOT [POINT BATCH]`.

The stream reads the files in ROOT/events, one per micro-batch, and folds and compacts its state far more
often than it would by itself. POINT says after which of its acts in micro-batch BATCH the process is killed,
by a signal that can't be caught. It prints `done` when it gets to the end, and leaves the table's rows and
changes in ROOT/rows.

The query is a cumulate; with VICTIM=ranking in the environment a ranking over the whole stream.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
from dbt.adapters.spark_streaming.environment import close_environments, get_environment
from dbt.adapters.spark_streaming.query import generate, planner
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream import state
from dbt.adapters.spark_streaming.stream.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.runner import flush, run_stream
from dbt.adapters.spark_streaming.stream.sink import AppendSink

from . import programs
from .harness import CUMULATE, EVENTS, SCHEMA, sorted_rows
from .programs import MINUTE, SECOND

RANKING = """select * from (
  select *, row_number() over (partition by x % 5 order by s desc, k, x) as place from (
    select k, x, count(*) as c, sum(v - 500) as s, count(distinct v % 9) as d
    from (select /*+ STREAM */ * from events) group by k, x)
) where place <= 4"""
RANKED = "k string, x bigint, c bigint, s bigint, d bigint, place int"

POINTS: dict[str, tuple[Any, str]] = {
    "after state": (state.StateTable, "append"),
    "after table": (AppendSink, "put"),
    "after fold": (state.StateTable, "fold"),
    "after compaction": (state.StateTable, "compact"),
}


def main(root: Path, point: str | None = None, batch: int = 0) -> None:
    state._COMMITS, state._ROWS, state._LOOSE_FILES = 3, 50, 4
    environment = get_environment(
        SparkStreamingCredentials(schema=SCHEMA, master="local[1]", storage_root=str(root / "storage"))
    )
    spark = environment.session()
    if point:
        kill_at(spark, point, batch)
    spark.sql(f"create namespace if not exists {SCHEMA}")
    columns, program = query()
    spark.sql(f"create table if not exists {SCHEMA}.killed ({columns}) using iceberg")
    model = StreamModel(
        name="killed",
        target=f"{SCHEMA}.killed",
        state=f"{SCHEMA}.killed__state",
        storage=environment.storage,
        sources=(
            StreamSource("events", str(root / "events"), "parquet", EVENTS, {"maxFilesPerTrigger": "1"}),
        ),
        watermark_delay=30 * SECOND,
        changelog=program.upsert is not None,
    )
    (root / "started").touch()
    run_stream(spark, model, program)
    flush(spark, model, program)
    rows = sorted_rows(spark.table(model.target).collect())
    if model.changelog:
        rows += sorted_rows(spark.table(model.changes).collect())
    (root / "rows").write_text("\n".join(map(repr, rows)))
    print("done", flush=True)
    close_environments()


def query() -> tuple[str, Program]:
    """The columns of the table, and what is carried out."""
    if os.environ.get("VICTIM") == "ranking":
        return RANKED, generate.program(planner.plan(RANKING))
    return CUMULATE, programs.cumulate(10 * MINUTE, 120 * MINUTE)


def kill_at(spark: Any, point: str, batch: int) -> None:
    """Have this process, and with it the JVM, killed at a point."""
    owner, name = POINTS[point]
    act: Callable[..., Any] = getattr(owner, name)
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()

    def killed(self: Any, session: Any, rows: Any, position: Any, *more: Any, **named: Any) -> Any:
        result = act(self, session, rows, position, *more, **named)
        if position.batch >= batch:
            die(jvm)
        return result

    def killed_without_rows(self: Any, session: Any) -> Any:
        result = act(self, session)
        if self.position().batch >= batch:
            die(jvm)
        return result

    setattr(owner, name, killed_without_rows if name == "compact" else killed)


def die(jvm: int) -> None:
    os.kill(jvm, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    else:
        main(Path(sys.argv[1]))
