"""Shows the progress of running streams: a live table on a terminal, else a line per micro-batch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ..stream.progress.unreadable_rows import describe_progress
from ..util.log_lines import log_line
from ..util.text import counted
from .status import status_table

_WINDOW = 10.0
"""Seconds over which rows per second are averaged."""


class _LastingConsole(Console):
    """A console whose reader may go away, as the program that a pipe leads to may. Nothing is printed from then on."""

    def on_broken_pipe(self) -> None:
        """See `Console.on_broken_pipe`, which ends the process."""
        with suppress(SystemExit):
            super().on_broken_pipe()


class ProgressBoard:
    """Context manager that shows the progress of models while they run."""

    def __init__(self, console: Console | None = None, as_json: bool = False, is_quiet: bool = False) -> None:
        self._console, self._as_json, self._is_quiet = console or _LastingConsole(), as_json, is_quiet
        self._last_printed: dict[str, Any] = {}
        """The micro-batch that was printed last, by model."""
        self._rates: dict[str, Rate] = {}
        self._live = (
            Live(console=self._console, auto_refresh=False, transient=False)
            if self._console.is_terminal and not as_json and not is_quiet
            else None
        )

    def __enter__(self) -> ProgressBoard:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            # The terminal may be gone.
            with suppress(OSError, ValueError):
                self._live.stop()

    def show_progress(self, entries: Sequence[Mapping[str, Any]], header: str = "") -> None:
        """Shows the health and progress of models.

        Args:
            entries: an entry per model as `collect_status` returns it, with ``is_new``: whether its metrics are from this
                process.
        """
        if self._is_quiet:
            return
        now = time.monotonic()
        shown = []
        for entry in entries:
            rate = self._rates.setdefault(entry["model"], Rate())
            if entry["progress"] is not None:
                rate.add(now, entry["progress"]["total"]["rows_in"])
            shown.append({**entry, "rows_per_second": rate.per_second})
        if self._live:
            with suppress(OSError, ValueError):
                table = status_table(shown, self._console.width)
                self._live.update(Group(Text(header, style="dim"), table), refresh=True)
        else:
            for entry in shown:
                self._print_batch(entry)

    @property
    def is_live(self) -> bool:
        """Whether a table is shown, on a terminal."""
        return self._live is not None

    def inform(self, line: str) -> None:
        """Prints a line that ``--quiet`` suppresses: it isn't about a problem."""
        if not self._is_quiet:
            self.say(line)

    def say(self, line: str) -> None:
        """Prints a line, above the table if there is one."""
        with suppress(OSError, ValueError):
            self._console.print(log_line(line, self._as_json), soft_wrap=True, markup=False, highlight=False)

    def _print_batch(self, entry: Mapping[str, Any]) -> None:
        """Prints a line for a new micro-batch."""
        name, progress = entry["model"], entry["progress"]
        if progress is None or not entry["is_new"]:
            return
        batch = (progress["batch"], progress["flush"])
        if self._last_printed.get(name) == batch:
            return
        self._last_printed[name] = batch
        last = progress["last"]
        unreadable = describe_progress(progress, "last")
        self.inform(
            f"{progress['time']} {name}: {counted(last['rows_in'], 'row')} in, {last['rows_out']:,} out, "
            f"{sum(last['seconds'].values()):.1f} s, watermark {progress['watermark'] or 'none yet'}"
            + (f", {unreadable}" if unreadable else "")
        )


class Rate:
    """Rows per second over the last `_WINDOW` seconds.

    >>> rate = Rate()
    >>> for second, rows in ((0.0, 0), (5.0, 100), (10.0, 300)):
    ...     rate.add(second, rows)
    >>> rate.per_second
    30.0
    """

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def add(self, at: float, rows: int) -> None:
        """Adds a total number of rows, measured at a time in seconds."""
        self._points.append((at, rows))
        while len(self._points) > 2 and self._points[1][0] <= at - _WINDOW:
            self._points.popleft()

    @property
    def per_second(self) -> float | None:
        """None until two totals were added."""
        if len(self._points) < 2:
            return None
        (first, before), (last, after) = self._points[0], self._points[-1]
        return (after - before) / (last - first) if last > first else None
