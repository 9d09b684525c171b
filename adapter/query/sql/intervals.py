"""Converts between intervals as text ('10 minutes') and microseconds.

>>> parse("1 day 2 hours") == 26 * HOUR
True
>>> format(90 * MINUTE)
'1 hour 30 minutes'
"""

from __future__ import annotations

import re

from ..errors import QueryError

MILLISECOND = 1_000
SECOND = 1_000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
LONGEST = 3_652_059 * DAY
"""Length of the range of TIMESTAMP, the years 1 to 9999. Longer intervals are rejected."""

_UNITS = {
    "week": WEEK,
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": SECOND,
    "millisecond": MILLISECOND,
    "microsecond": 1,
}
_SHORT = {
    "w": "week",
    "d": "day",
    "h": "hour",
    "m": "minute",
    "min": "minute",
    "s": "second",
    "sec": "second",
}
_SHORT |= {"ms": "millisecond", "us": "microsecond"}
_PART = re.compile(r"\s*([+-]?\s*\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)


def parse(text: object, what: str = "interval") -> int:
    """Returns the microseconds of an interval such as ``'10 minutes'`` or ``'-1 day 2 hours'``.

    `what` names the argument in the message. A month or a year has no fixed length and is rejected (as for window
    sizes in Flink).

    >>> parse("-4 minutes")
    -240000000
    """
    source = str(text).strip()
    found = _micros_or_problem(source, what)
    if isinstance(found, str):
        raise QueryError(found)
    return found


def fixed_micros(text: str) -> int | None:
    """Returns the microseconds of an interval; None if it has no fixed length, or isn't an interval.

    >>> fixed_micros("1 month")
    """
    found = _micros_or_problem(text.strip())
    return None if isinstance(found, str) else found


def _micros_or_problem(source: str, what: str = "interval") -> int | str:
    """Returns the microseconds of an interval, or the message on a text that is none or has no fixed length."""
    body = re.sub(r"^interval\b", "", source, flags=re.IGNORECASE).replace("'", " ").strip()
    total, position = 0.0, 0
    while match := _PART.match(body, position):
        number = float(match[1].replace(" ", ""))
        unit = match[2].lower()
        unit = _SHORT.get(unit, unit[:-1] if unit.endswith("s") else unit)
        if unit in ("month", "quarter", "year"):
            return f"{what} '{source}': a {unit} has no fixed length; write days, hours or minutes."
        if unit not in _UNITS:
            break
        total += number * _UNITS[unit]
        position = match.end()
    if not body or body[position:].strip():
        return f"{what} '{source}' is not an interval; write for example '10 minutes' or '1 day'."
    if not abs(total) <= LONGEST:
        return (
            f"{what} '{source}' is longer than {LONGEST // DAY} days, from the year 1 to the year 9999; "
            "write a shorter one."
        )
    return round(total)


def format(micros: int) -> str:
    """Returns an interval as text, largest unit first. `parse` returns the same number."""
    if micros == 0:
        return "0 seconds"
    sign, rest, words = ("-" if micros < 0 else ""), abs(micros), []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count and unit != "week":
            words.append(f"{sign}{count} {unit}{'s' if count != 1 else ''}")
        elif count:  # days are easier to read than weeks and days
            rest += count * size
    return " ".join(words)
