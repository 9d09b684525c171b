"""State of windows: partial aggregates, or rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..aggregates.model import WindowAggregateSpec
from ..normalize.rankings.ranks import Top
from ..windows.windows import Window


@dataclass(frozen=True)
class WindowBufferSpec:
    """An OVER or Top-N within windows, whose rows are buffered until the windows close."""

    name: str
    level: int
    window: Window
    streams: tuple[str, ...]
    rows: str
    source: str
    """See `WindowAggregateSpec.source`."""
    reason: str
    """Reason for buffering rows instead of partial aggregates."""
    top: Top | None = None
    """Top-N that limits the buffered rows; None if all are needed."""
    time_carries: str | None = None
    """See `WindowAggregateSpec.time_carries`."""
    written: str = ""
    """See `WindowAggregateSpec.written`."""
    plain: str = ""
    """`source` without the names of its relations, so that renaming a relation doesn't change it; empty if
    unknown."""


WindowSpec: TypeAlias = WindowAggregateSpec | WindowBufferSpec
