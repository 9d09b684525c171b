"""Chooses the implementation of a window stage."""

from __future__ import annotations

from ...aggregates.model import AggregateStage
from ...windows.emission import FINAL, Emission
from ..stages import RowsStage
from ..state.sessions import SessionStage
from ..state.sliced import SlicedStage
from .window_buffer import BufferedWindows, SessionBuffer


def operator_of(
    stage: AggregateStage | RowsStage, emission: Emission = FINAL
) -> SlicedStage | BufferedWindows:
    """Returns the steps and state of a window stage.

    Args:
        stage: a stage with a window.
        emission: when its results are emitted.
    """
    if isinstance(stage, AggregateStage):
        return SessionStage(stage, emission) if stage.window.merges else SlicedStage(stage, emission)
    return SessionBuffer(stage, emission) if stage.window.merges else BufferedWindows(stage, emission)
