"""SQL of a temporal filter: rows are stored without their event time, until the watermark passes their bound.

A row that is beyond its bound when it arrives is never inserted. That depends only on its event time and the
watermark after the micro-batch, so it is independent of how the input is split.

Under a TTL the state above to which a row contributed may expire first; then the row isn't retracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, Rows, StatePart, clock_sql
from ...sql import intervals
from ...sql.intervals import MINUTE
from ..author_text import text_of
from ..explanation import Context, Explanation
from ..lineage import Lineage
from ..operator import Operator, Wiring
from ..relation import WEIGHT, Relation
from ..state.buffered_rows import ROW
from ..state.generations import NO_STEP, not_reached_condition, time_plus_sql
from .source import views_below

ROW_TIME = "__event_time"
"""Column of a `TemporalFilter`'s input with a row's event time."""


@dataclass(frozen=True, kw_only=True)
class TemporalFilter(Operator):
    """A predicate on event time and the current time, which is the watermark: rows of append-only input are
    inserted, and retracted when the watermark is after the bound. Keeps the rows for which it holds.

    Its input has the rows' event time in the column `ROW_TIME`, which isn't passed on.
    """

    lasts: int
    """Microseconds of event time for which a row stays in the result."""
    test: exp.Expr
    """The predicate. Callers must not change it."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the properties of its input's rows, which are now retracted, at a time that no column has."""
        return replace(
            below[0], changes=True, complete_by={}, event_time=None, delays={}, open_for=None, bounded=True
        )

    @property
    def inputs_compared_with_watermark(self) -> tuple[Operator, ...]:
        return self.inputs

    def lineage(self, below: Sequence[Lineage]) -> Lineage | None:
        """Returns the lineage of the input's rows while they meet the predicate."""
        (every,) = below
        return every.without_columns(ROW_TIME).with_rows("recent", every.column(ROW_TIME), self.lasts)

    def generate(self, wiring: Wiring) -> None:
        """Stores rows until the watermark passes their bound, and retracts them then."""
        recent = RecentRows(self, wiring.name_in_state(self.name), wiring.ttl)
        wiring.rows.append(recent.rows())
        wiring.add_output_step(self, *recent.change_sql())
        wiring.add_state_table(recent.state(), self)

    def explain(self, context: Context) -> Explanation:
        """Returns its predicate, and the watermark at which a row leaves."""
        length = self.lasts - isinstance(self.test, exp.GTE | exp.LTE)
        sign = "−" if length > 0 else "+"
        bounds = ["watermark" if not length else f"watermark {sign} {intervals.format(abs(length))}"]
        bounds += filter(None, [context.ttl_after("it came")])
        return self.explanation(
            context,
            text_of(self.test),
            state=context.state_tables({}, ("a row for which it holds", ", or ".join(bounds))),
            notes=("A row leaves the result when the watermark has passed it by that much.",),
        )


_UNTIL, _KNOWN = "__until", "__known"
"""Columns with the watermark that retracts a row, and with the one at which the state above has expired."""


class RecentRows:
    """Steps and state of a `TemporalFilter`.

    Args:
        part: name of the state table.
        ttl: microseconds of event time after which idle state expires. None for never.
    """

    def __init__(self, operator: TemporalFilter, part: str, ttl: int | None) -> None:
        self.operator, self.part, self.ttl = operator, part, ttl
        (self.below,) = operator.inputs
        self.row, self.known = (quote(f"{self.part}_{name}") for name in ("row", "known"))
        self.new_rows = f"{operator.name}_rows"

    def rows(self) -> Rows:
        """Returns the input. A row without an event time is dropped and counted."""
        time = f"own.{quote(ROW_TIME)}"
        until = time_plus_sql(f"cast({time} as timestamp)", self.operator.lasts)
        return Rows(
            self.new_rows,
            f"select struct(* except ({quote(ROW_TIME)})) as {ROW}, {time} as event_time, {until} as {_UNTIL}\n"
            f"from {self.below.name} as own",
            views_below(self.below),
            expires=False,
        )

    def change_sql(self) -> tuple[str, str]:
        """Returns the insertions and retractions of a micro-batch, and the same for an empty state."""
        inserted = (
            f"select {ROW}.*, 1L as {WEIGHT} from {self.new_rows} where {not_reached_condition(_UNTIL)}"
        )
        leaves = f"where {not_reached_condition(_UNTIL, 'watermark_before')} and not {not_reached_condition(_UNTIL)}"
        if self.ttl is not None:
            leaves += f" and {not_reached_condition(_KNOWN, 'watermark_before')}"
        retracted = f"select {ROW}.*, -1L as {WEIGHT} from (\n{self._stored_rows()}\n) {leaves}"
        return f"{inserted}\nunion all\n{retracted}", inserted

    def state(self) -> StatePart:
        """Returns the state table: rows that have to be retracted."""
        known = (
            f", {time_plus_sql(clock_sql('watermark_after'), self.ttl)} as {_KNOWN}"
            if self.ttl is not None
            else ""
        )
        new = f"select {ROW}, {_UNTIL}{known} from {self.new_rows} where {not_reached_condition(_UNTIL)}"
        stored = f"select * from (\n{self._stored_rows()}\n) where {not_reached_condition(_UNTIL)}"
        if self.ttl is not None:
            stored += f" and {not_reached_condition(_KNOWN)}"
        return StatePart(
            self.part,
            f"select {clock_sql(STEP)} as {STEP}, {self._state_items()} from (\n{new}\n)",
            f"select {NO_STEP}, {self._state_items()} from (\n{stored}\n)",
            closes=None,
            forgets=max(self.operator.lasts, MINUTE),
        )

    def _state_items(self) -> str:
        known = f", {_KNOWN} as {self.known}" if self.ttl is not None else ""
        return f"{_UNTIL} as {EXPIRES_AT}, {ROW} as {self.row}{known}"

    def _stored_rows(self) -> str:
        known = f", {self.known} as {_KNOWN}" if self.ttl is not None else ""
        return f"select {self.row} as {ROW}, {EXPIRES_AT} as {_UNTIL}{known} from state where part = '{self.part}'"
