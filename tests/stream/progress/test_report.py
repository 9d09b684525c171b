"""The progress file is read as it was written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.progress.open_windows import OpenWindowSummary
from dbt.adapters.spark_streaming.stream.progress.position import PartGrowth, Position
from dbt.adapters.spark_streaming.stream.progress.report import (
    BatchMetrics,
    lag_seconds,
    last_noted_windows,
    progress_of_this_process,
    progress_report,
    read_progress,
    write_open_windows,
    write_progress,
)

POSITION = Position(
    model="curves",
    query_id="q1",
    batch=12,
    flush=1,
    folded=True,
    before=-1,
    after=1_772_323_200_000_001,
    newest={"clicks": 1_772_323_200_000_001, "orders": None},
    rows_in=5,
    late_rows=4,
    null_time_rows=3,
    rows_out=2,
    signature="abc",
    growth={"slices": PartGrowth(folded=7, rows=3, commits=2, loose=1)},
)


def test_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    model = StreamModel("curves", "db.curves", "db.state", Storage(str(tmp_path), lambda: None), ())
    assert read_progress(model) is None
    for text in ("", "nonsense", "1", "[1]"):
        model.storage.write_text(model.progress, text)
        assert read_progress(model) is None, "nothing depends on it"
    metrics = BatchMetrics(rows_in=10, late_rows=1, rows_out=4, commits=2, jobs=7, seconds={"read": 0.12345})
    progress = progress_report(POSITION, metrics, {"rows": 3, "bytes": 100, "files": 2}, now=1_772_323_260.0)
    write_progress(model, progress)
    found = read_progress(model)
    assert found == progress
    assert lag_seconds(found, now=1_772_323_260.0) == 60.0
    assert found["last"] == {
        "rows_in": 10,
        "late_rows": 1,
        "null_time_rows": 0,
        "rows_out": 4,
        "commits": 2,
        "jobs": 7,
        "seconds": {"read": 0.123},
    }


def test_open_windows_are_kept_until_one_of_them_has_closed(tmp_path: Path) -> None:
    model = StreamModel("open", "db.open", "db.state", Storage(str(tmp_path), lambda: None), ())
    assert last_noted_windows(model, POSITION) == {}
    write_progress(model, progress_report(POSITION, BatchMetrics(), None))
    assert last_noted_windows(model, POSITION) == {}
    closes_at = 1_772_323_260_000_000
    windows = OpenWindowSummary(2, closes_at=closes_at, after_event=closes_at)
    write_open_windows(model, windows)
    later = replace(POSITION, batch=13, after=closes_at - 1)
    assert last_noted_windows(model, later) == {"windows": windows.as_json()}
    assert last_noted_windows(model, replace(later, after=closes_at)) == {}
    assert last_noted_windows(model, replace(later, query_id="another")) == {}
    write_open_windows(model, OpenWindowSummary(0))
    assert last_noted_windows(model, later) == {}


def test_what_an_earlier_process_did_is_not_this_ones_progress(tmp_path: Path) -> None:
    model = StreamModel("earlier", "db.earlier", "db.state", Storage(str(tmp_path), lambda: None), ())
    earlier = progress_report(POSITION, BatchMetrics(rows_in=5), None)
    model.storage.write_text(model.progress, json.dumps(earlier))
    write_open_windows(model, OpenWindowSummary(1))
    assert progress_of_this_process(model) is None
    write_progress(model, earlier, is_of_earlier_process=True)
    assert progress_of_this_process(model) is None
    own = progress_report(replace(POSITION, batch=13), BatchMetrics(rows_in=1), None)
    write_progress(model, own)
    write_open_windows(model, OpenWindowSummary(2))
    assert progress_of_this_process(model) == read_progress(model)
    assert progress_of_this_process(model) == {**own, "windows": OpenWindowSummary(2).as_json()}
