"""SQL for the windows that close in a micro-batch: those with an end in (watermark before, after]."""

from __future__ import annotations

from .windows import Window

BEFORE = "unix_micros(clock.watermark_before)"
AFTER = "unix_micros(clock.watermark_after)"


def closing_windows(window: Window, relation: str, columns: str, clock: bool) -> str:
    """Rows of slices, once for each window with them that closes, with its end as ``end_micros``.

    `relation` has a column ``slice_end``; without a `clock` all windows close.
    """
    end = "unix_micros(slice_end)"
    if window.kind == "tumble":
        if not clock:
            return f"select {columns}, {end} as end_micros from {relation}"
        return (
            f"select {columns}, {end} as end_micros from {relation} cross join clock\n"
            f"where {closed('slice_end')}"
        )
    first, last = window.first_end(f"({end})"), window.last_end(f"({end})")
    if not clock:
        return f"select {columns}, explode(sequence({first}, {last}, {window.step})) as end_micros from {relation}"
    return exploded(window, relation, columns, first, last)


def exploded(window: Window, relation: str, columns: str, first: str, last: str) -> str:
    """`relation`, a row for each window end in [first, last] that closes now, as ``end_micros``."""
    # greatest() and least() pass over NULL: no watermark before means everything is new.
    return (
        f"select {columns}, explode(sequence(first_micros, last_micros, {window.step})) as end_micros\n"
        f"from (\n"
        f"  select *,\n"
        f"    greatest({first}, {window.end_after(BEFORE)}) as first_micros,\n"
        f"    least({last}, {window.end_until(AFTER)}) as last_micros\n"
        f"  from {relation} cross join clock\n"
        f")\n"
        f"where first_micros <= last_micros"
    )


def closed(column: str) -> str:
    """Whether an instant lies in (watermark before, watermark after]."""
    return (
        f"{column} <= clock.watermark_after "
        f"and (clock.watermark_before is null or {column} > clock.watermark_before)"
    )


def live() -> str:
    """Whether a row of state is still of use after the batch."""
    return "(clock.watermark_after is null or expires_at > clock.watermark_after)"
