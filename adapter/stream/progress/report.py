"""What a model's last micro-batch did, in a small file that can be read without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ..common.failpoints import around
from ..common.model import StreamModel
from .position import Position
from .unreadable_rows import as_json, from_json
from .watermark import from_text, to_text


@dataclass
class Figures:
    """Counts and times of one step, filled while it is carried out."""

    rows_in: int = 0
    late_rows: int = 0
    null_time_rows: int = 0
    unreadable: dict[str, dict[str, int]] = field(default_factory=dict)
    """As `Position.unreadable`."""
    rows_out: int = 0
    lookup_requests: int = 0
    """To tables outside, those that failed included."""
    lookup_keys: int = 0
    """That these were asked for."""
    lookup_cached: int = 0
    """That needn't be asked for."""
    commits: int = 0
    jobs: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """By phase: ``read`` (rows into memory), ``lookup`` (tables outside), ``state`` (what they add to the
    state), ``commit_state``, ``emission`` (the rows of closed windows and their commit), ``fold``, ``maintenance``
    (snapshots expired, files compacted)."""
    _within: float = field(default=0.0, repr=False, compare=False)
    """Seconds of phases that ended within the present one."""

    def note_unreadable(self, source: str, columns: Mapping[str, int]) -> None:
        """Counts rows of a source. A query that reads it several times meets the same ones each time."""
        so_far = self.unreadable.get(source, {})
        self.unreadable[source] = {
            column: max(columns.get(column, 0), so_far.get(column, 0)) for column in {**so_far, **columns}
        }

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time of a block to a phase, less what is of others within it."""
        began, around, self._within = time.monotonic(), self._within, 0.0
        try:
            yield
        finally:
            took = time.monotonic() - began
            self.seconds[phase] = self.seconds.get(phase, 0.0) + took - self._within
            self._within = around + took


def report(
    position: Position, figures: Figures, state: Mapping[str, object] | None, now: float | None = None
) -> dict[str, object]:
    """The figures of a step as plain JSON; ``dbt-stream status`` shows them.

    Args:
        position: the step. Its counts are totals since the stream began.
        figures: those of the step alone.
        state: rows, bytes and files of the state table, and of each of its parts; None if there is none.
        now: seconds since 1970.
    """
    now = time.time() if now is None else now
    return {
        "model": position.model,
        "query_id": position.query_id,
        "batch": position.batch,
        "flush": position.flush,
        "time": to_text(int(now * 1e6)),
        "watermark": to_text(position.after),
        "idle_streams": list(position.idle),
        "total": {
            "rows_in": position.rows_in,
            "late_rows": position.late_rows,
            "null_time_rows": position.null_time_rows,
            "rows_out": position.rows_out,
        },
        "last": {
            "rows_in": figures.rows_in,
            "late_rows": figures.late_rows,
            "null_time_rows": figures.null_time_rows,
            "rows_out": figures.rows_out,
            "commits": figures.commits,
            "jobs": figures.jobs,
            "seconds": {phase: round(taken, 3) for phase, taken in figures.seconds.items()},
        },
        "unreadable": {"total": as_json(position.unreadable), "last": as_json(figures.unreadable)}
        if position.unreadable
        else None,
        "lookups": _lookups(position, figures) if position.lookup_requests else None,
        "state": None if state is None else dict(state),
    }


def _lookups(position: Position, figures: Figures) -> dict[str, object]:
    return {
        "total": {"requests": position.lookup_requests, "keys": position.lookup_keys},
        "last": {
            "requests": figures.lookup_requests,
            "keys": figures.lookup_keys,
            "cached": figures.lookup_cached,
        },
    }


def caught_up(model: StreamModel, position: Position) -> Position:
    """The last step with the totals that its table doesn't say, where it was written before its rows were counted."""
    told: Any = read_progress(model) or {}
    step = (told.get("query_id"), told.get("batch"), told.get("flush"))
    if step != (position.query_id, position.batch, position.flush):
        return position
    after = from_text(told["watermark"])
    unreadable = from_json((told.get("unreadable") or {}).get("total", {}))
    return replace(position, rows_in=told["total"]["rows_in"], unreadable=unreadable, after=after)


_latest: dict[str, Mapping[str, object]] = {}
"""What this process has written last, by file."""


def write_progress(model: StreamModel, progress: Mapping[str, object]) -> None:
    """Replaces the file: a reader sees the old figures or the new ones."""
    _latest[model.progress] = progress
    with around("progress.write", model.name):
        model.storage.write_text(model.progress, json.dumps(progress, indent=1))


def read_progress(model: StreamModel) -> dict[str, object] | None:
    """Returns the last figures, or None if the model never ran."""
    text = model.storage.read_text(model.progress)
    return None if text is None else dict(json.loads(text))


def latest_progress(model: StreamModel) -> Mapping[str, object] | None:
    """Returns the last figures of this process, from memory; None if it has taken in nothing."""
    return _latest.get(model.progress)


def lag_seconds(progress: Mapping[str, object], now: float | None = None) -> float | None:
    """Returns how far the watermark is behind the time of day, or None without a watermark.

    Args:
        progress: the last figures of a model.
        now: seconds since 1970.
    """
    watermark = from_text(str(progress["watermark"]) if progress["watermark"] else None)
    return None if watermark is None else round((time.time() if now is None else now) - watermark / 1e6, 3)
