"""How far back the frames of OVER clauses reach: which rows of before those that come later still need.

>>> from ..sql.dialect import parse
>>> clause = "lag(v, 2) over (partition by k order by ts)"
>>> reach([parse(f"select {clause} as a").expressions[0].this], "ts", "s")
Reach(rows=2, micros=0, everything=False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..errors import QueryError
from ..sql import intervals
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
"""What counts rows that come later, or all there are so far: a ranking without an end."""


@dataclass(frozen=True)
class FrameExtent:
    """The rows before one that its frames have, of all rows of its partition."""

    rows: int = 0
    """So many of the last ones."""
    micros: int = 0
    """Those of so many microseconds before it."""
    everything: bool = False
    """All of them."""

    def __or__(self, other: FrameExtent) -> FrameExtent:
        return FrameExtent(
            max(self.rows, other.rows), max(self.micros, other.micros), self.everything or other.everything
        )


def reach(windows: Sequence[exp.Window], time: str, alias: str) -> FrameExtent | None:
    """How far the frames of OVER clauses reach back that stand in order of time.

    Args:
        windows: the clauses, of one SELECT.
        time: the column (lower case) that rows come in the order of.
        alias: what the SELECT calls these rows.

    Returns:
        None: they aren't all of the same partitions, aren't in this order, or look at rows that come later.
    """
    partitions = {frozenset(map(canonical, each.args.get("partition_by") or ())) for each in windows}
    if len(partitions) != 1:
        return None
    found = FrameExtent()
    for each in windows:
        one = _reach_of(each) if ordered_by(each, alias) == time else None
        if one is None:
            return None
        found |= one
    return found


def ordered_by(window: exp.Window, alias: str) -> str | None:
    """The column (lower case) of some rows in whose ascending order an OVER clause first puts them; None: there is none.

    >>> from ..sql.dialect import parse
    >>> [ordered_by(parse(f"select lag(v) over (order by {key})").expressions[0], "s") for key in ("TS", "s.ts", "p.ts")]
    ['ts', 'ts', None]
    """
    order = window.args.get("order")
    first = order.expressions[0] if order is not None and order.expressions else None
    column = None if first is None or first.args.get("desc") else first.this
    if not isinstance(column, exp.Column):
        return None
    # A field of a struct looks like a column of a relation.
    of = ".".join(part.name.lower() for part in column.parts[:-1])
    return column.name.lower() if of in ("", alias.lower()) else None


def _reach_of(window: exp.Window) -> FrameExtent | None:
    function, spec = window.this, window.args.get("spec")
    if isinstance(function, exp.Filter):
        function = function.this
    looks_for_values = isinstance(function, exp.IgnoreNulls)
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    if isinstance(function, _OF_WHOLE_PARTITIONS):
        return None
    if isinstance(function, exp.Lag):
        offset = function.args.get("offset") or exp.Literal.number(1)
        if not (isinstance(offset, exp.Literal) and offset.name.isdigit()):
            return None
        # The last value that isn't NULL may stand anywhere before.
        return FrameExtent(everything=True) if looks_for_values else FrameExtent(rows=int(offset.name))
    if not isinstance(function, exp.AggFunc):
        return None
    return FrameExtent(everything=True) if spec is None else _reach_of_frame(spec)


def _reach_of_frame(spec: exp.Expr) -> FrameExtent | None:
    """That of a frame which ends with the row itself, or before it."""
    kind = str(spec.args.get("kind")).upper()
    start, end = spec.args.get("start"), spec.args.get("end")
    if spec.args.get("exclude"):
        return None
    ends_before = str(spec.args.get("end_side")).upper() == "PRECEDING" and _distance(kind, end) is not None
    if not (end is None or _says(end, "CURRENT ROW") or ends_before):
        return None
    if _says(start, "UNBOUNDED"):
        return FrameExtent(everything=True)
    if _says(start, "CURRENT ROW"):
        return FrameExtent()
    return _distance(kind, start) if str(spec.args.get("start_side")).upper() == "PRECEDING" else None


def _distance(kind: str, bound: object) -> FrameExtent | None:
    """How far before a row a frame's bound lies; None: that can't be told, or it lies after it."""
    if kind == "ROWS":
        counted = isinstance(bound, exp.Literal) and bound.name.isdigit()
        return FrameExtent(rows=int(bound.name)) if isinstance(bound, exp.Literal) and counted else None
    if kind != "RANGE" or not isinstance(bound, exp.Interval):
        return None
    try:
        micros = intervals.parse(f"{bound.this.name} {bound.args['unit'].name}")
    except (QueryError, KeyError, AttributeError):
        return None  # months, whose lengths differ
    return FrameExtent(micros=micros) if micros >= 0 else None


def _says(bound: object, words: str) -> bool:
    return isinstance(bound, str) and bound.upper() == words
