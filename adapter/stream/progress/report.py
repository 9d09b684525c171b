"""Writes the metrics of a model's last micro-batch to a small file that can be read without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ..common.failpoints import around
from ..common.model import StreamModel
from .open_windows import OpenWindowSummary
from .position import Position
from .unreadable_rows import as_json, from_json
from .watermark import from_text, to_text

_ROWS = ("rows_in", "late_rows", "null_time_rows", "rows_out")


@dataclass
class BatchMetrics:
    """Counts and times of one micro-batch, collected while it runs."""

    rows_in: int = 0
    late_rows: int = 0
    null_time_rows: int = 0
    unreadable: dict[str, dict[str, int]] = field(default_factory=dict)
    """Rows with values that couldn't be read, by source and column."""
    rows_out: int = 0
    lookup_requests: int = 0
    """Requests to external tables, including failed ones."""
    lookup_keys: int = 0
    """Keys in these requests."""
    lookup_cached: int = 0
    """Keys found in the cache."""
    commits: int = 0
    jobs: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: ``read`` (reading the input), ``lookup`` (external tables), ``state`` (computing rows of state),
    ``commit_state``, ``emission`` (computing and committing results), ``fold`` (merging state), ``maintenance`` (expiring
    snapshots, compacting files)."""
    _within: float = field(default=0.0, repr=False, compare=False)
    """Seconds of nested phases that ended within the current one."""

    def add_unreadable_values(self, source: str, columns: Mapping[str, int]) -> None:
        """Notes the numbers of unreadable rows of a source. A source that is read several times has the same rows each time,
        so the maximum counts."""
        so_far = self.unreadable.get(source, {})
        self.unreadable[source] = {
            column: max(columns.get(column, 0), so_far.get(column, 0)) for column in {**so_far, **columns}
        }

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds the time of a block to a phase, without the time of nested phases."""
        began, around, self._within = time.monotonic(), self._within, 0.0
        try:
            yield
        finally:
            took = time.monotonic() - began
            self.seconds[phase] = self.seconds.get(phase, 0.0) + took - self._within
            self._within = around + took


def progress_report(
    position: Position, metrics: BatchMetrics, state: Mapping[str, object] | None, now: float | None = None
) -> dict[str, object]:
    """Returns the metrics of a micro-batch as a JSON object, which ``dbt-stream status`` shows.

    Args:
        position: the position after the micro-batch, whose counts are totals since the stream began.
        state: rows, bytes and files of the state and of each state table. None if there is no state.
    """
    now = time.time() if now is None else now
    total, last = (
        {"requests": each.lookup_requests, "keys": each.lookup_keys} for each in (position, metrics)
    )
    lookups = {"total": total, "last": {**last, "cached": metrics.lookup_cached}}
    return {
        "model": position.model,
        "query_id": position.query_id,
        "batch": position.batch,
        "flush": position.flush,
        "time": to_text(int(now * 1e6)),
        "watermark": to_text(position.after),
        "idle_streams": list(position.idle),
        "total": {name: getattr(position, name) for name in _ROWS},
        "last": {
            **{name: getattr(metrics, name) for name in _ROWS},
            "commits": metrics.commits,
            "jobs": metrics.jobs,
            "seconds": {phase: round(taken, 3) for phase, taken in metrics.seconds.items()},
        },
        "unreadable": {"total": as_json(position.unreadable), "last": as_json(metrics.unreadable)}
        if position.unreadable
        else None,
        "lookups": lookups if position.lookup_requests else None,
        "state": None if state is None else dict(state),
    }


def with_counts_of_progress(model: StreamModel, position: Position) -> Position:
    """Completes the position of a table, which is committed before its rows are counted, with the counts in the progress
    file of the same epoch."""
    progress: Any = read_progress(model) or {}
    step = (progress.get("query_id"), progress.get("batch"), progress.get("flush"))
    if step != (position.query_id, position.batch, position.flush):
        return position
    after = from_text(progress["watermark"])
    unreadable = from_json((progress.get("unreadable") or {}).get("total", {}))
    return replace(position, rows_in=progress["total"]["rows_in"], unreadable=unreadable, after=after)


_latest: dict[str, Mapping[str, object]] = {}
"""The last progress that this process has written, by file."""
_stepped: set[str] = set()
"""Progress files that report an epoch of this process."""


def write_progress(
    model: StreamModel, progress: Mapping[str, object], is_of_earlier_process: bool = False
) -> None:
    """Replaces a model's progress file atomically. `is_of_earlier_process`: whether another process ran the last
    epoch."""
    _latest[model.progress] = progress
    if not is_of_earlier_process:
        _stepped.add(model.progress)
    with around("progress.write", model.name):
        model.storage.write_text(model.progress, json.dumps(progress, indent=1))


def write_open_windows(model: StreamModel, windows: OpenWindowSummary) -> None:
    """Adds the open windows to the progress file of a model, if it has one."""
    progress = _latest.get(model.progress) or read_progress(model)
    if progress is not None:
        noted = {**progress, "windows": windows.as_json()}
        write_progress(model, noted, is_of_earlier_process=model.progress not in _stepped)


def last_noted_windows(model: StreamModel, position: Position) -> Mapping[str, object]:
    """Returns the open windows that this process noted last, as an entry of the progress. Returns {} once the first of these
    windows has closed, because the entry is outdated then."""
    noted: Any = _latest.get(model.progress) or {}
    windows, closes_at = noted.get("windows"), from_text((noted.get("windows") or {}).get("closes_at"))
    is_over = closes_at is None or (position.after is not None and closes_at <= position.after)
    return {} if is_over or noted["query_id"] != position.query_id else {"windows": windows}


def read_progress(model: StreamModel) -> dict[str, object] | None:
    """Returns the content of the progress file, or None if the model never ran or the file can't be read. No row depends on
    the file."""
    text = model.storage.read_text(model.progress)
    try:
        return None if text is None else dict(json.loads(text))
    except (TypeError, ValueError):
        return None


def last_written_progress(model: StreamModel) -> Mapping[str, object] | None:
    """Returns the last progress that this process has written; None if it wrote none. An earlier process may have run the
    epoch."""
    return _latest.get(model.progress)


def progress_of_this_process(model: StreamModel) -> Mapping[str, object] | None:
    """Returns the progress after the last epoch that this process ran, or None if it ran none."""
    return _latest[model.progress] if model.progress in _stepped else None


def lag_seconds(progress: Mapping[str, object], now: float | None = None) -> float | None:
    """Returns how many seconds the watermark is behind the current time, or None without a watermark."""
    watermark = from_text(str(progress["watermark"]) if progress["watermark"] else None)
    return None if watermark is None else round((time.time() if now is None else now) - watermark / 1e6, 3)
