"""Limits how often a running stream repeats a check that takes time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_PAUSE, _SHARE = 60.0, 50


class Periodic:
    """Schedules a check: it is due again a minute after it began, or 50 times its duration if that is longer.

    >>> check = Periodic()
    >>> check.is_due
    True
    >>> with check.running():
    ...     pass
    >>> check.is_due
    False
    """

    def __init__(self) -> None:
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measures the duration of a check, in a `with` block around it."""
        began = time.monotonic()
        yield
        self._due = began + max(_PAUSE, _SHARE * (time.monotonic() - began))
