"""The watermark: the newest event time of the slowest stream, minus a delay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...query.sql import instants


@dataclass(frozen=True)
class Watermark:
    """A watermark over several streams. Times are in microseconds since 1970 (UTC).

    >>> w = Watermark(delay=5, newest={"clicks": None, "orders": None})
    >>> w.advance({"clicks": 100, "orders": None}).value is None  # orders holds it
    True
    >>> w.advance({"clicks": 100, "orders": None}).advance({"clicks": 90, "orders": 20}).value
    15
    """

    delay: int
    newest: Mapping[str, int | None]
    """The newest event time of each stream. None if it had no row yet."""
    value: int | None = None
    """The watermark, or None if there is none yet."""
    idle_timeout: int | None = None
    """Processing time without rows after which a stream is idle and doesn't hold back the watermark. None means never."""
    last_arrival: Mapping[str, int] = field(default_factory=dict)
    """Processing time at which each stream last had rows; for a stream without rows, when waiting for them began."""
    idle: tuple[str, ...] = ()

    def advance(self, seen: Mapping[str, int | None], now: int = 0) -> Watermark:
        """Returns the watermark after a micro-batch. It never decreases.

        Args:
            seen: the newest event time of each stream in the micro-batch. None or missing if it had no rows.

        >>> w = Watermark(0, {"clicks": None, "orders": None}, idle_timeout=60)
        >>> w = w.advance({"clicks": 100, "orders": 20}, now=0)
        >>> w.value, w.advance({"clicks": 200}, now=60).value, w.advance({"clicks": 200}, now=61).value
        (20, 20, 200)
        """
        newest = {stream: _latest(had, seen.get(stream)) for stream, had in self.newest.items()}
        last_arrival = {
            stream: now if seen.get(stream) is not None else self.last_arrival.get(stream, now)
            for stream in newest
        }
        limit = self.idle_timeout
        idle = tuple(
            stream for stream, when in last_arrival.items() if limit is not None and now - when > limit
        )
        awake = [time for stream, time in newest.items() if stream not in idle]
        reached = [time - self.delay for time in awake if time is not None]
        slowest = min(reached) if reached and len(reached) == len(awake) else None
        return replace(
            self, newest=newest, value=_latest(self.value, slowest), last_arrival=last_arrival, idle=idle
        )


def _latest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def to_text(micros: int | None) -> str | None:
    """Returns a time as ISO 8601 text in UTC, with microseconds.

    >>> to_text(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return None if micros is None else f"{instants.text(micros)}Z"


def from_text(text: str | None) -> int | None:
    """Parses a text that `to_text` wrote.

    >>> from_text(to_text(-7))
    -7
    """
    return instants.parse(text.removesuffix("Z")) if text else None
