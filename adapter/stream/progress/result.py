"""What a run of a stream did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from . import unreadable_rows
from .state_metrics import PartMetrics, added_up
from .unreadable_rows import Unreadable


@dataclass(frozen=True)
class StreamResult:
    """What a run did."""

    batches: int
    rows_in: int
    rows_out: int
    late_rows: int
    """Dropped, for all their windows were closed."""
    null_time_rows: int
    """Dropped, for they have no event time."""
    watermark: int | None
    """In microseconds since 1970 (UTC); None if there is none yet."""
    lookup_requests: int = 0
    """To tables outside."""
    lookup_keys: int = 0
    """That these were asked for."""
    stopped: bool = False
    """Whether it ended before its input did, for somebody asked for that."""
    state: Sequence[PartMetrics] = ()
    """The parts of its state, and what was done with them."""
    unreadable: Unreadable = field(default_factory=dict)
    """Rows with values that couldn't be read."""

    def followed_by(self, then: StreamResult) -> StreamResult:
        """Returns this run and the next one of the model as one."""
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
