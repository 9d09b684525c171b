"""Warns if a model, the cluster or Spark itself makes no progress for a long time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

STALLED = 600.0
"""Seconds of unchanged work before a warning."""
NO_EXECUTORS = 60.0
"""Seconds without executors, while there is work, before a warning."""
NO_ANSWER = 60.0
"""Seconds without an answer of Spark before a warning."""


@dataclass
class _Spell:
    """A period in which an activity has not changed."""

    what: object
    since: float
    said_at: float
    """Duration in seconds at the last warning."""


@dataclass
class Watchdog:
    """Warns about activities that don't change for too long, and again each time the duration has doubled.

    Args:
        stalled: seconds of unchanged work before a warning.
    """

    say: Callable[[str], None]
    stalled: float = STALLED
    notes: dict[str, str] = field(default_factory=dict)
    """Current warnings, by model."""
    _spells: dict[str, _Spell] = field(default_factory=dict)

    def check_progress(
        self, now: float, activities: Mapping[str, tuple[str, object] | None], executors: int | None
    ) -> None:
        """Compares the activities of models with those of earlier calls, and warns.

        Args:
            now: monotonic time in seconds.
            activities: description and progress of each model's current work, by model. None if it waits for rows.
            executors: the number of executors, or None if Spark runs in local mode.
        """
        for name, activity in activities.items():
            lasted = self._seconds_unchanged(name, activity, now)
            if activity is None or lasted < self.stalled:
                if self.notes.pop(name, None):
                    self.say(f"{name}: makes progress again.")
                continue
            self.notes[name] = f"no progress for {_duration_text(lasted)}: {activity[0]}"
            if self._is_warning_due(name, lasted, self.stalled):
                self.say(f"{name}: {self.notes[name]}.")
        is_lacking = executors == 0 and any(activities.values())
        lasted = self._seconds_unchanged("", ("", 0) if is_lacking else None, now)
        if is_lacking and lasted >= NO_EXECUTORS and self._is_warning_due("", lasted, NO_EXECUTORS):
            self.say(
                f"The cluster has had no executors for {_duration_text(lasted)}; models with rows to read wait for them."
            )

    def _seconds_unchanged(self, name: str, what: object, now: float) -> float:
        spell = self._spells.get(name)
        if spell is None or spell.what != what:
            spell = self._spells[name] = _Spell(what, now, 0.0)
        return now - spell.since

    def _is_warning_due(self, name: str, lasted: float, first: float) -> bool:
        spell = self._spells[name]
        if lasted < max(first, 2 * spell.said_at):
            return False
        spell.said_at = lasted
        return True


def _duration_text(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
