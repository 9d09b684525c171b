"""What `dbt-stream run` says of models while they run, and when one of them ends."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dbt.adapters.spark_streaming.cli.live import Board
from dbt.adapters.spark_streaming.cli.run import Running
from dbt.adapters.spark_streaming.cli.status import table_of
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.errors import StreamError
from dbt.adapters.spark_streaming.stream.model import StreamModel
from dbt.adapters.spark_streaming.stream.position import Position
from dbt.adapters.spark_streaming.stream.progress import Figures, read_progress, report, write_progress


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("views", "shop.views", "shop.views__state", Storage(str(tmp_path), lambda: None), ())


def step(model: StreamModel, batch: int, rows: int) -> None:
    position = Position(model.name, query_id="q", batch=batch, rows_in=rows)
    write_progress(model, report(position, Figures(rows_in=rows, seconds={"read": 0.5}), None))


def test_a_line_per_micro_batch_where_nobody_looks(model: StreamModel) -> None:
    written = io.StringIO()
    with Board([model], Console(file=written, width=20)) as board:
        board.show({})
        step(model, 0, 10)
        board.show({})
        board.show({})
        step(model, 1, 1200)
        board.show({"views": None})
        board.show({"views": "stopped"})
        board.show({"views": "stopped"})
    first, second, end = written.getvalue().splitlines()
    assert first.endswith(" views: 10 rows in, 0 out, 0.5 s, watermark none yet")
    assert second.endswith(" views: 1,200 rows in, 0 out, 0.5 s, watermark none yet")
    assert end == "views: stopped"


def test_what_was_done_before_is_no_news(model: StreamModel) -> None:
    step(model, 7, 10)
    written = io.StringIO()
    with Board([model], Console(file=written)) as board:
        board.show({})
    assert written.getvalue() == ""


def test_a_table_follows_them_on_a_terminal(model: StreamModel) -> None:
    step(model, 0, 10)
    written = io.StringIO()
    with Board([model], Console(file=written, force_terminal=True, width=150)) as board:
        board.show({"views": "Model views: a source is gone."})
    shown = written.getvalue()
    assert "rows/s" in shown
    assert "views: Model views: a source is gone." in shown
    assert "failed" in shown


def test_in_a_narrow_terminal_the_last_columns_go_first(model: StreamModel) -> None:
    step(model, 0, 10)
    entry = {"model": "departures_since_midnight", "progress": read_progress(model), "rows_per_second": 7.0}
    wide, narrow = (
        [str(column.header) for column in table_of([entry], width).columns] for width in (200, 80)
    )
    assert wide == [
        "model",
        "batches",
        "rows in",
        "rows/s",
        "dropped",
        "rows out",
        "watermark",
        "state",
        "last batch",
    ]
    assert narrow == ["model", "rows in", "rows/s", "rows out", "watermark"]


class Stream:
    """A stream whose end is told beforehand."""

    def __init__(self, active: bool, asked: bool = False, problem: Exception | None = None) -> None:
        self.query, self.isActive = self, active
        self.is_asked_to_stop, self.problem, self.ended = asked, problem, 0

    def wait(self, seconds: float) -> None:
        if self.problem:
            raise self.problem

    def stop(self) -> None:
        self.ended += 1


@pytest.mark.parametrize(
    ("stream", "became", "ended"),
    [
        (Stream(active=True), None, 0),
        (Stream(active=True, asked=True), "stopped", 1),
        (Stream(active=False), "stopped", 1),
        (
            Stream(active=False, problem=StreamError("Model views: its disk is full.")),
            "Model views: its disk is full.",
            1,
        ),
    ],
)
def test_what_became_of_a_model(stream: Any, became: str | None, ended: int) -> None:
    running = Running("views", stream)
    running.look()
    assert (running.became, running.is_over, stream.ended) == (became, became is not None, ended)
