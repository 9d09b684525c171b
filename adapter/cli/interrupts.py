"""Ctrl-C, or a service manager's SIGTERM: the first one ends streams in order, the next one at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h"
_SENTENCE = b"Stopped at once. What wasn't committed yet is done by the next run.\n"


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Notes the first signal instead of being interrupted by it; the second one ends the process."""
    found: list[int] = []

    def note(number: int, _: object) -> None:
        found.append(number)
        _handle(_end)

    before = _handle(note)
    try:
        yield found
    finally:
        for each, handler in before.items() if not found else ():
            signal.signal(each, handler)


@contextmanager
def without_trace() -> Iterator[None]:
    """Ends the command without a trace of Python's where it is interrupted elsewhere."""
    try:
        yield
    except KeyboardInterrupt:
        _handle(_end)  # also while Spark is stopped
        sys.exit(128 + signal.SIGINT)


def _end(number: int, _: object) -> NoReturn:
    """Ends the process where it stands. A micro-batch is in its table entirely or not at all, whenever that is, and
    Spark ends with the process that started it."""
    os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + _SENTENCE)
    os._exit(128 + number)


def _handle(handler: Callable[[int, Any], object]) -> dict[signal.Signals, Any]:
    """Has signals handled; by whom they were so far."""
    try:
        return {each: signal.signal(each, handler) for each in _SIGNALS}
    except ValueError:  # not in the main thread, where no signals come
        return {}
