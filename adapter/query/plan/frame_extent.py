"""Extent of OVER frames: which earlier rows of a partition later rows still need.

>>> from ..sql.dialect import parse
>>> clause = "lag(v, 2) over (partition by k order by ts)"
>>> frame_extent([parse(f"select {clause} as a").expressions[0].this], "ts", "s")
FrameExtent(rows=2, micros=0, everything=False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..normalize import event_clock
from ..sql.dialect import canonical

_OF_WHOLE_PARTITIONS = (
    exp.Lead,
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.PercentRank,
    exp.CumeDist,
    exp.Ntile,
)
"""Functions that depend on later rows, or on all rows so far: a ranking without a limit."""


@dataclass(frozen=True)
class FrameExtent:
    """Which rows before a row are in its frames: all that are within one of these limits."""

    rows: int = 0
    """Number of preceding rows."""
    micros: int = 0
    """Microseconds before the row."""
    everything: bool = False
    """Whether it includes all preceding rows of the partition."""

    def __or__(self, other: FrameExtent) -> FrameExtent:
        return FrameExtent(
            max(self.rows, other.rows), max(self.micros, other.micros), self.everything or other.everything
        )


def frame_extent(windows: Sequence[exp.Window], time: str, alias: str) -> FrameExtent | None:
    """Returns the extent of the frames of OVER clauses that are ordered by time.

    Args:
        time: column (lower case) that rows are ordered by.
        alias: alias of these rows in the SELECT.

    Returns:
        None if the clauses have different partitions or another order, or look at later rows.
    """
    partitions = {frozenset(map(canonical, each.args.get("partition_by") or ())) for each in windows}
    if len(partitions) != 1:
        return None
    found = FrameExtent()
    for each in windows:
        one = _extent_of_clause(each) if ascending_order_column(each, alias) == time else None
        if one is None:
            return None
        found |= one
    return found


def ascending_order_column(window: exp.Window, alias: str) -> str | None:
    """Returns the first column (lower case) that an OVER clause orders by, if that is ascending and the
    column belongs to `alias`; None otherwise.

    >>> from ..sql.dialect import parse
    >>> windows = [parse(f"select lag(v) over (order by {key})").expressions[0] for key in ("TS", "s.ts", "p.ts")]
    >>> [ascending_order_column(each, "s") for each in windows]
    ['ts', 'ts', None]
    """
    order = window.args.get("order")
    first = order.expressions[0] if order is not None and order.expressions else None
    column = None if first is None or first.args.get("desc") else first.this
    if not isinstance(column, exp.Column):
        return None
    # A field of a struct looks like a column of a relation.
    qualifier = ".".join(part.name.lower() for part in column.parts[:-1])
    return column.name.lower() if qualifier in ("", alias.lower()) else None


def _extent_of_clause(window: exp.Window) -> FrameExtent | None:
    """Returns the extent of one OVER clause; None if it may read later rows, or how far back is unknown."""
    function, spec = window.this, window.args.get("spec")
    if isinstance(function, exp.Filter):
        function = function.this
    ignores_nulls = isinstance(function, exp.IgnoreNulls)
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    if isinstance(function, _OF_WHOLE_PARTITIONS):
        return None
    if isinstance(function, exp.Lag):
        offset = function.args.get("offset") or exp.Literal.number(1)
        if not (isinstance(offset, exp.Literal) and offset.name.isdigit()):
            return None
        # With IGNORE NULLS the value may be in any preceding row.
        return FrameExtent(everything=True) if ignores_nulls else FrameExtent(rows=int(offset.name))
    if not isinstance(function, exp.AggFunc):
        return None
    return FrameExtent(everything=True) if spec is None else _extent_of_frame(spec)


def _extent_of_frame(spec: exp.Expr) -> FrameExtent | None:
    """Returns the extent of a frame that ends with the row itself, or before it; None for other frames."""
    kind = str(spec.args.get("kind")).upper()
    start, end = spec.args.get("start"), spec.args.get("end")
    if spec.args.get("exclude"):
        return None
    ends_before = (
        str(spec.args.get("end_side")).upper() == "PRECEDING" and _extent_before_row(kind, end) is not None
    )
    if not (end is None or _is_keyword(end, "CURRENT ROW") or ends_before):
        return None
    if _is_keyword(start, "UNBOUNDED"):
        return FrameExtent(everything=True)
    if _is_keyword(start, "CURRENT ROW"):
        return FrameExtent()
    return (
        _extent_before_row(kind, start) if str(spec.args.get("start_side")).upper() == "PRECEDING" else None
    )


def _extent_before_row(kind: str, bound: object) -> FrameExtent | None:
    """Returns the distance of a frame's bound before the row; None if it is unknown or after the row."""
    if kind == "ROWS":
        counted = isinstance(bound, exp.Literal) and bound.name.isdigit()
        return FrameExtent(rows=int(bound.name)) if isinstance(bound, exp.Literal) and counted else None
    if kind != "RANGE" or not isinstance(bound, exp.Interval):
        return None
    micros = event_clock.interval_micros(bound)
    return FrameExtent(micros=micros) if micros is not None and micros >= 0 else None


def _is_keyword(bound: object, words: str) -> bool:
    return isinstance(bound, str) and bound.upper() == words
