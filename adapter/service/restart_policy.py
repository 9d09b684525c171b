"""Decides when a failed model is restarted: exponential backoff with jitter, up to a limit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RestartPolicy:
    """Exponential backoff between restarts."""

    first: float = 1.0
    """Seconds before the first restart."""
    factor: float = 2.0
    """Ratio of each pause to the one before."""
    longest: float = 300.0
    """Maximum seconds of a pause, before jitter."""
    jitter: float = 0.2
    """Maximum random change of a pause, as a share of it, so that models don't all restart at once."""
    reset_after: float = 600.0
    """Seconds of running without a failure after which a model counts as recovered."""
    max_restarts: int | None = None
    """Restarts in a row after which a model fails for good. None means no limit."""

    def pause(self, restarts: int, chance: Callable[[], float] = random.random) -> float | None:
        """Returns the seconds before the next restart, or None if the model fails for good.

        >>> [RestartPolicy(jitter=0).pause(number) for number in (0, 1, 4, 40)]
        [1.0, 2.0, 16.0, 300.0]
        """
        if self.max_restarts is not None and restarts >= self.max_restarts:
            return None
        # The exponent is bounded, because the power overflows after years of restarts.
        plain = min(self.longest, self.first * self.factor ** min(restarts, 64))
        return plain * (1 + self.jitter * (2 * chance() - 1))
