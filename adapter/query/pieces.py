"""What carries out a stage of windows."""

from __future__ import annotations

from .emission import FINAL, Emission
from .kept import KeptRows, KeptSessions
from .plan import AggregateStage, RowsStage
from .sessions import SessionStage
from .sliced import SlicedStage


def pieces_of(stage: AggregateStage | RowsStage, emission: Emission = FINAL) -> SlicedStage | KeptRows:
    """The pieces of a stage's program.

    Args:
        stage: with a window.
        emission: when its results come.
    """
    if isinstance(stage, AggregateStage):
        return SessionStage(stage, emission) if stage.window.merges else SlicedStage(stage, emission)
    return KeptSessions(stage, emission) if stage.window.merges else KeptRows(stage, emission)
