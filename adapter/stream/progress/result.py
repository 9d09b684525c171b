"""The result of a run of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from . import unreadable_rows
from .open_windows import OpenWindowSummary
from .state_metrics import PartMetrics, added_up
from .unreadable_rows import Unreadable


@dataclass(frozen=True)
class StreamResult:
    """Counts of a run of a stream."""

    batches: int
    rows_in: int
    rows_out: int
    late_rows: int
    """Rows dropped because all their windows were closed."""
    null_time_rows: int
    """Rows dropped because their event time is NULL."""
    watermark: int | None
    """The watermark in microseconds since 1970 (UTC), or None if there is none yet."""
    lookup_requests: int = 0
    """Requests to external tables."""
    lookup_keys: int = 0
    """Keys in these requests."""
    stopped: bool = False
    """Whether it was stopped on request before it had read all input."""
    state: Sequence[PartMetrics] = ()
    unreadable: Unreadable = field(default_factory=dict)
    """Rows with values that couldn't be read."""
    windows: OpenWindowSummary | None = None
    """The windows that are open after the run; None if it has none, or they weren't looked up."""

    def followed_by(self, then: StreamResult) -> StreamResult:
        """Returns the combined result of this run and the model's next one."""
        return replace(
            then,
            batches=self.batches + then.batches,
            rows_in=self.rows_in + then.rows_in,
            rows_out=self.rows_out + then.rows_out,
            late_rows=self.late_rows + then.late_rows,
            null_time_rows=self.null_time_rows + then.null_time_rows,
            unreadable=unreadable_rows.added(self.unreadable, then.unreadable),
            lookup_requests=self.lookup_requests + then.lookup_requests,
            lookup_keys=self.lookup_keys + then.lookup_keys,
            stopped=self.stopped or then.stopped,
            state=added_up(self.state, then.state),
        )
