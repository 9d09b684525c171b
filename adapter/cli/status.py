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
from .project import Project, ProjectError, Selection


def collect(project: Project, selection: Selection) -> list[dict[str, Any]]:
    """The last progress of each selected model; without figures for one that has not run."""
    found = []
    nodes = project.streaming_models(selection)
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
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width to fit in
        console = Console(width=200)
    console.print(table_of(found))


def table_of(found: Sequence[dict[str, Any]]) -> Table:
    """The progress of models as a table.

    Args:
        found: as `collect` gives it; of models that are running also ``rows_per_second``, and what ``became``
            of those that have ended.
    """
    running = any("rows_per_second" in entry for entry in found)
    with_lookups = any((entry["progress"] or {}).get("lookups") for entry in found)
    table = Table(
        "model",
        "batches",
        "rows in",
        *(["rows/s"] if running else []),
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
        column.justify = "right" if 1 <= number <= (5 if running else 4) else "left"
    for entry in found:
        progress = entry["progress"]
        if progress is None:
            end = entry.get("became") or "has not run"
            table.add_row(entry["model"], end, *[""] * (len(table.columns) - 2))
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
        rate = entry.get("rows_per_second")
        end = entry.get("became")
        table.add_row(
            f"{entry['model']}\n{end}" if end else entry["model"],
            f"{progress['batch'] + 1:,}",
            f"{total['rows_in']:,}",
            *(["" if rate is None else f"{rate:,.0f}"] if running else []),
            "\n".join(dropped) or "0",
            f"{total['rows_out']:,}",
            watermark,
            f"{state['rows']:,} rows\n{_bytes(state['bytes'])}" if state else "none",
            f"{last['rows_in']:,} rows\n{sum(last['seconds'].values()):.1f} s",
            *([_lookups(progress.get("lookups"))] if with_lookups else []),
        )
    return table


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
