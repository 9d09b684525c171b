"""Reads lengths of time as Flink writes them: INTERVAL literals, and the texts of options."""

from __future__ import annotations

import re

from sqlglot import exp

from ..query.sql import intervals
from ..query.sql.dialect import DIALECT
from .errors import Untranslatable

_UNITS = {
    "d": "days",
    "day": "days",
    "h": "hours",
    "hour": "hours",
    "min": "minutes",
    "m": "minutes",
    "minute": "minutes",
    "s": "seconds",
    "sec": "seconds",
    "second": "seconds",
    "ms": "milliseconds",
    "milli": "milliseconds",
    "millisecond": "milliseconds",
    "week": "weeks",
}
_PARTS = ("days", "hours", "minutes", "seconds")


def interval_text(node: exp.Expr) -> str:
    """Returns an interval literal as macros and configs write it.

    >>> [interval_text(exp.maybe_parse(f"interval {each}")) for each in ("'10' minute", "'1:30' hour to minute")]
    ['10 minutes', '1 hour 30 minutes']
    """
    sign, inner = 1, node.unnest()
    if isinstance(inner, exp.Neg):
        sign, inner = -1, inner.this.unnest()
    unit = inner.args.get("unit") if isinstance(inner, exp.Interval) else None
    if unit is None or not isinstance(inner.this, exp.Literal):
        raise Untranslatable(
            f"'{node.sql(dialect=DIALECT)}' is no fixed interval such as INTERVAL '10' MINUTE.", node
        )
    if isinstance(unit, exp.IntervalSpan):
        first = _UNITS.get(unit.this.name.lower().rstrip("s"), "")
        numbers = re.split(r"[ :]", inner.name.strip())
        names = _PARTS[_PARTS.index(first) :] if first in _PARTS else ()
        text = " ".join(f"{number} {name}" for number, name in zip(numbers, names, strict=False))
    else:
        text = f"{inner.name} {_UNITS.get(unit.name.lower().rstrip('s'), '')}"
    return _format_interval(text, sign, node)


def duration_text(text: str) -> str:
    """Returns a duration of an option as configs write it.

    >>> duration_text("1 d"), duration_text("36h"), duration_text("500 ms")
    ('1 day', '1 day 12 hours', '500 milliseconds')

    Raises:
        Untranslatable: the text isn't a duration.
    """
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = found and _UNITS.get(found[2].rstrip("s") if len(found[2]) > 2 else found[2] or "ms")
    if not found or not unit:
        raise Untranslatable(f"'{text}' is no duration such as '1 d'.")
    return _format_interval(f"{found[1]} {unit}", 1, None)


def _format_interval(text: str, sign: int, node: exp.Expr | None) -> str:
    found = re.fullmatch(r"(\d+)\.(\d+) seconds", text)
    try:
        micros = (
            int(found[1]) * intervals.SECOND + int(found[2].ljust(6, "0")[:6])
            if found
            else intervals.parse(re.sub(r"\b0+(?=\d)", "", text))
        )
    except Exception as problem:
        raise Untranslatable(
            f"{'The interval' if node is None else node.sql(dialect=DIALECT)} has no fixed length, which windows and "
            "watermarks need; write it in days, hours or less.",
            node,
        ) from problem
    return intervals.format(sign * micros)
