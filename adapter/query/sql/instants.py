"""Converts instants (microseconds since 1970-01-01 00:00 UTC) to text and to local times.

Spark's timestamps go from the year -290308 to 294247, Python's from 1 to 9999. The calendar repeats every 400 years,
so an instant outside Python's range is computed from the corresponding day within it.

>>> text(253_402_300_800_000_000), text(-62_135_596_800_000_001)
('+10000-01-01T00:00:00.000000', '0000-12-31T23:59:59.999999')
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""First and last instant of the years 1 to 9999, the range of TIMESTAMP in the SQL standard."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_CYCLE = 146_097 * _DAY
"""400 years."""
_YEAR = re.compile(r"[+-]?\d{4,}(?=-)")


def text(micros: int, separator: str = "T") -> str:
    """Returns an instant in UTC as ISO 8601, exact to the microsecond."""
    cycles = 0 if EARLIEST <= micros <= LATEST else (micros - EARLIEST) // _CYCLE
    moment = (_EPOCH + (micros - cycles * _CYCLE) * _MICROSECOND).replace(tzinfo=None)
    year = moment.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{moment.isoformat(separator, 'microseconds')[4:]}"


def parse(written: str) -> int:
    """Returns the instant that `text` printed.

    >>> [parse(text(micros)) for micros in (-7, 2**63 - 1, -(2**63))]
    [-7, 9223372036854775807, -9223372036854775808]
    """
    found = _YEAR.match(written)
    if found is None:
        raise ValueError(f"{written!r} is not an instant")
    cycles, year = divmod(int(found[0]) - 1, 400)
    moment = datetime.fromisoformat(f"{year + 2001}{written[found.end() :]}").replace(tzinfo=timezone.utc)
    return (moment - _EPOCH) // _MICROSECOND + (cycles - 5) * _CYCLE


def offset(micros: int, zone: str) -> int:
    """Returns the microseconds by which a zone's local time is ahead of UTC at an instant. Outside the years 1 to 9999
    it is constant."""
    return _micros((_EPOCH + _clamp(micros) * _MICROSECOND).astimezone(ZoneInfo(zone)).utcoffset())


def offset_of_clock(micros: int, zone: str, fold: int) -> int:
    """Returns the offset when a zone's clock shows a local time, for the first time (fold 0) or again (fold 1)."""
    shown = (_EPOCH + _clamp(micros) * _MICROSECOND).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return _micros(shown.utcoffset())


def _clamp(micros: int) -> int:
    return min(max(micros, EARLIEST + _DAY), LATEST - _DAY)


def _micros(length: timedelta | None) -> int:
    assert length is not None
    return length // _MICROSECOND


def usable_time_condition(column: str) -> str:
    """SQL predicate: a time can be assigned to windows (not NULL, in the years 1 to 9999)."""
    return f"{column} between timestamp'{text(EARLIEST)}Z' and timestamp'{text(LATEST)}Z'"


def conversion_text(kind: str, column: str) -> str:
    """Returns a conversion of a column to TIMESTAMP, for messages. The unit of a number is unknown.

    >>> conversion_text("string", "at"), conversion_text("bigint", "at"), conversion_text("date", "at")
    ('to_timestamp(at)', 'timestamp_millis(at) (timestamp_seconds, timestamp_micros: by its unit)', 'cast(at as timestamp)')
    """
    if kind in ("bigint", "int"):
        return f"timestamp_millis({column}) (timestamp_seconds, timestamp_micros: by its unit)"
    return f"to_timestamp({column})" if kind == "string" else f"cast({column} as timestamp)"
