"""``dbt-stream status``: the last progress of each model, read from small files, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .. import stream_node
from ..stream.progress import read_progress
from .project import Project, Selection, project_errors


def collect(project: Project, selection: Selection) -> list[dict[str, Any]]:
    """The last progress of each selected model; without figures for one that has not run."""
    found = []
    nodes = project.streaming_models(selection)
    environment = project.environment()
    for node in nodes:
        with project_errors():
            described = stream_node.model(node, environment)
        found.append(
            {"model": node["name"], "table": node["relation_name"], "progress": read_progress(described)}
        )
    return found


def print_table(found: Sequence[dict[str, Any]], selection: Selection) -> None:
    """Shows the progress of the models that are selected on the terminal."""
    if not found:
        click.echo(_none(selection))
        return
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width to fit in
        console = Console(width=200)
    console.print(table_of(found, console.width))


def _none(selection: Selection) -> str:
    """That there is nothing to show, and why."""
    asked = [
        f"{option} {' '.join(words)}"
        for option, words in (("--select", selection.select), ("--exclude", selection.exclude))
        if words
    ]
    if not asked:
        return "The project has no streaming models."
    return f"No streaming model is selected by {' '.join(asked)}; `dbt-stream status` lists those there are."


_NUMBERS = ("batches", "rows in", "rows/s", "dropped", "rows out")
_LESS = ("state reads", "last batch", "batches", "state", "dropped", "lookups", "rows/s")
"""What is left out first where there is no room."""


def table_of(found: Sequence[Mapping[str, Any]], width: int) -> Table:
    """The progress of models as a table.

    Args:
        found: as `collect` gives it; of models that are running also ``rows_per_second``, and in a word what
            ``became`` of those that have ended.
        width: columns of the terminal.
    """
    rows = [_row(entry) for entry in found]
    columns = [
        name
        for name in ("model", *_NUMBERS, "watermark", "state", "state reads", "last batch", "lookups")
        if name not in ("rows/s", "state reads", "lookups") or any(row.get(name) for row in rows)
    ]

    def needed(name: str) -> int:
        return 3 + max(len(line) for row in rows for line in [name, *row.get(name, "").splitlines()])

    for name in _LESS:
        if name in columns and 2 + sum(map(needed, columns)) > width:
            columns.remove(name)
    table = Table(box=SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, no_wrap=True, justify="right" if name in _NUMBERS else "left")
    for row in rows:
        table.add_row(*(row.get(name, "") for name in columns))
    return table


def _row(entry: Mapping[str, Any]) -> dict[str, str]:
    """The cells of a model, by column."""
    progress, end = entry["progress"], entry.get("became")
    if progress is None:
        return {"model": entry["model"], "watermark": end or "has not run"}
    total, last, state = progress["total"], progress["last"], progress["state"] or {}
    dropped = [
        f"{total[key]:,} {what}"
        for key, what in (("late_rows", "late"), ("null_time_rows", "no time"))
        if total[key]
    ]
    watermark = str(progress["watermark"] or "none yet").partition(".")[0].replace("T", " ")
    behind = _seconds(progress["lag_seconds"])
    watermark = "\n".join([watermark, *([behind] if behind else [])])
    for stream in progress.get("idle_streams", ()):
        watermark += f"\nnot waiting for {stream}"
    return {
        "model": f"{entry['model']}\n{end}" if end else entry["model"],
        "batches": f"{progress['batch'] + 1:,}",
        "rows in": f"{total['rows_in']:,}",
        "rows/s": _rate(entry["rows_per_second"]) if "rows_per_second" in entry else "",
        "dropped": "\n".join(dropped) or "0",
        "rows out": f"{total['rows_out']:,}",
        "watermark": watermark,
        "state": f"{state['rows']:,} rows\n{bytes_text(state['bytes'])}" if state else "none",
        "state reads": _state_reads(state.get("parts") or ()),
        "last batch": f"{last['rows_in']:,} rows\n{sum(last['seconds'].values()):.1f} s",
        "lookups": _lookups(progress.get("lookups")),
    }


def _state_reads(parts: Sequence[Mapping[str, Any]]) -> str:
    """What the last step read of the state, and how its lookups went."""
    last = [part["last"] for part in parts]
    rows, lookups, hits = (sum(each[name] for each in last) for name in ("rows_read", "lookups", "hits"))
    lines = [f"{rows:,} rows"] if last else []
    return "\n".join([*lines, *([f"{hits:,} hits, {lookups - hits:,} misses"] if lookups else [])])


def print_state(found: Sequence[Mapping[str, Any]]) -> None:
    """Shows what the last step of each model did with each part of its state."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    for entry in found:
        parts = ((entry["progress"] or {}).get("state") or {}).get("parts") or ()
        if parts:
            console.print(state_table(entry["model"], parts))


def state_table(model: str, parts: Sequence[Mapping[str, Any]]) -> Table:
    """The parts of a model's state as a table: by operator, what they are and what the last step did with them."""

    def done(what: str, last: Mapping[str, Any]) -> str:
        rows, size = last[f"rows_{what}"], last[f"bytes_{what}"]
        return f"{rows:,}\n{bytes_text(size)}" if rows or size else "0"

    table = Table(title=model, title_justify="left", box=SIMPLE_HEAD)
    for name in ("operator", "part", "rows", "read", "hits", "misses", "written", "deleted"):
        table.add_column(name, justify="left" if name in ("operator", "part") else "right")
    for part in parts:
        last = part["last"]
        size = (
            f"{part['rows']:,}\n{bytes_text(part['bytes'])}, {part['files']:,} files" if part["part"] else ""
        )
        table.add_row(
            part["operator"] or "",
            part["part"] or "several at once",
            size,
            done("read", last),
            *((f"{last['hits']:,}", f"{last['misses']:,}") if last["lookups"] else ("", "")),
            done("written", last),
            done("deleted", last),
        )
    return table


def _rate(rows_per_second: float | None) -> str:
    return "…" if rows_per_second is None else f"{rows_per_second:,.0f}"


def _lookups(lookups: dict[str, Any] | None) -> str:
    if not lookups:
        return ""
    total = lookups["total"]
    return f"{total['requests']:,} requests\n{total['keys']:,} keys"


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    long, when = abs(value), "ago" if value >= 0 else "ahead"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if long >= size:
            return f"{long / size:,.1f} {unit} {when}"
    return f"{long:.1f} s {when}"


def bytes_text(value: float) -> str:
    """A size as people read it."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
