"""``dbt-stream status``: the last progress of each model, read from small files, without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ..project import stream_node
from ..service.health import FAILED, NEVER_RAN, RESTARTING, WAITING, read_health
from ..stream.common.errors import StreamError
from ..stream.common.model import StreamModel
from ..stream.iceberg import owner
from ..stream.progress import open_windows
from ..stream.progress.report import lag_seconds, read_progress
from ..stream.progress.unreadable_rows import describe_progress
from ..stream.progress.watermark import from_text
from ..util.text import counted
from .project import DbtProject, Selection
from .terminal import terminal, text_table


def collect_status(project: DbtProject, selection: Selection) -> list[dict[str, Any]]:
    """Returns the health and the last progress of each selected model; progress is None for one that has not run."""
    found = []
    manifest = project.parsed_manifest()
    nodes, names = project.streaming_models(selection, manifest), project.names_by_id(manifest)
    environment = project.environment()
    for node in nodes:
        model = stream_node.model_without_configs(node, environment)
        note, is_foreign = _owner_problem(model)
        progress, health = (None, None) if is_foreign else (read_progress(model), read_health(model))
        if progress is not None:
            progress["lag_seconds"] = lag_seconds(progress)
        found.append(
            {
                "model": names[node["unique_id"]],
                "table": node["relation_name"],
                **({**NEVER_RAN, "note": note} if health is None else health.as_json()),
                "progress": progress,
            }
        )
    return found


def _owner_problem(model: StreamModel) -> tuple[str | None, bool]:
    """Returns a sentence on the owner of a model's files, or None, and whether they belong to another table."""
    try:
        return (found := owner.other_catalog_problem(model)), found is not None
    except StreamError as problem:
        return problem.msg, False


def print_status(found: Sequence[dict[str, Any]], selection: Selection) -> None:
    """Prints the progress of the selected models on the terminal."""
    if not found:
        click.echo(selection.refusal)
        return
    console = terminal()
    console.print(status_table(found, console.width))
    for entry in found:
        for line in _remarks(entry):
            console.print(f"{entry['model']}: {line}", soft_wrap=True, markup=False, highlight=False)


def _remarks(entry: Mapping[str, Any]) -> list[str]:
    """Returns the sentences on a model below the table: its error, its note, its open windows, its unreadable rows."""
    lines = []
    if entry["last_error"] and entry["state"] in (FAILED, RESTARTING, WAITING):
        lines.append(str(entry["last_error"]))
    if entry["note"]:
        lines.append(str(entry["note"]))
    progress = entry["progress"]
    if (
        progress is not None
        and (windows := open_windows.from_json(progress.get("windows")))
        and windows.windows
    ):
        lines.append(f"{windows.summary_text().partition(',')[0]}. {windows.advice(entry['model'])}")
    if progress is not None and (unreadable := describe_progress(progress, "total")):
        lines.append(f"{unreadable}, since its stream began")
    return lines


_NUMBERS = ("batches", "rows in", "rows/s", "dropped", "rows out")
_COLUMNS = ("model", "status", *_NUMBERS, "watermark", "state", "state reads", "last batch", "lookups")
_IF_ANY = ("rows/s", "state reads", "lookups")
"""Columns that are shown only if a model has a value for them."""
_LESS = ("state reads", "last batch", "batches", "state", "dropped", "lookups", "rows/s")
"""Columns to drop if the terminal is too narrow, in this order."""


def status_table(found: Sequence[Mapping[str, Any]], width: int) -> Table:
    """Returns the progress of models as a table.

    Args:
        found: the result of `collect_status`; entries of running models may have ``rows_per_second``.
    """
    rows = [_status_row(entry) for entry in found]
    columns = [name for name in _COLUMNS if name not in _IF_ANY or any(row.get(name) for row in rows)]

    def needed_width(name: str) -> int:
        return 3 + max(len(line) for row in rows for line in [name, *row.get(name, "").splitlines()])

    for name in _LESS:
        if name in columns and 2 + sum(map(needed_width, columns)) > width:
            columns.remove(name)
    table = Table(box=SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, no_wrap=True, justify="right" if name in _NUMBERS else "left")
    for row in rows:
        colour = _COLOURS.get(row.get("status", "").partition("\n")[0])
        table.add_row(
            *(Text(row.get(name, ""), style=(colour or "") if name == "status" else "") for name in columns)
        )
    return table


def _status_row(entry: Mapping[str, Any]) -> dict[str, str]:
    """Returns the cells of a model's row, by column. `entry`: the model's entry in the result of `collect_status`."""
    progress = entry["progress"]
    status = _status_cell(entry)
    if progress is None:
        return {"model": entry["model"], "status": status, "watermark": "has not run"}
    total, last, state = progress["total"], progress["last"], progress["state"] or {}
    dropped = [
        f"{total[key]:,} {what}"
        for key, what in (("late_rows", "late"), ("null_time_rows", "no time"))
        if total[key]
    ]
    watermark = [str(progress["watermark"] or "none yet").partition(".")[0].replace("T", " ")]
    if (lag := lag_seconds(progress)) is not None:
        watermark.append(f"lag {_duration_text(lag)}" if lag >= 0 else f"{_duration_text(-lag)} ahead")
    watermark += [f"not waiting for {stream}" for stream in progress.get("idle_streams", ())]
    rate = ""
    if "rows_per_second" in entry:
        per_second = entry["rows_per_second"]
        rate = "…" if per_second is None else f"{per_second:,.0f}"
    lookups = (progress.get("lookups") or {}).get("total")
    requests = (
        f"{counted(lookups['requests'], 'request')}\n{counted(lookups['keys'], 'key')}" if lookups else ""
    )
    return {
        "model": entry["model"],
        "status": status,
        "batches": f"{progress['batch'] + 1:,}",
        "rows in": f"{total['rows_in']:,}",
        "rows/s": rate,
        "dropped": "\n".join(dropped) or "0",
        "rows out": f"{total['rows_out']:,}",
        "watermark": "\n".join(watermark),
        "state": f"{counted(state['rows'], 'row')}\n{bytes_text(state['bytes'])}" if state else "none",
        "state reads": _state_reads_cell(state.get("parts") or ()),
        "last batch": f"{counted(last['rows_in'], 'row')}\n{sum(last['seconds'].values()):.1f} s",
        "lookups": requests,
    }


_COLOURS = {"running": "green", "catching_up": "cyan", FAILED: "red", RESTARTING: "yellow"}


def _status_cell(entry: Mapping[str, Any]) -> str:
    """Returns the state of a model, since when, and how often it was restarted."""
    state = entry.get("state")
    if state is None:
        return ""
    lines = [str(state)]
    if since := from_text(entry.get("since")):
        lines.append(f"for {_duration_text(max(0.0, time.time() - since / 1e6))}")
    if entry.get("restarts"):
        lines.append(counted(entry["restarts"], "restart"))
    return "\n".join(lines)


def _state_reads_cell(parts: Sequence[Mapping[str, Any]]) -> str:
    """Returns the rows that the last micro-batch read from the state, and its hits and misses."""
    last = [part["last"] for part in parts]
    rows, lookups, hits = (sum(each[name] for each in last) for name in ("rows_read", "lookups", "hits"))
    lines = [counted(rows, "row")] if last else []
    hit = f"{counted(hits, 'hit')}, {counted(lookups - hits, 'miss', 'misses')}"
    return "\n".join([*lines, *([hit] if lookups else [])])


def print_state_activity(found: Sequence[Mapping[str, Any]]) -> None:
    """Prints what the last micro-batch of each model did with each part of its state."""
    console = terminal()
    for entry in found:
        parts = ((entry["progress"] or {}).get("state") or {}).get("parts") or ()
        if parts:
            console.print(state_table(entry["model"], parts))


def state_table(model: str, parts: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a table of the parts of a model's state: operator, size, and the reads and writes of the last micro-batch."""

    def rows_and_bytes_text(what: str, last: Mapping[str, Any]) -> str:
        rows, size = last[f"rows_{what}"], last[f"bytes_{what}"]
        return f"{rows:,}\n{bytes_text(size)}" if rows or size else "0"

    def state_row(part: Mapping[str, Any]) -> tuple[str, ...]:
        last = part["last"]
        size = (
            f"{part['rows']:,}\n{bytes_text(part['bytes'])}, {counted(part['files'], 'file')}"
            if part["part"]
            else ""
        )
        return (
            part["operator"] or "",
            (part.get("holds") or "") if part["part"] else "several operators at once",
            size,
            rows_and_bytes_text("read", last),
            *((f"{last['hits']:,}", f"{last['misses']:,}") if last["lookups"] else ("", "")),
            rows_and_bytes_text("written", last),
            rows_and_bytes_text("deleted", last),
        )

    numbers = ("rows", "read", "hits", "misses", "written", "deleted")
    return text_table(("operator", "holds", *numbers), map(state_row, parts), model, numbers)


def _duration_text(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


def bytes_text(value: float) -> str:
    """Returns a size in bytes with a decimal unit.

    >>> bytes_text(512), bytes_text(12_345_678)
    ('512 B', '12 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
