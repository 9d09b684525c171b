"""Describes a model's open windows: how many there are, when the next one closes, and what closes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...util.text import counted, listed, verb_form
from .watermark import from_text, to_text


@dataclass(frozen=True)
class OpenWindowSummary:
    """Windows that have rows and have not fired on time yet. Times are in microseconds since 1970 (UTC).

    >>> some = OpenWindowSummary(2, closes_at=600_000_000, after_event=900_000_000)
    >>> some.summary_text()
    '2 windows open, the next closes at 1970-01-01 00:10:00'
    >>> first, _, then = some.advice("few").partition("; ")
    >>> first
    'The next one closes at 1970-01-01 00:10:00 (UTC), when a row of 1970-01-01 00:15:00 or later comes'
    >>> then
    '`dbt-stream flush few` closes all now.'
    """

    windows: int
    closes_at: int | None = None
    """The watermark at which the next window fires; None if no window is open."""
    after_event: int | None = None
    """The event time of a row that advances the watermark to `closes_at`."""
    waits_for: Sequence[str] = ()
    """Streams without a row so far, so that there is no watermark."""

    def summary_text(self) -> str:
        """Returns the number of windows and the next end as a phrase; empty if none is open."""
        if not self.windows:
            return ""
        return f"{counted(self.windows, 'window')} open, the next closes at {time_text(self.closes_at)}"

    def advice(self, model: str) -> str:
        """Returns a sentence on when the next window closes, and on the command that closes all windows now."""
        flush = f"`dbt-stream flush {model}` closes {verb_form(self.windows, 'it', 'all')} now"
        until = f"The next one closes at {time_text(self.closes_at)} (UTC)"
        if self.waits_for:
            return (
                f"{until}, and there is no watermark before rows of {listed(self.waits_for)} come; {flush}."
            )
        event = f"of {time_text(self.after_event)} or later"
        if self.after_event is not None and self.after_event % 1_000_000 == 1:
            event = f"after {time_text(self.after_event - 1)}"
        return f"{until}, when a row {event} comes; {flush}."

    def as_json(self) -> dict[str, object]:
        """Returns the summary as in `dbt-stream status --json`."""
        times = {"closes_at": to_text(self.closes_at), "after_event": to_text(self.after_event)}
        return {"open": self.windows, **times, "waits_for": list(self.waits_for)}


def from_json(found: Mapping[str, Any] | None) -> OpenWindowSummary | None:
    """Parses a result of `as_json`.

    >>> from_json(OpenWindowSummary(1, 60_000_000, 90_000_000).as_json())
    OpenWindowSummary(windows=1, closes_at=60000000, after_event=90000000, waits_for=())
    """
    if not found:
        return None
    closes_at, after_event = (from_text(found[name]) for name in ("closes_at", "after_event"))
    return OpenWindowSummary(found["open"], closes_at, after_event, tuple(found["waits_for"]))


def time_text(micros: int | None) -> str:
    """Returns a time in UTC, with fractions of a second where it has some.

    >>> time_text(600_000_000), time_text(1)
    ('1970-01-01 00:10:00', '1970-01-01 00:00:00.000001')
    """
    return str(to_text(micros)).replace("T", " ").removesuffix("Z").removesuffix(".000000")
