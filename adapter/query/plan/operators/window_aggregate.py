"""`WindowAggregate`: GROUP BY over windows, stored as partial aggregates."""

from __future__ import annotations

from dataclasses import dataclass

from ...aggregates.model import AggregateStage
from ...windows.emission import FINAL, Emission
from ..state.sessions import SessionStage
from ..state.sliced import SlicedStage
from ..window_operator import WindowOperator


@dataclass(frozen=True, kw_only=True)
class WindowAggregate(WindowOperator):
    """GROUP BY over windows, stored as partial aggregates per slice or session."""

    stage: AggregateStage

    def window_steps(self, emission: Emission = FINAL) -> SlicedStage:
        """Returns the steps and state of slices, or of sessions."""
        kind = SessionStage if self.stage.window.merges else SlicedStage
        return kind(self.stage, emission)
