"""Derives the relation of rows in windows, which has each row once per window that it is in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...windows.expansion import WINDOW_COLUMNS
from ...windows.windows import Window
from ..relation import Relation


@dataclass(frozen=True)
class RowsInWindows:
    """Rows that are assigned to windows when they arrive."""

    window: Window
    below: Relation
    """Properties of the rows without their windows."""
    fires_again: bool
    """Whether a window may have several results."""

    @property
    def expires_in_time(self) -> bool:
        """Whether rows expire with their windows. They do if they are results of windows below and have those windows' end
        as their time: then none arrives after its window's state has expired."""
        return self.fires_again and self._time in self.below.in_time

    @property
    def open_for(self) -> int | None:
        """Returns for how many microseconds after its end a window may get rows; None if unknown."""
        if self.below.changes or self.window.merges or self.fires_again:
            return None
        return self.below.times.get(self._time)

    @property
    def relation(self) -> Relation:
        """Returns the properties of the rows with their windows."""
        replaced = set(WINDOW_COLUMNS)
        keys = tuple(key for key in self.below.keys if not key & replaced)
        if not self.window.is_one_slice:
            # Of several windows whose ends a clock skips, all end when it is put forward.
            bounds = {"window_start", "window_end"} if self.window.time_zone else {"window_end"}
            keys = tuple(key | bounds for key in keys)
        return Relation(
            self.below.changes,
            keys=keys,
            bounded=self.below.bounded,
            repeatable=self.below.repeatable,
            open_until="window_end",
            open_for=self.open_for,
            ends="window_end" if self.expires_in_time else None,
            delays={} if self.open_for is None else self._delays(self.open_for),
        )

    @property
    def recomputed_relation(self) -> Relation:
        """Returns the properties of the rows if a row may change the windows of others."""
        return replace(self.relation, changes=True)

    @property
    def _time(self) -> str:
        return self.window.time_col.lower()

    def _delays(self, open_for: int) -> dict[str, int]:
        """Returns `Relation.delays` of rows that are emitted up to `open_for` microseconds after their window's end."""
        ends = {"window_end": open_for, "window_time": open_for}
        if self.window.time_zone:
            return ends  # the clock is put forward or back in some windows
        whole = self.window.size + open_for
        # The distance between the window's time and other times of a row is unknown.
        return {self._time: whole, "window_start": whole, **ends}
