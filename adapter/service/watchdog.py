"""Says when a model, the cluster or Spark itself has made no progress for long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

STALLED = 600.0
"""Seconds of the same work after which a model is said to make no progress."""
NO_EXECUTORS = 60.0
"""Seconds without executors, while there is work, after which that is said."""
NO_ANSWER = 60.0
"""Seconds after which Spark is said not to answer."""


@dataclass
class _Spell:
    """Something that has been the same for some time."""

    what: object
    since: float
    said_at: float
    """How long it lasted when it was said last."""


@dataclass
class Watchdog:
    """Notices what stays the same for too long. Says it once, and again each time it has lasted twice as long.

    Args:
        say: tells people.
        stalled: seconds of the same work that are too long.
    """

    say: Callable[[str], None]
    stalled: float = STALLED
    notes: dict[str, str] = field(default_factory=dict)
    """By model what is to be said of it now."""
    _spells: dict[str, _Spell] = field(default_factory=dict)

    def look(
        self, now: float, activities: Mapping[str, tuple[str, object] | None], executors: int | None
    ) -> None:
        """Notes what models are doing, and what they do it with.

        Args:
            now: seconds that go by evenly.
            activities: by model what it does, and how far it has come with it; None: it waits for rows.
            executors: how many there are; None: Spark works without any.
        """
        for name, activity in activities.items():
            lasted = self._lasted(name, activity, now)
            if activity is None or lasted < self.stalled:
                if self.notes.pop(name, None):
                    self.say(f"{name}: makes progress again.")
                continue
            self.notes[name] = f"no progress for {_span(lasted)}: {activity[0]}"
            if self._is_due(name, lasted, self.stalled):
                self.say(f"{name}: {self.notes[name]}.")
        is_lacking = executors == 0 and any(activities.values())
        lasted = self._lasted("", ("", 0) if is_lacking else None, now)
        if is_lacking and lasted >= NO_EXECUTORS and self._is_due("", lasted, NO_EXECUTORS):
            self.say(
                f"The cluster has had no executors for {_span(lasted)}; models with rows to take in wait for them."
            )

    def _lasted(self, name: str, what: object, now: float) -> float:
        spell = self._spells.get(name)
        if spell is None or spell.what != what:
            spell = self._spells[name] = _Spell(what, now, 0.0)
        return now - spell.since

    def _is_due(self, name: str, lasted: float, first: float) -> bool:
        spell = self._spells[name]
        if lasted < max(first, 2 * spell.said_at):
            return False
        spell.said_at = lasted
        return True


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
