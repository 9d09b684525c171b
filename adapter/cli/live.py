"""What streams that keep going show: a table that follows them, or a line per micro-batch where nobody looks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.live import Live

from ..stream.model import StreamModel
from ..stream.progress import read_progress
from .status import table_of

_WINDOW = 10.0
"""Seconds over which rows per second are counted."""


class Board:
    """Follows models while they run. A context manager."""

    def __init__(self, models: Sequence[StreamModel], console: Console | None = None) -> None:
        self._models = models
        self._console = console or Console()
        self._seen: dict[str, Any] = {}
        self._rates = {model.name: Rate() for model in models}
        self._said: set[str] = set()
        self._live = (
            Live(console=self._console, auto_refresh=False, transient=False)
            if self._console.is_terminal
            else None
        )

    def __enter__(self) -> Board:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, became: Mapping[str, str | None]) -> None:
        """Show where the models are; `became`: what became of those that have ended."""
        found = []
        for model in self._models:
            progress = read_progress(model)
            end = became.get(model.name)
            rate = self._rates[model.name]
            if progress is not None:
                rate.add(time.monotonic(), progress["total"]["rows_in"])  # type: ignore[index]
            found.append(
                {
                    "model": model.name,
                    "progress": progress,
                    "rows_per_second": rate.per_second,
                    "became": end,
                }
            )
        for entry in found:
            self._say_end(entry)
        if self._live:
            self._live.update(
                table_of([_in_a_word(each) for each in found], self._console.width), refresh=True
            )
        else:
            for entry in found:
                self._say(entry)

    def _say(self, entry: Mapping[str, Any]) -> None:
        """A line for a new micro-batch."""
        name, progress = entry["model"], entry["progress"]
        step = None if progress is None else (progress["batch"], progress["flush"])
        # The first is of the run before.
        if self._seen.setdefault(name, step) != step and progress is not None:
            self._seen[name] = step
            last = progress["last"]
            self._print(
                f"{progress['time']} {name}: {last['rows_in']:,} rows in, {last['rows_out']:,} out, "
                f"{sum(last['seconds'].values()):.1f} s, watermark {progress['watermark'] or 'none yet'}"
            )

    def _say_end(self, entry: Mapping[str, Any]) -> None:
        name, end = entry["model"], entry["became"]
        if end is not None and name not in self._said:
            self._said.add(name)
            self._print(f"{name}: {end}")

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def _in_a_word(entry: Mapping[str, Any]) -> dict[str, Any]:
    failed = entry["became"] not in (None, "stopped")
    return {**entry, "became": "failed" if failed else entry["became"]}


class Rate:
    """How many rows come in a second, over the last moments.

    >>> rate = Rate()
    >>> for second, rows in ((0.0, 0), (5.0, 100), (10.0, 300)):
    ...     rate.add(second, rows)
    >>> rate.per_second
    30.0
    """

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def add(self, at: float, rows: int) -> None:
        """Rows in all, at a time in seconds."""
        self._points.append((at, rows))
        while len(self._points) > 2 and self._points[1][0] <= at - _WINDOW:
            self._points.popleft()

    @property
    def per_second(self) -> float | None:
        """None as long as there is nothing to compare with."""
        if len(self._points) < 2:
            return None
        (first, before), (last, after) = self._points[0], self._points[-1]
        return (after - before) / (last - first) if last > first else None
