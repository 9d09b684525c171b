"""Ctrl-C, or a service manager's SIGTERM: the first one ends streams in order, the next one at once. SIGHUP ends nothing."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h"
_SENTENCE = b"Stopped at once. What wasn't committed yet is done by the next run.\n"

PATIENCE = 8.5
"""Seconds from SIGTERM to the end of the process, whatever it is in. Service managers kill after ten or more."""


class Signals(list[int]):
    """The signals so far that ask the process to end."""

    exit_code = 0
    """What the process ends with where it has to be ended."""

    @property
    def is_urgent(self) -> bool:
        """Whether a service manager waits for the end."""
        return signal.SIGTERM in self


@contextmanager
def interrupts(patience: float = PATIENCE) -> Iterator[Signals]:
    """Notes the first signal instead of being interrupted by it; the second one ends the process.

    After SIGTERM the process ends within `patience` seconds, wherever it is then.
    """
    found = Signals()
    reader, writer = os.pipe()

    def note(number: int, _: object) -> None:
        found.append(number)
        _handle(_end)
        with suppress(OSError):
            os.write(writer, b"!" if number == signal.SIGTERM else b"?")

    before = _handle(note)
    hangup = _handle_hangup(lambda *_: None)
    # Made before it is needed: where a signal comes in, nothing may wait for a lock.
    threading.Thread(target=_guard, args=(reader, patience, found), name="guard", daemon=True).start()
    try:
        yield found
    finally:
        # After a signal the guard stays for all that is done before the process ends.
        if not found:
            for each, handler in before.items():
                signal.signal(each, handler)
            if hangup is not None:
                signal.signal(signal.SIGHUP, hangup)
            with suppress(OSError):
                os.write(writer, b".")


def _guard(reader: int, patience: float, signals: Signals) -> None:
    """Ends the process some time after SIGTERM. What isn't committed by then is left to the next run."""
    select.select([reader], [], [])
    if os.read(reader, 1) == b"!":
        time.sleep(patience)
        end_now(signals.exit_code)


def end_now(code: int) -> NoReturn:
    """Ends the process where it is, with what was printed. Spark ends with it."""
    # Not for as long as a thread holds on to what they need.
    for last in (sys.stdout.flush, sys.stderr.flush, _delete_semaphores):
        done = threading.Thread(target=_tried, args=(last,), daemon=True)
        done.start()
        done.join(0.3)
    os._exit(code)


def _delete_semaphores() -> None:
    """Deletes those that dbt has made, which Python would say of on the terminal."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        util._run_finalizers(0)


def _tried(last: Callable[[], object]) -> None:
    with suppress(Exception):
        last()


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


def _handle_hangup(handler: Callable[[int, Any], object]) -> Any:
    try:
        return signal.signal(signal.SIGHUP, handler)
    except ValueError:
        return None
