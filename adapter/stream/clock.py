"""Instants as the clocks of a time zone show them; all in microseconds since 1970.

A clock that is put back shows some times twice, one that is put forward leaves some out.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import overload
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_STEP = 3 * 3600 * 1_000_000
"""No clock was ever put back so far."""


@overload
def shown(micros: int, zone: str | None) -> int: ...
@overload
def shown(micros: int | None, zone: str | None) -> int | None: ...
def shown(micros: int | None, zone: str | None) -> int | None:
    """The earliest time that a clock shows from an instant on: where a watermark is on that clock.

    It is earlier than what the clock shows while the clock is about to be put back.

    >>> berlin = shown(0, "Europe/Berlin")
    >>> berlin // 3_600_000_000
    1
    """
    if micros is None or zone is None:
        return micros
    clock = ZoneInfo(zone)
    now, later = _offset(micros, clock), _offset(micros + _LONGEST_STEP, clock)
    if later >= now:
        return micros + now
    low, high = micros, micros + _LONGEST_STEP  # the clock is put back in (low, high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(middle, clock) == now else (low, middle)
    return min(micros + now, high + later)


def instant(micros: int, zone: str | None) -> int:
    """The last instant at which a clock shows a time; after it, the clock has passed it for good."""
    if zone is None:
        return micros
    wall = _EPOCH + micros * _MICROSECOND
    clock = ZoneInfo(zone)
    return max(micros - _micros(wall.replace(tzinfo=clock, fold=fold).utcoffset()) for fold in (0, 1))


def _offset(micros: int, clock: ZoneInfo) -> int:
    moment = (_EPOCH + micros * _MICROSECOND).replace(tzinfo=timezone.utc)
    return _micros(moment.astimezone(clock).utcoffset())


def _micros(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // _MICROSECOND
