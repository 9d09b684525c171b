"""When a model that failed is started again: after growing, jittered pauses, until a limit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RestartPolicy:
    """How long to wait before a restart, and how often to restart."""

    first: float = 1.0
    """Seconds before the first restart."""
    factor: float = 2.0
    """By what each further pause is longer."""
    longest: float = 300.0
    """Seconds that a pause lasts at most, before its jitter."""
    jitter: float = 0.2
    """Share by which a pause is shorter or longer by chance, so that models don't all come back at once."""
    reset_after: float = 600.0
    """Seconds of running without a failure after which the count of restarts begins again."""
    max_restarts: int | None = None
    """Restarts in a row before a model is given up; None: no limit."""

    def pause(self, restarts: int, chance: Callable[[], float] = random.random) -> float | None:
        """Returns the seconds before the next restart, or None if there is to be none.

        Args:
            restarts: how many there were in a row.
            chance: gives a number from 0 to 1.

        >>> [RestartPolicy(jitter=0).pause(number) for number in (0, 1, 4, 40)]
        [1.0, 2.0, 16.0, 300.0]
        """
        if self.max_restarts is not None and restarts >= self.max_restarts:
            return None
        # The exponent is bounded, for a model may be restarted for years.
        plain = min(self.longest, self.first * self.factor ** min(restarts, 64))
        return plain * (1 + self.jitter * (2 * chance() - 1))

    def is_reset(self, seconds: float) -> bool:
        """Returns whether a model that ran so long without a failure counts as recovered."""
        return seconds >= self.reset_after
