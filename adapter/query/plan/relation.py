"""What is known of the relation on an edge between two operators.

On an edge flows the change of a relation in one micro-batch. Where rows may be retracted, each row carries a
*weight* in the column `WEIGHT`: how many times more (or, below zero, fewer) it is there than before. Where they
may not, the column is missing, and each row counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WEIGHT = "__stream_weight"
"""The hidden column of a row's weight."""


EVENT_TIME = "event_time"
"""What rows come together by that were put out when the watermark had passed their time."""
WINDOW_END = "window_end"
"""The same of windows that have closed."""
_COME_IN_ORDER = (WINDOW_END, "window_time", EVENT_TIME)
"""What columns carry whose values come in ascending order: on no zone's clock, which is put back."""
_LATE = " + "


def comes_late(what: str, micros: int) -> str:
    """What a column carries whose values come so many microseconds after the watermark has passed them.

    >>> comes_late("window_end", 60), comes_late("window_end", 0)
    ('window_end + 60', 'window_end')
    """
    return f"{what}{_LATE}{micros}" if micros else what


def comes_in_order(what: str | None) -> bool:
    """Whether values come in ascending order of what a column carries.

    >>> comes_in_order("window_end + 60"), comes_in_order("window_end Europe/Berlin"), comes_in_order(None)
    (True, False, False)
    """
    return what is not None and what.partition(_LATE)[0] in _COME_IN_ORDER


def weight_of(number: int) -> str:
    """The same of one of several inputs that are joined."""
    return f"{WEIGHT}_{number}"


@dataclass(frozen=True)
class Relation:
    """The properties of an edge, inferred from the operators below it."""

    changes: bool = False
    """Whether rows may be retracted."""
    together: Mapping[str, str] = field(default_factory=dict)
    """Columns (lower case) by whose values rows come together: all rows with one value of such a column come in
    one micro-batch, and none of them ever after. Each with the window column it carries: two relations' rows come
    together where both columns carry the same."""
    open_until: str | None = None
    """The column (lower case) with the end of a window that may not have closed yet; None: rows are of no such."""
    open_for: int | None = None
    """For how many microseconds after the end of such a window its rows may still come: after that it has its result, once
    for all. None: that can't be told, and it may change later."""
    ends: str | None = None
    """Where results change, the column (lower case) with the end of a window: some time after it no row with that value
    comes or goes any more. None: there is none."""
    in_time: frozenset[str] = frozenset()
    """The columns (lower case) with the end of that window, or its last moment: windows over these end with it or later."""
    event_time: str | None = None
    """Of a stream's rows as they come, the column (lower case) that its watermark is measured on: a row is late whose time
    the watermark has passed. None: it isn't handed on, or rows come otherwise."""
    delays: Mapping[str, int] = field(default_factory=dict)
    """Other columns (lower case) that carry event time: for how many microseconds after the watermark has passed a time
    rows with it may still come."""
    keys: tuple[frozenset[str], ...] = ()
    """Columns (lower case) that identify a row, in one way or another."""
    bounded: bool = False
    """Whether the number of its rows does not grow for ever."""
    repeatable: bool = True
    """Whether the same input always gives the same rows."""

    @property
    def times(self) -> dict[str, int]:
        """All columns that carry event time, as `delays` has them."""
        own = {} if self.event_time is None else {self.event_time: 0}
        late = {
            column: what.partition(_LATE)[2] for column, what in self.together.items() if comes_in_order(what)
        }
        return {**self.delays, **own, **{column: int(micros or 0) for column, micros in late.items()}}

    @property
    def key(self) -> frozenset[str] | None:
        """The columns that identify a row in the shortest way; None: nothing does."""
        return min(self.keys, key=lambda each: (len(each), sorted(each)), default=None)
