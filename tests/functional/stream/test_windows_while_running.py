"""A stream that follows its sources says which windows are open, after each of its micro-batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.query.windows.emission import Emission
from dbt.adapters.spark_streaming.stream.progress import open_windows as progress
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream
from tests.planned import plan_of

from .harness import Stream

WINDOW = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "2 seconds"))
QUERY = f"select window_end, count(*) as n from {WINDOW} group by window_start, window_end"


def test_open_windows_are_noted_while_it_follows(spark: Any, tmp_path: Path) -> None:
    plan = plan_of(QUERY, {"events": RelationInfo("ts")})
    program = replace(
        generate.generate_program(plan),
        open_windows=tuple(
            each.window_steps(Emission()).open_windows_query() for each in plan.dataflow.window_operators
        ),
    )
    stream = Stream(spark, tmp_path, program, "window_end timestamp, n bigint")

    def noted() -> tuple[Any, ...]:
        told: Any = read_progress(stream.model) or {}
        windows = progress.from_json(told.get("windows"))
        return (None, None) if windows is None else (windows.windows, windows.closes_at)

    def becomes(windows: tuple[Any, ...], running: RunningStream) -> None:
        for _ in range(60):
            running.wait(1)
            if noted() == windows:
                return
        raise AssertionError(noted())

    stream.add((500, "a", 1))
    with RunningStream(spark, stream.model, program) as running:
        running.wait()
        running.continue_with_trigger("300 milliseconds")
        becomes((1, 2_000_000), running)
        stream.add((1000, "a", 1), (7000, "a", 1))
        becomes((1, 8_000_000), running)
        stream.add((6500, "a", 1))
        becomes((1, 8_000_000), running)
    assert noted() == (1, 8_000_000)
