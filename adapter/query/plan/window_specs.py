"""State of windows: partial aggregates, or rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..aggregates.model import WindowAggregateSpec, WindowedRows
from ..normalize.rankings.ranks import Top


@dataclass(frozen=True, kw_only=True)
class WindowBufferSpec(WindowedRows):
    """An OVER or Top-N within windows, whose rows are buffered until the windows close."""

    reason: str
    """Reason for buffering rows instead of partial aggregates."""
    top: Top | None = None
    """Top-N that limits the buffered rows; None if all are needed."""
    plain: str = ""
    """`source` without the names of its relations, so that renaming a relation doesn't change it; empty if
    unknown."""


WindowSpec: TypeAlias = WindowAggregateSpec | WindowBufferSpec
