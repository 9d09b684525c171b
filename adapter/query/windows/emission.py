"""The times at which a window emits results: early, on-time, late. In microseconds relative to the window's end.

::

    first          update … update          complete              last
      |--------------|-----------|--------------|--- late rows ------|
      early firing                          on-time firing      state is cleared
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import QueryError
from ..sql import intervals

CONFIGS = (
    "first_result_offset",
    "update_rate",
    "complete_result_offset",
    "late_updates",
    "last_result_offset",
)


@dataclass(frozen=True)
class Emission:
    """Emission times of a window, in event time."""

    first: int | None = None
    """Time of the first early firing; None if there is none."""
    update: int | None = None
    """Interval between early firings; None if there is only one."""
    complete: int = 0
    """Time of the on-time firing."""
    last: int = 0
    """Time at which the state is cleared (end of allowed lateness). Rows until then update the result."""
    at_once: bool = False
    """Whether each micro-batch emits results until the state is cleared, because other windows read them."""

    @property
    def may_update_results(self) -> bool:
        """Whether an emitted result may be updated."""
        return self.first is not None or self.late_updates or self.at_once

    @property
    def late_updates(self) -> bool:
        """Whether rows that arrive after the on-time firing update the result."""
        return self.last > self.complete

    def needs_windows_message(self, why: str) -> str:
        """Returns the message that the configs which are set need windows. `why` says why the query has none."""
        is_set = {
            "first_result_offset": self.first is not None,
            "update_rate": self.update is not None,
            "complete_result_offset": self.complete != 0,
            "late_updates": self.late_updates,
            "last_result_offset": self.late_updates,
        }
        configs = [f"'{key}'" for key, is_changed in is_set.items() if is_changed]
        are, them = ("is", "it") if len(configs) == 1 else ("are", "them")
        return f"config {' and '.join(configs)} {are} about windows{why}. Leave {them} out."


FINAL = Emission()
"""Each result once, when its window ends."""

PASSED_ON = " that are kept until they close, and this query emits its rows at once"
NO_WINDOWS = ", and this query has no windows, so its results change at once"
"""Reasons why a query has no window results, for `needs_windows_message`."""


def emission_from_configs(config: Mapping[str, Any]) -> Emission:
    """Returns the emission times that a model's configs ask for."""

    def interval(key: str) -> int | None:
        value = config.get(key)
        return None if value is None else intervals.parse(value, f"config '{key}':")

    first, update = interval("first_result_offset"), interval("update_rate")
    complete, last = interval("complete_result_offset") or 0, interval("last_result_offset")
    late = False if config.get("late_updates") is None else config["late_updates"]
    if not isinstance(late, bool):
        raise QueryError(f"config 'late_updates' is {late!r}; write true or false.")

    def text(key: str) -> str:
        return f"{key} '{'0 seconds' if config.get(key) is None else config[key]}'"

    if complete < 0:
        raise QueryError(
            f"config {text('complete_result_offset')} is before the window's end, when its rows aren't all there; "
            "request early firing with first_result_offset."
        )
    if first is not None and first >= complete:
        raise QueryError(
            f"config {text('first_result_offset')} is not before {text('complete_result_offset')}; early firing "
            "precedes on-time firing, as in '-10 minutes'."
        )
    if update is not None and first is None:
        raise QueryError(
            f"config {text('update_rate')} without first_result_offset: say when early firing begins, as in "
            "first_result_offset: '-10 minutes'."
        )
    if update is not None and update <= 0:
        raise QueryError(f"config {text('update_rate')} must be longer than zero.")
    if late and last is None:
        raise QueryError(
            "config 'late_updates' needs last_result_offset: how long after the window's end rows still update its "
            "result, as in last_result_offset: '1 hour'."
        )
    if last is not None and last < complete:
        raise QueryError(
            f"config {text('last_result_offset')} is before {text('complete_result_offset')}; state can't be cleared "
            "before on-time firing."
        )
    if late and last == complete:
        raise QueryError(
            f"config 'late_updates' is true, but {text('last_result_offset')} is the time of on-time firing, so no row "
            "can update its result; make last_result_offset later, as in '1 hour', or leave both out."
        )
    if last is not None and last > complete and not late:
        raise QueryError(
            f"config {text('last_result_offset')} is after {text('complete_result_offset')}, but late_updates is false, "
            "so rows in between would be kept for nothing; set late_updates: true, or leave last_result_offset out."
        )
    return Emission(first, update, complete, complete if last is None else last)
