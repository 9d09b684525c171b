"""`dbt run --full-refresh` of a stream: history at once, whatever the sources' limits, and on from there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.impl import SparkStreamingAdapter
from dbt.adapters.spark_streaming.stream.state.table import StateTable

SOURCES = """
sources:
  - name: raw
    schema: "{{{{ target.schema }}}}"
    tables:
      - name: files
        config:
          event_time: ts
          meta:
            stream:
              format: parquet
              options: {{path: "{folder}", maxFilesPerTrigger: 1}}
              schema: ts timestamp, k string
      - name: appended
        config:
          event_time: ts
          meta:
            stream:
              options: {{streaming-max-files-per-micro-batch: 1, streaming-max-rows-per-micro-batch: 1000}}
"""
QUERY = """
with events as (
  select ts, k from {{ stream(source('raw', 'files')) }}
  union all
  select ts, k from {{ stream(source('raw', 'appended')) }}
)
select window_start, window_end, k, count(*) as n, count(distinct minute(ts)) as minutes
from {{ tumble('events', 'ts', '1 hour') }}
group by window_start, window_end, k
"""
FLUSH = ("--vars", "{flush: true}")


class TestHandOver:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("hand_over") / "events"

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        return {
            "sources.yml": SOURCES.format(folder=folder),
            "hours.sql": "{{ config(materialized='window_aggregate') }}" + QUERY,
            "hours_in_batch.sql": "{{ config(materialized='view') }}" + QUERY,
        }

    def add(self, project: Any, spark: Any, folder: Path, *hours: int) -> None:
        """A file and a commit of 30 rows each, for each of some hours."""
        table = f"{project.test_schema}.appended"
        spark.sql(f"create table if not exists {table} (ts timestamp, k string) using iceberg")
        for hour in hours:
            for source in ("file", "table"):
                rows = spark.range(30).selectExpr(
                    f"timestamp'2024-03-04' + make_dt_interval(0, {hour}, id) as ts", f"'{source}' as k"
                )
                if source == "file":
                    rows.coalesce(1).write.mode("append").parquet(str(folder))
                else:
                    rows.coalesce(1).writeTo(table).append()

    def run(self, *options: str) -> tuple[int, int]:
        """Micro-batches and rows in."""
        (result,) = run_dbt(["run", "--select", "hours", *options])
        found = result.adapter_response
        assert found["late_rows"] == 0
        return found["batches"], found["rows_in"]

    def rows(self, project: Any, name: str) -> Counter[tuple[Any, ...]]:
        found = project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all")
        return Counter(tuple(row) for row in found)

    @pytest.mark.thorough
    def test_at_once_and_on(self, project: Any, spark: Any, folder: Path) -> None:
        self.add(project, spark, folder, 1, 2, 3)
        run_dbt(["run", "--select", "hours_in_batch"])
        assert self.run() == (3, 180), "a first run keeps the limits"
        self.add(project, spark, folder, 4)
        assert self.run("--full-refresh") == (1, 240)
        self.add(project, spark, folder, 5, 6)
        assert self.run() == (2, 120), "the limits are back, and nothing comes twice"
        assert self.run() == (0, 0)
        self.run(*FLUSH)
        assert self.rows(project, "hours") == self.rows(project, "hours_in_batch")

    @pytest.mark.thorough
    def test_cut_short(self, project: Any, spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def crash(*_: Any) -> None:
            raise RuntimeError("crash")

        with monkeypatch.context() as patched:
            patched.setattr(StateTable, "append", crash)
            run_dbt(["run", "--select", "hours", "--full-refresh"], expect_pass=False)
        assert not self.rows(project, "hours")
        self.add(project, spark, folder, 7, 8)
        # The micro-batch that was planned, with six hours of both, and then those that the limits make.
        assert self.run() == (3, 480)
        self.run(*FLUSH)
        assert self.rows(project, "hours") == self.rows(project, "hours_in_batch")

    @pytest.mark.thorough
    def test_a_table_that_came_after_dbt_had_looked(
        self, project: Any, spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By another run: it is gone on with, and not begun anew."""
        self.add(project, spark, folder, 9)
        self.run()
        monkeypatch.setattr(SparkStreamingAdapter, "list_relations_without_caching", lambda *_: [])
        assert self.run() == (0, 0)
        self.add(project, spark, folder, 10)
        assert self.run()[1] == 60
