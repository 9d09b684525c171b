"""Reads the open windows from a state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...query.program import OpenWindowQuery
from ..common.time_zones import instant_of_local_time, latest_local_time
from ..progress.open_windows import OpenWindowSummary
from ..progress.position import Position
from .micro_batch import RunContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOWEST = -(10**17)
"""Before any event time."""


def read_windows(spark: SparkSession, context: RunContext, position: Position) -> OpenWindowSummary | None:
    """Returns the open windows of a model; None if it has no windows. Registers the view ``state`` in the session."""
    program, state = context.program, context.state
    if not program.open_windows:
        return None
    if not state.exists:
        return OpenWindowSummary(0)
    windows, closes = 0, []
    for each in program.open_windows:
        now = None if position.after is None else position.after - each.complete
        watermark = latest_local_time(
            _LOWEST if now is None else now, None if now is None else each.time_zone
        )
        state.register_state_view(spark, [each.part])
        rows = spark.sql(each.sql, args={"watermark": watermark} if ":watermark" in each.sql else None)
        found, next_end = _count_open_windows(each, rows.collect(), watermark)
        if next_end is not None:
            windows += found
            closes.append(instant_of_local_time(next_end, each.time_zone) + each.complete)
    if not closes:
        return OpenWindowSummary(0)
    closes_at = min(closes)
    delay = context.model.watermark_delay + program.extra_delay
    waits_for = (
        [] if position.after is not None else [name for name, at in position.newest.items() if at is None]
    )
    return OpenWindowSummary(windows, closes_at, closes_at + delay, tuple(waits_for))


def _count_open_windows(
    query: OpenWindowQuery, rows: Iterable[tuple[int, int, int]], watermark: int
) -> tuple[int, int | None]:
    """Returns the number of windows that end after a watermark, and the earliest of their ends (None without windows).

    Args:
        watermark: the watermark, in the windows' time zone.

    >>> hops, steps = (OpenWindowQuery("", "", step=10, grows=each) for each in (False, True))
    >>> _count_open_windows(hops, [(10, 40, 0), (20, 50, 0)], 25), _count_open_windows(steps, [(10, 40, 0), (20, 40, 0)], 25)
    ((3, 30), (1, 30))
    >>> _count_open_windows(hops, [(10, 40, 0), (100, 130, 0)], 0), _count_open_windows(hops, [(10, 40, 0)], 40)
    ((8, 10), (0, None))
    >>> _count_open_windows(hops, [(30, 45, 2)], 25), _count_open_windows(hops, [(None, None, 0)], 25)
    ((2, 30), (0, None))
    """
    count, reached, ends = 0, None, []
    for first, last, sessions in sorted(row for row in rows if row[1] is not None and row[1] > watermark):
        if sessions:
            count += sessions
        else:
            first += max(0, (watermark - first) // query.step + 1) * query.step
            if query.grows:
                count += reached != last
                reached = last
            else:
                after = first if reached is None else max(first, reached + query.step)
                count += max(0, (last - after) // query.step + 1)
                reached = last if reached is None else max(reached, last)
        ends.append(first)
    return count, min(ends, default=None)
