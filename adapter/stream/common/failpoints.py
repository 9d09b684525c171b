"""Named points between two writes at which a test makes a stream fail or kills its process.

Nothing happens at a point unless it is armed, by `arm` or by the environment of a process that a test starts:
``DBT_SPARK_STREAMING_FAIL_POINT="kill-both state.append:after 3 orders"`` kills Python and its JVM when the model
``orders`` has appended to its state for the third time.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENVIRONMENT = "DBT_SPARK_STREAMING_FAIL_POINT"
"""Environment variable ``ACTION POINT [NTH [MODEL]]``: the action when a model, or any model, reaches a point for the
n-th time."""

Handler = Callable[[str, str], None]
"""Function called with a point and the model that reached it, in the thread of the model."""


class FailPointError(Exception):
    """A model reached a point that is armed to raise."""


def reached(point: str, model: str) -> None:
    """Calls the armed handler, if any, with a point that a model has reached."""
    if _handler is not None:
        _handler(point, model)


@contextmanager
def around(step: str, model: str) -> Iterator[None]:
    """Reports that a model has reached ``step:before`` and, unless the block raises, ``step:after``."""
    reached(f"{step}:before", model)
    yield
    reached(f"{step}:after", model)


def arm(handler: Handler | None) -> None:
    """Sets the handler that is called at each point. None removes it."""
    global _handler
    _handler = handler


def parse(text: str) -> Handler:
    """Returns the handler for a value of `ENVIRONMENT`.

    >>> handler = parse("raise state.append:after 2 orders")
    >>> handler("state.append:after", "orders"), handler("state.append:after", "customers")
    (None, None)
    >>> handler("state.append:after", "orders")
    Traceback (most recent call last):
    ...
    dbt.adapters.spark_streaming.stream.common.failpoints.FailPointError: orders at state.append:after
    """
    action, point, *more = text.split()
    nth = int(more[0]) if more else 1
    wanted = more[1] if len(more) > 1 else None
    act, passed = _ACTIONS[action], itertools.count(1)

    def handler(at: str, model: str) -> None:
        if at == point and wanted in (None, model) and next(passed) == nth:
            act(f"{model} at {at}")

    return handler


def _raise(where: str) -> None:
    raise FailPointError(where)


def _exit(where: str) -> None:
    os._exit(1)


def kill_python(where: str = "") -> None:
    """Kills this process with SIGKILL, which can't be caught. Its JVM notices and ends a moment later."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_jvm(where: str = "") -> None:
    """Kills this process's JVM with SIGKILL."""
    os.kill(_jvm_process_id(), signal.SIGKILL)


def kill_both(where: str = "") -> None:
    """Kills the JVM, then this process, with SIGKILL: the JVM can't complete anything."""
    kill_jvm()
    kill_python()


def _jvm_process_id() -> int:
    from pyspark import SparkContext

    return int(SparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


_ACTIONS: dict[str, Callable[[str], None]] = {
    "raise": _raise,
    "exit": _exit,
    "kill-python": kill_python,
    "kill-jvm": kill_jvm,
    "kill-both": kill_both,
}

_handler: Handler | None = parse(os.environ[ENVIRONMENT]) if ENVIRONMENT in os.environ else None
