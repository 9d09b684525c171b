"""Named points between two writes, where a test has a stream fail or its process die.

Nothing happens at a point unless one is armed: by `arm`, or by the environment of a process that a test
starts: ``DBT_SPARK_STREAMING_FAIL_POINT="kill-both state.append:after 3 orders"`` kills Python and its JVM
when the model ``orders`` has appended to its state for the third time.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENVIRONMENT = "DBT_SPARK_STREAMING_FAIL_POINT"
"""``ACTION POINT [NTH [MODEL]]``: what to do when a point is reached for the n-th time, by any model or by one."""

Handler = Callable[[str, str], None]
"""Is called with a point and the model that reached it, in whatever thread."""


class FailPointError(Exception):
    """A point that is armed to fail was reached."""


def reached(point: str, model: str) -> None:
    """Say that a model is at a point.

    Args:
        point: its name.
        model: the model's.
    """
    if _handler is not None:
        _handler(point, model)


@contextmanager
def around(step: str, model: str) -> Iterator[None]:
    """Say that a model is at the points ``step:before`` and, if nothing is raised, ``step:after``."""
    reached(f"{step}:before", model)
    yield
    reached(f"{step}:after", model)


def arm(handler: Handler | None) -> None:
    """Have a function called at each point; None: no longer."""
    global _handler
    _handler = handler


def parse(text: str) -> Handler:
    """What `ENVIRONMENT` says, as a handler.

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
    """End this process by a signal that can't be caught. Its JVM notices, and ends a moment later."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_jvm(where: str = "") -> None:
    """End this process's JVM in the same way."""
    os.kill(_jvm(), signal.SIGKILL)


def kill_both(where: str = "") -> None:
    """End both in the same way, the JVM first: it can't finish anything."""
    kill_jvm()
    kill_python()


def _jvm() -> int:
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
