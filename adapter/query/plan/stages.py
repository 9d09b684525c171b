"""What windows keep: partial aggregates, or rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..aggregates.model import AggregateStage
from ..normalize.rankings.ranks import Top
from ..windows.windows import Window


@dataclass(frozen=True)
class RowsStage:
    """A window function whose rows are kept until their windows close."""

    name: str
    level: int
    window: Window
    streams: tuple[str, ...]
    rows: str
    source: str
    """As in `AggregateStage`."""
    reason: str
    """Why rows are kept instead of aggregates."""
    top: Top | None = None
    """The only rows that are needed; None: all."""
    time_carries: str | None = None
    """As in `AggregateStage`."""
    written: str = ""
    """As in `AggregateStage`."""
    plain: str = ""
    """`source` without the names of its relations, so that these may be others; empty: nobody wrote it so."""


Stage: TypeAlias = AggregateStage | RowsStage
