"""SQL for the windows that close in a micro-batch: those with an end in (watermark before, after]."""

from __future__ import annotations

from collections.abc import Sequence

from .program import clock_column
from .windows import Window


def before(window: Window) -> str:
    """SQL for the watermark before the batch, on the clock that windows are cut on."""
    return f"clock.{clock_column('watermark_before', window.time_zone)}"


def after(window: Window) -> str:
    """The same for the watermark after it."""
    return f"clock.{clock_column('watermark_after', window.time_zone)}"


def closing_windows(window: Window, relation: str, columns: str, clock: bool) -> str:
    """Rows of slices, once for each window with them that closes, with its end as ``end_micros``.

    `relation` has a column ``slice_end``; without a `clock` all windows close.
    """
    end = "unix_micros(slice_end)"
    if window.kind == "tumble":
        rows = f"select {columns}, {end} as end_micros from {relation}"
        return f"{rows} cross join clock\nwhere {closed(window, 'slice_end')}" if clock else rows
    first, last = window.first_end(f"({end})"), window.last_end(f"({end})")
    return exploded(window, relation, [columns], first, last, clock, last)


def exploded(
    window: Window, relation: str, columns: Sequence[str], first: str, last: str, clock: bool, final: str
) -> str:
    """`relation`, a row for each window end in [first, last] that closes, as ``end_micros``.

    `final` is the last end of the longest window: put out though the clock never shows it.
    """
    ends = f"sequence({first}, {last}, {window.step})"
    shown = window.shown("each") if window.grows else None
    if clock:
        ends = f"sequence(first_micros, last_micros, {window.step})"
    if shown:
        ends = f"filter({ends}, each -> {shown} or each = {final})"
    rows = f"select {', '.join(columns)}, explode({ends}) as end_micros\nfrom "
    if not clock:
        return f"{rows}{relation}"
    # greatest() and least() pass over NULL: no watermark before means everything is new.
    return (
        f"{rows}(\n"
        f"  select *,\n"
        f"    greatest({first}, {window.end_after(f'unix_micros({before(window)})')}) as first_micros,\n"
        f"    least({last}, {window.end_until(f'unix_micros({after(window)})')}) as last_micros\n"
        f"  from {relation} cross join clock\n"
        f")\n"
        f"where first_micros <= last_micros"
    )


def closed(window: Window, column: str) -> str:
    """Whether a time lies in (watermark before, watermark after]."""
    return f"{column} <= {after(window)} and ({before(window)} is null or {column} > {before(window)})"


def live(window: Window, column: str = "expires_at") -> str:
    """Whether a row of state is still of use after the batch."""
    return f"({after(window)} is null or {column} > {after(window)})"


def window_columns(window: Window, start: str) -> list[str]:
    """Select items for the window columns of the user's query, from its start and ``end_micros``."""
    end = window.latest_instant("end_micros")
    return [
        f"{window.instant(start)} as window_start",
        f"{end} as window_end",
        f"{end} - interval 1 microsecond as window_time",
    ]
