"""Instants as the clocks of a time zone show them; all in microseconds since 1970.

A clock that is put back shows some times twice, one that is put forward leaves some out.
"""

from __future__ import annotations

from typing import overload

from ...query.sql.instants import offset, offset_of_clock

_LONGEST_STEP = 3 * 3600 * 1_000_000
"""No clock was ever put back so far."""


@overload
def shown(micros: int, zone: str | None) -> int: ...
@overload
def shown(micros: int | None, zone: str | None) -> int | None: ...
def shown(micros: int | None, zone: str | None) -> int | None:
    """The time that a clock has passed for good at an instant: where a watermark is on that clock.

    While the clock is about to be put back it is before all that will come again.

    >>> berlin = shown(0, "Europe/Berlin")
    >>> berlin // 3_600_000_000
    1
    """
    if micros is None or zone is None:
        return micros
    now, later = offset(micros, zone), offset(micros + _LONGEST_STEP, zone)
    if later >= now:
        return micros + now
    low, high = micros, micros + _LONGEST_STEP  # the clock is put back in (low, high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle, zone) == now else (low, middle)
    return min(micros + now, high + later - 1)


def instant(micros: int, zone: str | None) -> int:
    """The last instant at which a clock shows a time; after it, the clock has passed it for good."""
    if zone is None:
        return micros
    return max(micros - offset_of_clock(micros, zone, fold) for fold in (0, 1))
