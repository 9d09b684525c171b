"""`WindowSteps`: the steps and state that a window operator adds to a program; and `WindowSpec`, their definition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

from ...aggregates.aggregate_builder import SLICE_END
from ...aggregates.model import WindowAggregateSpec, WindowedRows
from ...normalize.rankings.ranks import Top
from ...program import OpenWindowQuery, StatePart, Step
from ...windows.windows import Window
from .window_trigger import WindowTrigger


@dataclass(frozen=True, kw_only=True)
class WindowBufferSpec(WindowedRows):
    """An OVER or Top-N within windows, whose rows are buffered until the windows close."""

    reason: str
    """Why rows are stored, and not partial aggregates."""
    top: Top | None = None
    """Ranking whose first rows are stored; None if all rows are."""
    plain: str = ""
    """`source` without the names of its relations, so that renaming a relation doesn't change it; empty if
    unknown."""


WindowSpec: TypeAlias = WindowAggregateSpec | WindowBufferSpec


class WindowSteps(ABC):
    """Steps and state of windows."""

    spec: WindowSpec
    window: Window
    trigger: WindowTrigger
    """When the windows emit a result."""
    part: str
    """The state table with the slices or rows of the windows."""
    windows_step: str
    """The step that lists the windows which emit a result."""

    def open_sessions(self) -> list[Step]:
        """Returns the steps that `rows_sql` reads: those with the sessions that are open."""
        return []

    def rows_sql(self, raw: str, clock: bool) -> str:
        """Returns the rows `raw` with the columns that decide their windows.

        Args:
            clock: whether there is a watermark; there is none in batch.
        """
        return raw

    def ingest_steps(self) -> list[Step]:
        """Returns the steps that compute what the micro-batch stores."""
        return []

    @abstractmethod
    def parts(self) -> list[StatePart]:
        """Returns the state tables."""

    @abstractmethod
    def emit_steps(self) -> list[Step]:
        """Returns the steps with the results of the windows that close."""

    @abstractmethod
    def batch_steps(self) -> list[Step]:
        """Returns the steps with the results of all windows."""

    def open_windows_query(self) -> OpenWindowQuery:
        """Returns the query for the windows in the state that have yet to emit a result.

        >>> from ...windows.emission import FINAL
        >>> from ..operators.window_buffer import BufferedWindows, WindowBufferSpec
        >>> read = {"window": Window("tumble", "ts", 60, 60), "streams": (), "rows": "", "source": ""}
        >>> read |= {"read": None, "written": None}
        >>> spec = WindowBufferSpec(name="window_1a2b", identity="1a2b", **read, reason="")
        >>> print(BufferedWindows(spec, "window_1a2b", FINAL).open_windows_query().sql)
        select distinct unix_micros(slice_end) as first, unix_micros(slice_end) as last, 0 as sessions
        from state where part = 'window_1a2b_rows'
        """
        window, sql, emission = self.window, self._open_ends_query(), self.trigger.emission
        zone, complete = window.time_zone, emission.complete
        return OpenWindowQuery(self.part, sql, window.step, window.grows, time_zone=zone, complete=complete)

    def _open_ends_query(self) -> str:
        end = f"unix_micros({SLICE_END})"
        bounds = f"{self.window.first_end(end)} as first, {self.window.last_end(end)} as last"
        return f"select distinct {bounds}, 0 as sessions\nfrom state where part = '{self.part}'"
