"""SQL of changes that are held back until their window closes: kept in the state till then, and let go by the watermark.

A window that has closed may change again where rows under it do; such changes are passed on at once. Results of open
windows that were retracted before their window closed never leave.
"""

from __future__ import annotations

from ..continuous.lives import NO_STEP, lasts
from ..program import EXPIRES_AT, STEP, StatePart, now
from ..windows import quote
from . import lives
from .base import WindowClose
from .kept import ROW, TIMES, packed
from .relation import WEIGHT


class OpenWindows:
    """The pieces of a `WindowClose`.

    Args:
        operator: the operator.
        ttl: microseconds after which an idle key below is forgotten; None: never.
    """

    def __init__(self, operator: WindowClose, ttl: int | None) -> None:
        (self.below,) = operator.inputs
        self.part = operator.name
        self.row, self.times = (quote(f"{self.part}_{what}") for what in ("row", "times"))
        self.end = f"{ROW}.{quote(operator.window_end)}"
        relation = self.below.relation
        self.changes = relation.changes
        # A key that was forgotten and comes again gives a row without taking the one before away.
        self._key = (
            [f"{ROW}.{quote(column)}" for column in sorted(relation.key or ())]
            if ttl is not None and relation.changes
            else []
        )

    def change(self) -> tuple[str, str]:
        """What leaves in a micro-batch, and the same with an empty state."""
        open_before = lasts(self.end, "watermark_before")
        came = (
            f"select {ROW}, {TIMES}, {now(STEP)} as {lives.CAME_IN} from (\n{packed(self.below)}\n)\n"
            f"where not {lasts(self.end)}"
        )
        held = (
            f"select {ROW}, {TIMES}, {lives.CAME_IN} from (\n{self._stored()}\n)\n"
            f"where not {lasts(self.end)} and {open_before}"
        )
        closes, closed = f"{came} and {open_before}", f"{came} and not {open_before}"
        return self._let_go(f"{held}\nunion all\n{closes}", closed), self._let_go(closes, closed)

    def state(self) -> StatePart:
        """The part of the state."""
        append = (
            f"select {now(STEP)} as {STEP}, {ROW} as {self.row}, {TIMES} as {self.times}, {self.end} as {EXPIRES_AT}\n"
            f"from (\n{packed(self.below)}\n) where {lasts(self.end)}"
        )
        rows = f"select {ROW}, {TIMES}, {lives.CAME_IN} from (\n{self._stored()}\n)\nwhere {lasts(self.end)}"
        if self.changes:
            rows = self._summed(rows)
        fold = (
            f"select {NO_STEP}, {ROW} as {self.row}, {TIMES} as {self.times}, {self.end} as {EXPIRES_AT}\n"
            f"from (\n{rows}\n)"
        )
        return StatePart(self.part, append, fold)

    def _stored(self) -> str:
        columns = f"{self.row} as {ROW}, {self.times} as {TIMES}, {STEP} as {lives.CAME_IN}"
        return f"select {columns} from state where part = '{self.part}'"

    def _summed(self, rows: str) -> str:
        """How often rows are there in all that came and went."""
        if self._key:
            return lives.newest(rows, [ROW], TIMES, self._key)
        return (
            f"select {ROW}, sum({TIMES}) as {TIMES} from (\n{rows}\n) group by {ROW} having sum({TIMES}) <> 0"
        )

    def _let_go(self, closes: str, closed: str) -> str:
        """The rows of windows that close, and changes of those that had."""
        if not self.changes:
            return f"select {ROW}.* from (\n{closes}\nunion all\n{closed}\n)"
        return (
            f"select {ROW}.*, {TIMES} as {WEIGHT} from (\n{self._summed(closes)}\nunion all\n"
            f"select {ROW}, {TIMES} from (\n{closed}\n)\n)"
        )
