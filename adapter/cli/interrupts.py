"""Handles Ctrl-C and SIGTERM: the first signal ends streams in order, the second the process at once. SIGHUP is ignored."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

from ..util.log_lines import log_line

_T = TypeVar("_T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h"
_SENTENCE = b"Stopped at once. What wasn't committed yet is done by the next run.\n"

PATIENCE = 8.5
"""Maximum seconds from SIGTERM to the end of the process. Service managers kill it after ten or more."""


class Signals(list[int]):
    """The signals received so far."""

    exit_code = 0
    """Exit code of the process if it doesn't end within `PATIENCE`."""

    @property
    def is_urgent(self) -> bool:
        """Whether a service manager waits for the end of the process."""
        return signal.SIGTERM in self


@contextmanager
def recording_signals(patience: float = PATIENCE) -> Iterator[Signals]:
    """Records the first signal instead of raising `KeyboardInterrupt`; the second signal ends the process.

    After SIGTERM the process ends within `patience` seconds, whatever it is doing.
    """
    received = Signals()
    reader, writer = os.pipe()

    def record(number: int, _: object) -> None:
        received.append(number)
        _install_handler(_end_at_once)
        with suppress(OSError):
            os.write(writer, b"!" if number == signal.SIGTERM else b"?")

    before = _install_handler(record) | _install_handler(lambda *_: None, (signal.SIGHUP,))
    # Started early: a signal handler must not wait for a lock, and starting a thread takes one.
    threading.Thread(
        target=_end_after_sigterm, args=(reader, patience, received), name="guard", daemon=True
    ).start()
    try:
        yield received
    finally:
        # After a signal the guard stays active until the process ends.
        if not received:
            for each, handler in before.items():
                if handler is not None:  # not set by Python otherwise
                    signal.signal(each, handler)
            with suppress(OSError):
                os.write(writer, b".")


def _end_after_sigterm(reader: int, patience: float, signals: Signals) -> None:
    """Ends the process `patience` seconds after SIGTERM. The next run does what isn't committed by then."""
    select.select([reader], [], [])
    if os.read(reader, 1) == b"!":
        time.sleep(patience)
        end_now(signals.exit_code)


def run_unless_stopped(work: Callable[[], _T], signals: Signals, as_json: bool, is_quiet: bool) -> _T:
    """Runs the work before a start in a thread, and returns its result. A signal meanwhile ends the process.

    Args:
        as_json, is_quiet: as in `end_before_start`.
    """
    with ThreadPoolExecutor(1) as executor:
        done = executor.submit(work)
        while not done.done():
            if signals:
                end_before_start(as_json, is_quiet)
            wait([done], 0.05)
    return done.result()


def end_before_start(as_json: bool, is_quiet: bool) -> NoReturn:
    """Ends a process that was asked to stop while it was still starting.

    Args:
        as_json: whether its lines are JSON.
        is_quiet: whether only problems are printed.
    """
    if not is_quiet:
        # The terminal may be gone.
        with suppress(OSError, ValueError):
            print(log_line("stopped: before any model was up.", as_json), flush=True)
    end_now(0)


def end_now(code: int) -> NoReturn:
    """Ends the process at once, after flushing its output. Spark ends with it."""
    # Each in a thread with a timeout: another thread may hold a lock that it needs.
    for action in (sys.stdout.flush, sys.stderr.flush, _delete_semaphores):
        done = threading.Thread(target=_run_ignoring_errors, args=(action,), daemon=True)
        done.start()
        done.join(0.3)
    os._exit(code)


def _delete_semaphores() -> None:
    """Deletes dbt's semaphores, because Python would warn on the terminal that they leak."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        util._run_finalizers(0)


def _run_ignoring_errors(action: Callable[[], object]) -> None:
    with suppress(Exception):
        action()


@contextmanager
def exiting_without_trace() -> Iterator[None]:
    """Exits without a stack trace on `KeyboardInterrupt`."""
    try:
        yield
    except KeyboardInterrupt:
        _install_handler(_end_at_once)  # a second Ctrl-C ends the process while Spark shuts down
        sys.exit(128 + signal.SIGINT)


def _end_at_once(number: int, _: object) -> NoReturn:
    """Ends the process at once. That is safe at any time: a micro-batch is committed entirely or not at all, and Spark ends
    with the process that started it."""
    os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + _SENTENCE)
    os._exit(128 + number)


def _install_handler(
    handler: Callable[[int, Any], object], signals: Sequence[signal.Signals] = _SIGNALS
) -> dict[signal.Signals, Any]:
    """Installs a handler of signals and returns the previous handlers."""
    try:
        return {each: signal.signal(each, handler) for each in signals}
    except ValueError:  # outside the main thread, which gets no signals
        return {}
