"""`WindowSteps`: what a window operator adds to a program, whatever it stores."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...program import StatePart, Step
from ...windows.windows import Window
from ..window_specs import WindowSpec
from .window_trigger import WindowTrigger


class WindowSteps(ABC):
    """Steps and state of windows."""

    spec: WindowSpec
    window: Window
    closing: WindowTrigger
    """When the windows emit a result."""
    windows_step: str
    """The step that lists the windows which emit a result."""

    @abstractmethod
    def known(self) -> list[Step]:
        """Returns the steps that the window operator's rows read: sessions that are open."""

    @abstractmethod
    def rows_text(self, raw: str, clock: bool) -> str:
        """Returns the rows with the columns that decide their windows.

        Args:
            clock: whether there is a watermark; there is none in batch.
        """

    @abstractmethod
    def ingest(self) -> list[Step]:
        """Returns the steps that compute what is stored of the rows."""

    @abstractmethod
    def parts(self) -> list[StatePart]:
        """Returns the parts of the state."""

    @abstractmethod
    def emit(self) -> list[Step]:
        """Returns the steps with the results of the windows that close."""

    @abstractmethod
    def batch(self) -> list[Step]:
        """Returns the steps with the results of all windows."""
