"""Conversions between instants and local times of a time zone, all in microseconds since 1970.

A clock that is set back shows some local times twice; a clock that is set forward skips some.
"""

from __future__ import annotations

from typing import overload

from ...query.sql.instants import offset, offset_of_clock

_LONGEST_STEP = 3 * 3600 * 1_000_000
"""Microseconds: longer than any clock was ever set back."""


@overload
def latest_local_time(micros: int, zone: str | None) -> int: ...
@overload
def latest_local_time(micros: int | None, zone: str | None) -> int | None: ...
def latest_local_time(micros: int | None, zone: str | None) -> int | None:
    """Returns the local time of a watermark: the latest local time that no later instant shows again.

    Shortly before the clock is set back, this is the last local time before those that repeat.

    >>> berlin = latest_local_time(0, "Europe/Berlin")
    >>> berlin // 3_600_000_000
    1
    """
    if micros is None or zone is None:
        return micros
    now, later = offset(micros, zone), offset(micros + _LONGEST_STEP, zone)
    if later >= now:
        return micros + now
    low, high = micros, micros + _LONGEST_STEP  # the clock is set back in (low, high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle, zone) == now else (low, middle)
    return min(micros + now, high + later - 1)


def instant_of_local_time(micros: int, zone: str | None) -> int:
    """Returns the last instant at which a local time is shown."""
    if zone is None:
        return micros
    return max(micros - offset_of_clock(micros, zone, fold) for fold in (0, 1))
