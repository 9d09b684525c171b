"""`WindowRows`: rows, each once per window that it is in."""

from __future__ import annotations

from dataclasses import dataclass

from ...windows.windows import Window
from ..operator import Operator, Wiring, over
from ..state.generations import without_expired_windows


@dataclass(frozen=True, kw_only=True)
class WindowRows(Operator):
    """Returns each row once per tumble, hop or cumulate window that it is in, immediately. No state."""

    sql: str
    window: Window

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over its inputs, without rows of windows whose state has expired."""
        text = over(self.sql, [f"select * from {each.name}" for each in self.inputs])
        wiring.output(self, without_expired_windows(text, self, wiring.ttl))
