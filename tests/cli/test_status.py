"""What `dbt-stream status` says where it shows no model."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.cli.project import Selection
from dbt.adapters.spark_streaming.cli.status import print_status
from dbt.adapters.spark_streaming.service.health import NEVER_RAN
from dbt.adapters.spark_streaming.stream.progress.open_windows import OpenWindowSummary


def test_a_selection_that_matches_nothing_is_told_from_a_project_without_streams(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_status([], Selection(select=("nope", "tag:x"), exclude=("y",)))
    assert capsys.readouterr().out == (
        "No streaming model is selected by --select nope tag:x --exclude y; `dbt-stream status` lists those there are.\n"
    )
    print_status([], Selection())
    assert capsys.readouterr().out == "The project has no streaming models.\n"


def test_open_windows_are_said_below_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    windows = OpenWindowSummary(2, closes_at=600_000_000, after_event=900_000_000)
    result = {"rows_in": 3, "rows_out": 0, "late_rows": 0, "null_time_rows": 0}
    progress = {
        "batch": 0,
        "flush": 0,
        "watermark": "1970-01-01T00:05:00.000000Z",
        "total": result,
        "last": {**result, "seconds": {}},
        "state": None,
        "windows": windows.as_json(),
    }
    print_status([{"model": "few", **NEVER_RAN, "progress": progress}], Selection())
    assert (
        "few: 2 windows open. The next one closes at 1970-01-01 00:10:00 (UTC), when"
        in capsys.readouterr().out
    )
