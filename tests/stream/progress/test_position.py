"""What commits carry, watermarks, and progress."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.progress.position import Growth, Position, read_position
from dbt.adapters.spark_streaming.stream.progress.report import (
    Figures,
    lag_seconds,
    read_progress,
    report,
    write_progress,
)
from dbt.adapters.spark_streaming.stream.progress.watermark import Watermark
from dbt.adapters.spark_streaming.stream.storage.checkpoint import Checkpoint, read_checkpoint

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
    growth={"slices": Growth(folded=7, rows=3, commits=2, loose=1)},
)


def test_a_position_survives_its_way_through_a_summary() -> None:
    assert read_position(POSITION.properties()) == POSITION


def test_a_position_without_watermarks_does_too() -> None:
    fresh = Position("curves", "q1", batch=0)
    assert read_position(fresh.properties()) == fresh


def test_others_snapshots_have_no_position() -> None:
    assert read_position({"operation": "replace", "added-records": "3"}) is None


def test_times_in_a_summary_can_be_read_by_people() -> None:
    properties = POSITION.properties()
    assert properties["stream.watermark-before"] == "1969-12-31T23:59:59.999999Z"
    assert json.loads(properties["stream.newest"]) == {
        "clicks": "2026-03-01T00:00:00.000001Z",
        "orders": None,
    }


def test_the_watermark_never_goes_back() -> None:
    mark = Watermark(delay=10, newest={"clicks": None}).advance({"clicks": 100})
    assert mark.value == 90
    assert mark.advance({"clicks": 50}).value == 90
    assert mark.advance({"clicks": None}).value == 90


def test_a_stream_without_rows_holds_the_watermark() -> None:
    mark = Watermark(delay=0, newest={"clicks": None, "orders": None}).advance({"clicks": 100})
    assert mark.value is None
    assert mark.advance({"orders": 70}).value == 70
    assert mark.advance({"orders": 170}).value == 100


def test_closing_the_windows_puts_the_watermark_ahead_of_the_streams() -> None:
    mark = Watermark(delay=0, newest={"clicks": 100}, value=500)
    assert mark.advance({"clicks": 200}).value == 500
    assert mark.advance({"clicks": 501}).value == 501


def test_a_checkpoint_is_read_as_spark_leaves_it(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    folder = tmp_path / "checkpoint"
    assert read_checkpoint(storage, str(folder)) is None
    for log, names in {"offsets": ["0", "9", "10", ".10.crc", "11.tmp"], "commits": ["0", "9"]}.items():
        (folder / log).mkdir(parents=True)
        for name in names:
            (folder / log / name).touch()
    (folder / "metadata").write_text('{"id":"q1"}')
    assert read_checkpoint(storage, str(folder)) == Checkpoint("q1", planned=10, done=9)


def test_what_a_checkpoint_lacks_is_seen(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), lambda: None)

    def found(**files: str) -> Checkpoint | None:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, text in files.items():
            file = folder / name.replace("_", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return read_checkpoint(storage, str(folder))

    def missing(**files: str) -> tuple[str, ...]:
        checkpoint = found(metadata='{"id":"q1"}', **files)
        assert checkpoint is not None
        return checkpoint.missing

    of_folder = 'v1\n{}\n{"logOffset":7}\n{"snapshot_id":3}\n-'
    assert missing() == ()
    assert missing(offsets_0="v1\n{}\n-") == ()
    assert (
        missing(offsets_3="", commits_3="")
        == missing(offsets_4="", commits_3="")
        == missing(offsets_4="")
        == ()
    )
    assert missing(commits_3="") == missing(offsets_2="", commits_3="") == ("offsets/3",)
    assert missing(offsets_3=of_folder) == ("sources/0/7",)
    assert missing(offsets_3=of_folder, sources_0_6="") == ("sources/0/7",)
    assert (
        missing(offsets_3=of_folder, sources_0_7="")
        == missing(offsets_3=of_folder, **{"sources_0_9.compact": ""})
        == ()
    )
    assert found(offsets_3="") == Checkpoint("", planned=3, done=None, missing=("metadata",))
    assert found() is None


def test_steps_have_numbers_that_grow() -> None:
    steps = [
        Position("m", "q", batch, flush)
        for batch, flush in ((-1, 0), (0, 0), (0, 1), (1, 0), (57, 0), (57, 2))
    ]
    assert [step.number for step in steps] == [-1000, 0, 1, 1000, 57000, 57002]
    assert all(later.is_after(earlier) for earlier, later in itertools.pairwise(steps))
    assert not replace(steps[5], query_id="other").is_after(steps[0])


def test_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    model = StreamModel("curves", "db.curves", "db.state", Storage(str(tmp_path), lambda: None), ())
    assert read_progress(model) is None
    figures = Figures(rows_in=10, late_rows=1, rows_out=4, commits=2, jobs=7, seconds={"read": 0.12345})
    progress = report(POSITION, figures, {"rows": 3, "bytes": 100, "files": 2}, now=1_772_323_260.0)
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


def test_a_file_is_found_in_its_source_whichever_way_it_is_written() -> None:
    source = StreamSource("events", "/data/events", "parquet")
    assert source.holds("file:///data/events/a.parquet")
    assert source.holds("/data/events/day=1/a.parquet")
    assert not source.holds("/data/events2/a.parquet")
