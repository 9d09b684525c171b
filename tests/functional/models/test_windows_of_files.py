"""Ranges of windows over what has no snapshots: a folder of files, and a view."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.models.commands import Commands

SOURCES = """
sources:
  - name: raw
    tables:
      - name: ev
        config:
          event_time: ts
          meta:
            stream: {format: json, path: data/ev, schema: {ts: timestamp, k: string}}
"""
QUERY = """
select window_start, window_end, k, count(*) as n from {{ tumble(RELATION, 'ts', '1 hour') }}
group by window_start, window_end, k"""
OF_FILES, OF_VIEW = (QUERY.replace("RELATION", each) for each in ("source('raw', 'ev')", "ref('viewed')"))
OVERWRITE = "{{ config(materialized='incremental', incremental_strategy='window_overwrite') }}"
DAY = ["--event-time-start", "2024-03-04", "--event-time-end", "2024-03-05"]


@pytest.mark.thorough
class TestWindowsOfFiles(Commands):
    group = "backfill"

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "viewed.sql": "{{ config(materialized='view', event_time='ts') }} select * from {{ source('raw', 'ev') }}",
            "of_files.sql": OVERWRITE + OF_FILES,
            "of_view.sql": OVERWRITE + OF_VIEW,
            "streamed.sql": "{{ config(materialized='window_aggregate') }}" + OF_FILES,
            "expected.sql": "{{ config(materialized='view') }}" + OF_FILES,
        }

    def write(self, project: Any, name: str, *times: str) -> Path:
        folder = Path(project.project_root) / "data" / "ev"
        folder.mkdir(parents=True, exist_ok=True)
        rows = [json.dumps({"ts": f"2024-03-04 {time}:00", "k": "a"}) for time in times]
        (folder / name).write_text("\n".join(rows))
        return folder / name

    def rows(self, project: Any, name: str, until: str = "23") -> list[tuple[Any, ...]]:
        found = project.run_sql(
            f"select * from {{schema}}.{name} where window_end <= timestamp'2024-03-04 {until}:00:00'",
            fetch="all",
        )
        return sorted(map(tuple, found))

    def test_the_first_window_is_like_any_other(self, project: Any) -> None:
        self.write(project, "a.json", "00:10", "00:40")
        run_dbt(["run"])
        self.write(project, "b.json", "00:20", "01:10", "02:10")
        run_dbt(["run"])
        for name in ("of_files", "of_view"):
            assert self.rows(project, name) == self.rows(project, "expected")
        self.write(project, "c.json", "00:30")
        run_dbt(["run", "--select", "of_files", "of_view", *DAY])
        run_dbt(["run", "--select", "streamed"])
        for name in ("of_files", "of_view"):
            assert self.rows(project, name) == self.rows(project, "expected")
        assert self.rows(project, "streamed", "02") != self.rows(
            project, "expected", "02"
        )  # a row came too late
        self.done(project, "streamed", "--start", "2024-03-04", "--end", "2024-03-05")
        assert self.rows(project, "streamed", "02") == self.rows(project, "expected", "02")
        # What goes from a folder, nothing but the table knows of.
        for name in ("a.json", "c.json"):
            (Path(project.project_root) / "data" / "ev" / name).unlink()
        self.write(project, "b.json", "01:40", "02:10")
        for select in ("of_files", "of_view"):
            results = run_dbt(
                ["run", "--select", select, "--event-time-start", "2024-03-04 01:00:00", *DAY[2:]],
                expect_pass=False,
            )
            assert (
                "has no row before 2024-03-04 01:40:00, and may have lost rows" in results.results[0].message
            )
