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
"""Origin of columns by which rows arrive together that were emitted when the watermark had reached their
time."""
WINDOW_END = "window_end"
"""Origin of columns by which rows of closed windows arrive together."""
_COME_IN_ORDER = (WINDOW_END, "window_time", EVENT_TIME)
"""Origins whose values arrive in ascending order. Local times aren't among them, since clocks are set back."""
_LATE = " + "


def comes_late(what: str, micros: int) -> str:
    """Returns the origin of a column whose values arrive `micros` microseconds after the watermark has
    reached them.

    >>> comes_late("window_end", 60), comes_late("window_end", 0)
    ('window_end + 60', 'window_end')
    """
    return f"{what}{_LATE}{micros}" if micros else what


def comes_in_order(what: str | None) -> bool:
    """Whether values of this origin arrive in ascending order.

    >>> comes_in_order("window_end + 60"), comes_in_order("window_end Europe/Berlin"), comes_in_order(None)
    (True, False, False)
    """
    return what is not None and what.partition(_LATE)[0] in _COME_IN_ORDER


def weight_of(number: int) -> str:
    """Returns the weight column of one of several joined inputs."""
    return f"{WEIGHT}_{number}"


@dataclass(frozen=True)
class Relation:
    """Properties of an edge, derived from the operators below it."""

    changes: bool = False
    """Whether rows may be retracted."""
    together: Mapping[str, str] = field(default_factory=dict)
    """Columns (lower case) by whose values rows arrive together: all rows with a value arrive in one
    micro-batch, and none later. Mapped to the origin of the column: rows of two relations arrive together if
    both columns have the same origin."""
    open_until: str | None = None
    """Column (lower case) with the end of a window that may still be open; None if rows belong to no such
    window."""
    open_for: int | None = None
    """Microseconds after the end of such a window in which its rows may still arrive; its result is final
    afterwards. None if unknown: the result may change later."""
    ends: str | None = None
    """For an updating table, the column (lower case) with a window's end: some time after it no row with that
    value is inserted or retracted any more. None if there is none."""
    in_time: frozenset[str] = frozenset()
    """Columns (lower case) with the end of the row's window, or its last instant: windows over these columns end at
    that time or later."""
    event_time: str | None = None
    """For rows of a stream as they arrive, the column (lower case) that its watermark is measured on: a row
    is late if the watermark is after its time. None if the column doesn't pass through, or rows arrive
    otherwise."""
    delays: Mapping[str, int] = field(default_factory=dict)
    """Other columns (lower case) with event time → microseconds after the watermark has reached a time in
    which rows with it may still arrive."""
    keys: tuple[frozenset[str], ...] = ()
    """Sets of columns (lower case); each set identifies a row."""
    bounded: bool = False
    """Whether its number of rows is bounded."""
    repeatable: bool = True
    """Whether the same input always gives the same rows."""

    @property
    def times(self) -> dict[str, int]:
        """Returns all columns with event time, each with its delay in microseconds, as in `delays`."""
        own = {} if self.event_time is None else {self.event_time: 0}
        late = {
            column: what.partition(_LATE)[2] for column, what in self.together.items() if comes_in_order(what)
        }
        return {**self.delays, **own, **{column: int(micros or 0) for column, micros in late.items()}}

    @property
    def key(self) -> frozenset[str] | None:
        """Returns the smallest set of columns that identifies a row; None if nothing does."""
        return smallest(self.keys)


def smallest(keys: Sequence[frozenset[str]]) -> frozenset[str] | None:
    """Returns the key with the fewest columns; None if there is no key.

    >>> smallest([frozenset({"a", "b"}), frozenset({"c"})]), smallest([])
    (frozenset({'c'}), None)
    """
    return min(keys, key=lambda each: (len(each), sorted(each)), default=None)


def common_end(left: Relation, right: Relation, pairs: Mapping[str, str]) -> str | None:
    """Returns the column of the left relation with the end of windows that both relations' rows expire with; None if
    there is none.

    Args:
        left: a side of a set operation.
        right: the other side.
        pairs: columns of the left side → those of the right one at the same position.

    >>> common_end(Relation(ends="a"), Relation(ends="b"), {"a": "b"})
    'a'
    """
    return left.ends if left.ends is not None and pairs.get(left.ends, "") == right.ends else None


GIVEN_BY = "__given_by"
"""Column of a `MaterializedProject`'s input and output that holds the source row."""
