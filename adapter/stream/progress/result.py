"""The result of a run of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import unreadable_rows
from .open_windows import OpenWindowSummary
from .state_metrics import PartMetrics, sum_of_runs
from .unreadable_rows import Unreadable

COUNTS = ("rows_in", "rows_out", "late_rows", "null_time_rows", "lookup_requests", "lookup_keys")
"""Names of the counts of a micro-batch that are added up."""


@dataclass(frozen=True)
class StreamResult:
    """Counts of a run of a stream."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    """Rows dropped because all their windows were closed."""
    null_time_rows: int = 0
    """Rows dropped because their event time is NULL."""
    watermark: int | None = None
    """The watermark in microseconds since 1970 (UTC), or None if there is none yet."""
    lookup_requests: int = 0
    """Requests to external tables."""
    lookup_keys: int = 0
    """Keys in these requests."""
    stopped: bool = False
    """Whether the run was stopped on request before it had read all input."""
    state: Sequence[PartMetrics] = ()
    unreadable: Unreadable = field(default_factory=dict)
    """Rows with values that couldn't be read."""
    windows: OpenWindowSummary | None = None
    """The windows that are open after the run; None if the model has no windows, or they weren't looked up."""

    def followed_by(self, then: StreamResult) -> StreamResult:
        """Returns the combined result of this run and the model's next one."""
        counts: dict[str, Any] = {
            name: getattr(self, name) + getattr(then, name) for name in ("batches", *COUNTS)
        }
        return replace(
            then,
            **counts,
            unreadable=unreadable_rows.sum_of_counts(self.unreadable, then.unreadable),
            stopped=self.stopped or then.stopped,
            state=sum_of_runs(self.state, then.state),
        )
