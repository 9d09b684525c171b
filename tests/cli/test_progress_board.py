"""What `dbt-stream run` says of models while they run, and when one of them ends."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Any

from rich.console import Console

from dbt.adapters.spark_streaming.cli.progress_board import ProgressBoard
from dbt.adapters.spark_streaming.cli.status import status_table
from dbt.adapters.spark_streaming.stream.progress.position import Position
from dbt.adapters.spark_streaming.stream.progress.report import BatchMetrics, progress_report


def entry(
    batch: int | None = None, rows: int = 0, state: str = "running", is_new: bool = True
) -> dict[str, Any]:
    progress = None
    if batch is not None:
        position = Position("views", query_id="q", batch=batch, rows_in=rows)
        progress = progress_report(position, BatchMetrics(rows_in=rows, seconds={"read": 0.5}), None)
    since = "2026-01-01T00:00:00Z"
    return {
        "model": "views",
        "state": state,
        "since": since,
        "restarts": 0,
        "progress": progress,
        "is_new": is_new,
    }


def test_a_line_per_micro_batch_where_nobody_looks() -> None:
    written = io.StringIO()
    with ProgressBoard(Console(file=written, width=20)) as board:
        board.show_progress([entry()])
        board.show_progress([entry(0, 1)])
        board.show_progress([entry(0, 1)])
        board.show_progress([entry(1, 1200)])
        board.show_progress([entry(1, 1200, state="stopped")])
        board.say("views: stopped")
    first, second, end = written.getvalue().splitlines()
    assert first.endswith(" views: 1 row in, 0 out, 0.5 s, watermark none yet")
    assert second.endswith(" views: 1,200 rows in, 0 out, 0.5 s, watermark none yet")
    assert end == "views: stopped"


def test_lines_are_json_of_the_form_of_dbts_where_they_are_asked_for() -> None:
    written = io.StringIO()
    with ProgressBoard(Console(file=written, force_terminal=True, width=20), as_json=True) as board:
        board.show_progress([entry(1, 1200)])
        board.say("views: [red]stopped")
    first, end = map(json.loads, written.getvalue().splitlines())
    assert "1,200 rows in" in first["info"]["msg"]
    assert (end["info"]["msg"], end["info"]["level"]) == ("views: [red]stopped", "info")


_PRINTS = """
import sys
from dbt.adapters.spark_streaming.cli.progress_board import ProgressBoard
with ProgressBoard() as board:
    board.say("one")
    board.say("two")
print("went on", file=sys.stderr)
"""


def test_models_go_on_when_nobody_reads_what_is_printed() -> None:
    """Such as in `dbt-stream run | logger` when the logger ends."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", _PRINTS], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "went on\n")


def test_only_problems_are_printed_by_a_quiet_run() -> None:
    written = io.StringIO()
    with ProgressBoard(Console(file=written, force_terminal=True), is_quiet=True) as board:
        board.inform("1 model up")
        board.show_progress([entry(1, 1200)])
        board.say("views: failed.")
    assert written.getvalue() == "views: failed.\n"


def test_what_was_done_before_is_no_news() -> None:
    written = io.StringIO()
    with ProgressBoard(Console(file=written)) as board:
        board.show_progress([entry(7, 10, is_new=False)])
    assert written.getvalue() == ""


def test_a_table_follows_them_on_a_terminal() -> None:
    written = io.StringIO()
    with ProgressBoard(Console(file=written, force_terminal=True, width=150)) as board:
        board.say("views: failed. Model views: a source is gone.")
        board.show_progress([entry(0, 10, state="failed")])
    shown = written.getvalue()
    assert "rows/s" in shown
    assert "views: failed. Model views: a source is gone." in shown
    assert "failed" in shown.partition("rows/s")[2]


def test_the_line_above_the_table_is_of_the_service() -> None:
    written = io.StringIO()
    with ProgressBoard(Console(file=written, force_terminal=True, width=150)) as board:
        board.show_progress([entry(0, 10)], "up 0:00:42 · Ctrl-C stops")
        board.show_progress([entry(1, 12, state="stopped")], "stopped after 0:01:10")
    last = written.getvalue().rpartition("stopped after 0:01:10")[2]
    assert "up 0:00:42 · Ctrl-C stops" in written.getvalue()
    assert "12" in last and "stopped" in last


def test_a_terminal_that_is_gone_ends_nothing() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    board = ProgressBoard(Console(file=Gone(), width=80))
    board.say("views: stopped")
    board.show_progress([entry(0, 10)])


def test_in_a_narrow_terminal_the_last_columns_go_first() -> None:
    found = {**entry(0, 10), "model": "departures_since_midnight", "rows_per_second": 7.0}
    wide, narrow = (
        [str(column.header) for column in status_table([found], width).columns] for width in (200, 80)
    )
    assert wide == [
        "model",
        "status",
        "batches",
        "rows in",
        "rows/s",
        "dropped",
        "rows out",
        "watermark",
        "state",
        "last batch",
    ]
    assert narrow == ["model", "status", "rows in", "rows out", "watermark"]
