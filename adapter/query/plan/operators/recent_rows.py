"""SQL of rows that leave as time goes by: kept, without their event time, until the watermark has passed their bound.

A row that is beyond its bound when it comes was never in. Whether one is in is told by its event time and the watermark
after the micro-batch alone, so it is the same however the input is cut.

Under a TTL what stands above forgets a row that came so long ago, and what it was put into; then it isn't taken out either.
"""

from __future__ import annotations

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, Rows, StatePart, now
from ...sql.intervals import MINUTE
from ..base import ROW_TIME, Source, TemporalFilter, in_order
from ..relation import WEIGHT
from .buffered_rows import ROW
from .key_generations import NO_STEP, lasts, later

_UNTIL, _KNOWN = "__until", "__known"
"""When a row leaves, and until when what stands above knows it."""


class RecentRows:
    """The pieces of a `TemporalFilter`.

    Args:
        operator: the operator.
        ttl: microseconds of event time after which what is idle expires; None: never.
    """

    def __init__(self, operator: TemporalFilter, ttl: int | None) -> None:
        self.operator, self.ttl, self.part = operator, ttl, operator.name
        (self.below,) = operator.inputs
        self.row, self.known = (quote(f"{self.part}_{what}") for what in ("row", "known"))
        self.came = f"{self.part}_rows"

    def rows(self) -> Rows:
        """Its input: a row without an event time is in no result, and counted."""
        time = f"own.{quote(ROW_TIME)}"
        until = later(f"cast({time} as timestamp)", self.operator.lasts)
        return Rows(
            self.came,
            f"select struct(* except ({quote(ROW_TIME)})) as {ROW}, {time} as event_time, {until} as {_UNTIL}\n"
            f"from {self.below.name} as own",
            tuple(each.view for each in in_order(self.below) if isinstance(each, Source)),
            expires=False,
        )

    def change(self) -> tuple[str, str]:
        """What comes and leaves in a micro-batch, and the same with an empty state."""
        came = f"select {ROW}.*, 1L as {WEIGHT} from {self.came} where {lasts(_UNTIL)}"
        in_before = f"where {lasts(_UNTIL, 'watermark_before')} and not {lasts(_UNTIL)}"
        if self.ttl is not None:
            in_before += f" and {lasts(_KNOWN, 'watermark_before')}"
        left = f"select {ROW}.*, -1L as {WEIGHT} from (\n{self._stored()}\n) {in_before}"
        return f"{came}\nunion all\n{left}", came

    def state(self) -> StatePart:
        """The part of the state: rows that have still to leave."""
        known = f", {later(now('watermark_after'), self.ttl)} as {_KNOWN}" if self.ttl is not None else ""
        came = f"select {ROW}, {_UNTIL}{known} from {self.came} where {lasts(_UNTIL)}"
        still = f"select * from (\n{self._stored()}\n) where {lasts(_UNTIL)}"
        if self.ttl is not None:
            still += f" and {lasts(_KNOWN)}"
        return StatePart(
            self.part,
            f"select {now(STEP)} as {STEP}, {self._items()} from (\n{came}\n)",
            f"select {NO_STEP}, {self._items()} from (\n{still}\n)",
            closes=None,
            forgets=max(self.operator.lasts, MINUTE),
        )

    def _items(self) -> str:
        known = f", {_KNOWN} as {self.known}" if self.ttl is not None else ""
        return f"{_UNTIL} as {EXPIRES_AT}, {ROW} as {self.row}{known}"

    def _stored(self) -> str:
        known = f", {self.known} as {_KNOWN}" if self.ttl is not None else ""
        return f"select {self.row} as {ROW}, {EXPIRES_AT} as {_UNTIL}{known} from state where part = '{self.part}'"
