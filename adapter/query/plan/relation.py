"""Properties of the relation on an edge between two operators.

An edge transports the change of a relation in one micro-batch. If rows may be retracted, each row has a
*weight* in the column `WEIGHT`: by how much its multiplicity grows or, if negative, shrinks. Otherwise the
column is missing, and each row counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WEIGHT = "__stream_weight"
"""Hidden column with a row's weight."""


EVENT_TIME = "event_time"
"""Origin of an event-time column whose rows were emitted when the watermark had reached their time."""
WINDOW_END = "window_end"
"""Origin of a column with the end of closed windows."""
_ASCENDING = (WINDOW_END, "window_time", EVENT_TIME)
"""Origins whose values arrive in ascending order. Local times aren't among them, since clocks are set back."""
_DELAY = " + "


def delayed_origin(origin: str, micros: int) -> str:
    """Returns the origin of a column whose values arrive `micros` microseconds after the watermark has
    reached them.

    >>> delayed_origin("window_end", 60), delayed_origin("window_end", 0)
    ('window_end + 60', 'window_end')
    """
    return f"{origin}{_DELAY}{micros}" if micros else origin


def arrives_in_order(origin: str | None) -> bool:
    """Whether values of this origin arrive in ascending order.

    >>> arrives_in_order("window_end + 60"), arrives_in_order("window_end Europe/Berlin"), arrives_in_order(None)
    (True, False, False)
    """
    return origin is not None and origin.partition(_DELAY)[0] in _ASCENDING


def weight_column(number: int) -> str:
    """Returns the weight column of one of several joined inputs."""
    return f"{WEIGHT}_{number}"


@dataclass(frozen=True)
class Relation:
    """Properties of an edge, derived from the operators below it."""

    changes: bool = False
    """Whether rows may be retracted."""
    complete_by: Mapping[str, str] = field(default_factory=dict)
    """Column (lower case) → its origin, for columns by whose values rows arrive together: all rows with a value arrive
    in one micro-batch, and none later. So do rows of two relations with equal values in columns of one origin."""
    open_until: str | None = None
    """Column (lower case) with the end of a window that may be open; None if rows are in no open windows."""
    open_for: int | None = None
    """Microseconds after the end of that window in which its rows may still arrive; after them its result is final. None if
    unknown: then the result may always change."""
    ends: str | None = None
    """Column (lower case) with a window's end by which rows expire: some time after it no row with this value is
    inserted or retracted any more. None if there is none."""
    in_time: frozenset[str] = frozenset()
    """Columns (lower case) with the end of the row's window, or its last instant: windows over these columns end at
    that time or later."""
    event_time: str | None = None
    """Column (lower case) that the watermark of a stream is measured on: a row is late if the watermark is after its
    time. None if the column doesn't pass through, or rows don't arrive as in the stream."""
    delays: Mapping[str, int] = field(default_factory=dict)
    """Other column (lower case) with event time → microseconds for which rows with a time may still arrive after the
    watermark has reached it."""
    keys: tuple[frozenset[str], ...] = ()
    """Sets of columns (lower case); each set identifies a row."""
    bounded: bool = False
    """Whether its number of rows is bounded."""
    repeatable: bool = True
    """Whether the same input always gives the same rows."""

    @property
    def times(self) -> dict[str, int]:
        """Returns all columns with event time, each with its delay in microseconds, as in `delays`."""
        streams = {} if self.event_time is None else {self.event_time: 0}
        late = {
            column: origin.partition(_DELAY)[2]
            for column, origin in self.complete_by.items()
            if arrives_in_order(origin)
        }
        return {**self.delays, **streams, **{column: int(micros or 0) for column, micros in late.items()}}

    @property
    def key(self) -> frozenset[str] | None:
        """Returns the smallest set of columns that identifies a row; None if nothing does."""
        return smallest_key(self.keys)


def smallest_key(keys: Sequence[frozenset[str]]) -> frozenset[str] | None:
    """Returns the key with the fewest columns; None if there is no key.

    >>> smallest_key([frozenset({"a", "b"}), frozenset({"c"})]), smallest_key([])
    (frozenset({'c'}), None)
    """
    return min(keys, key=lambda each: (len(each), sorted(each)), default=None)


def common_window_end(left: Relation, right: Relation, pairs: Mapping[str, str]) -> str | None:
    """Returns the column of the left relation with the end of windows that both relations' rows expire with; None if
    there is none.

    Args:
        left: a side of a set operation.
        right: the other side.
        pairs: columns of the left side → those of the right one at the same position.

    >>> common_window_end(Relation(ends="a"), Relation(ends="b"), {"a": "b"})
    'a'
    """
    return left.ends if left.ends is not None and pairs.get(left.ends, "") == right.ends else None


GIVEN_BY = "__given_by"
"""Hidden column of a `MaterializedProject`'s input and output with the input row."""
