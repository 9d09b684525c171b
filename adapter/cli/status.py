"""``dbt-stream status``: the last progress of each model, read from small files, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .. import streaming
from ..query.errors import QueryError
from ..stream.progress import read_progress
from .project import Project, ProjectError


def collect(project: Project, select: Sequence[str]) -> list[dict[str, Any]]:
    """The last progress of each selected model; without figures for one that has not run."""
    found = []
    nodes = project.streaming_models(select)
    environment = project.environment()
    for node in nodes:
        try:
            described = streaming.model(node, environment)
        except QueryError as problem:
            raise ProjectError(str(problem)) from problem
        found.append(
            {"model": node["name"], "table": node["relation_name"], "progress": read_progress(described)}
        )
    return found


def print_table(found: Sequence[dict[str, Any]]) -> None:
    """Shows the progress of models on the terminal."""
    if not found:
        Console().print("The project has no streaming models.")
        return
    with_lookups = any((entry["progress"] or {}).get("lookups") for entry in found)
    table = Table(
        "model",
        "batches",
        "rows in",
        "dropped",
        "rows out",
        "watermark",
        "state",
        "last batch",
        *(["lookups"] if with_lookups else []),
        box=SIMPLE_HEAD,
    )
    for number, column in enumerate(table.columns):
        column.no_wrap = True
        column.justify = "right" if 1 <= number <= 4 else "left"
    for entry in found:
        progress = entry["progress"]
        if progress is None:
            table.add_row(entry["model"], "has not run", *[""] * (len(table.columns) - 2))
            continue
        total, last, state = progress["total"], progress["last"], progress["state"] or {}
        dropped = [
            f"{total[key]:,} {what}"
            for key, what in (("late_rows", "late"), ("null_time_rows", "no time"))
            if total[key]
        ]
        watermark = str(progress["watermark"] or "none yet").partition(".")[0].replace("T", " ")
        behind = _seconds(progress["lag_seconds"])
        watermark = "\n".join([watermark, *([f"{behind} ago"] if behind else [])])
        for stream in progress.get("idle_streams", ()):
            watermark += f"\nnot waiting for {stream}"
        table.add_row(
            entry["model"],
            f"{progress['batch'] + 1:,}",
            f"{total['rows_in']:,}",
            "\n".join(dropped) or "0",
            f"{total['rows_out']:,}",
            watermark,
            f"{state['rows']:,} rows\n{_bytes(state['bytes'])}" if state else "none",
            f"{last['rows_in']:,} rows\n{sum(last['seconds'].values()):.1f} s",
            *([_lookups(progress.get("lookups"))] if with_lookups else []),
        )
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width to fit in
        console = Console(width=200)
    console.print(table)


def _lookups(lookups: dict[str, Any] | None) -> str:
    if not lookups:
        return ""
    total = lookups["total"]
    return f"{total['requests']:,} requests\n{total['keys']:,} keys"


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.1f} s"


def _bytes(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
