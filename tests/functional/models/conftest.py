"""A folder of events that the models of these tests stream from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.quick import few_rows

__all__ = ["events", "few_rows", "sources", "write_events"]


@pytest.fixture(scope="module", autouse=True)
def no_artifacts() -> Iterator[None]:
    """dbt writes a manifest of all macros there are with each command, a fifth of a small run; who reads it says so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_WRITE_JSON", "false")
        yield


def write_events(spark: Any, folder: Path, name: str, rows: str) -> None:
    """One more file of events: rows of (ts, page, device, amount) as SQL VALUES."""
    query = (
        f"select timestamp(ts) as ts, page, device, amount from values {rows} as t(ts, page, device, amount)"
    )
    spark.sql(query).coalesce(1).write.parquet(str(folder / name))


def sources(folder: Path) -> str:
    """A sources.yml with the folder's events, one file per micro-batch."""
    return f"""
sources:
  - name: raw
    tables:
      - name: events
        config:
          event_time: ts
          meta:
            stream:
              format: parquet
              options: {{path: "{folder}/*", maxFilesPerTrigger: 1}}
              schema: ts timestamp, page string, device string, amount int
"""


@pytest.fixture(scope="class")
def events(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pieces of a morning; the last is about an hour later."""
    folder = tmp_path_factory.mktemp("events")
    write_events(
        spark, folder, "a", "('2024-03-04 00:01:00', 'p1', 'd1', 1), ('2024-03-04 00:04:00', 'p2', 'd1', 2)"
    )
    write_events(spark, folder, "b", "('2024-03-04 00:12:00', 'p1', 'd2', 3), (null, 'p1', 'd9', 9)")
    write_events(
        spark, folder, "c", "('2024-03-04 01:05:00', 'p1', 'd1', 4), ('2024-03-04 00:02:00', 'p1', 'd3', 5)"
    )
    return folder
