"""SQL that stores the changes of a window until it closes, and emits them then.

Later changes of a closed window are emitted immediately. Rows that are retracted before their window closes are never
emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, StatePart, clock_sql
from ...sql import intervals
from ...windows.emission import Emission
from ..explanation import Context, Explanation
from ..lineage import Lineage
from ..operator import Operator, Wiring, ttl_of_stored_rows
from ..relation import WEIGHT, WINDOW_END, Relation, delayed_origin
from ..state import generations
from ..state.buffered_rows import (
    ROW,
    TIMES,
    net_change,
    packed_change,
    present_rows,
    repeated_rows,
    summed_rows,
)
from ..state.generations import NO_STEP, not_reached_condition, time_plus_sql
from ..state.window_trigger import firing_due_condition, latest_firing_sql


@dataclass(frozen=True, kw_only=True)
class WindowClose(Operator):
    """Holds back changes of open windows until they close; changes of closed windows pass through. Where it
    is known for how long rows of a window may still arrive, it closes after that, and results are final. Keeps
    the changes of open windows."""

    @property
    def window_end(self) -> str:
        """Returns the column with the window's end, which the watermark must have reached."""
        return str(self.inputs[0].relation.open_until)

    @property
    def open_for(self) -> int | None:
        """Returns how many microseconds after its end a window closes with its final result. None if it isn't known for how
        long rows may arrive: then the window closes at its end, and later changes pass through."""
        return self.inputs[0].relation.open_for

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the properties of its input's rows, now in closed windows. If windows are final when they close, rows are
        only inserted, and those of a window arrive together."""
        (rows,) = below
        found = replace(rows, open_until=None, open_for=None)
        if rows.open_until is None or rows.open_for is None:
            return found
        complete_by = {rows.open_until: delayed_origin(WINDOW_END, rows.open_for)}
        return replace(found, changes=False, ends=None, complete_by=complete_by)

    def lineage(self, below: Sequence[Lineage]) -> Lineage | None:
        """Returns the lineage of the input's rows, emitted when windows close."""
        (rows,) = below
        return rows.with_rows("closed", rows.column(self.window_end))

    def generate(self, wiring: Wiring) -> None:
        """Stores changes of open windows, and emits those of windows that close."""
        windows = OpenWindows(
            self, wiring.name_in_state(self.name), ttl_of_stored_rows(self, wiring.ttl), wiring.emission
        )
        wiring.add_output_step(self, *windows.change_sql())
        wiring.add_state_table(windows.state(), self)

    def explain(self, context: Context) -> Explanation:
        """Returns when windows close, and that their changes are stored until then."""
        emission = context.emission
        delay = (
            f" + {intervals.format(emission.complete)} (complete_result_offset)" if emission.complete else ""
        )
        if self.open_for:
            delay = f" + {intervals.format(self.open_for)}"
        early = ", and at early firing" if emission.first is not None else ""
        when = f"when the watermark reaches {self.window_end}{delay}{early}"
        state = context.state_tables({}, ("a change of an open window", f"window end{delay}"))
        return self.explanation(context, when, state=state)


_STORED_AT = "__came_at"
"""Column with the watermark, in microseconds, after the micro-batch that stored a change."""


class OpenWindows:
    """Steps and state of a `WindowClose`.

    Args:
        part: name of the state table.
        ttl: microseconds after which an idle key below expires. None for never.
        emission: when results are emitted.
    """

    def __init__(self, operator: WindowClose, part: str, ttl: int | None, emission: Emission) -> None:
        self.emission = emission
        (self.below,) = operator.inputs
        self.part, self.open_for = part, operator.open_for
        self.row, self.times, self.stored_at = (
            quote(f"{self.part}_{name}") for name in ("row", "times", "came_at")
        )
        self.end = f"{ROW}.{quote(operator.window_end)}"
        if emission.may_update_results:
            end, before, after = (
                _micros_sql(self.end),
                _micros_sql(clock_sql("now_before")),
                _micros_sql(clock_sql("now_after")),
            )
            is_due = firing_due_condition(emission, end, before, after)
            # A change that arrives after the on-time firing is emitted immediately.
            self.is_emitted = f"({is_due} or coalesce({after} >= {end} + {emission.complete}, false))"
            self.waits = f"not {self.is_emitted}"
        else:
            self.end = time_plus_sql(self.end, self.open_for) if self.open_for else self.end
            self.waits = not_reached_condition(self.end)
            self.is_emitted = f"not {self.waits}"
        relation = self.below.relation
        self.changes = relation.changes
        # If a key expires and returns, its new row is inserted without a retraction of the previous one.
        self._key_columns = (
            [f"{ROW}.{quote(column)}" for column in sorted(relation.key or ())]
            if ttl is not None and relation.changes
            else []
        )

    def change_sql(self) -> tuple[str, str]:
        """Returns the changes that a micro-batch emits, and the same for an empty state."""
        step = f"{clock_sql(STEP)} as {generations.ADDED_IN}"
        new = f"select {ROW}, {TIMES}, {step} from (\n{packed_change(self.below)}\n)\nwhere {self.is_emitted}"
        stored = f"{self._stored_columns()}\nwhere {self.is_emitted}"
        if self.emission.may_update_results:
            stored += f" and not {self._was_emitted_condition('now_before')}"
            # A retraction may be of a row that was emitted before, so its weight stays negative.
            net = net_change if self.changes else partial(repeated_rows, changes=False)
            return net(f"{stored}\nunion all\n{new}"), net(new)
        open_before = not_reached_condition(self.end, "watermark_before")
        closes, closed = f"{new} and {open_before}", f"{new} and not {open_before}"
        stored += f" and {open_before}"
        return self._closed_rows(f"{stored}\nunion all\n{closes}", closed), self._closed_rows(closes, closed)

    def state(self) -> StatePart:
        if self.emission.may_update_results:
            items = self._state_items(f"{_micros_sql(clock_sql('now_after'))} as {self.stored_at}, ")
            step, kept = (
                f"{generations.ADDED_IN} as {STEP}",
                self._state_items(f"{_STORED_AT} as {self.stored_at}, "),
            )
            after = self._was_emitted_condition("now_after")
            fold = f"select {step}, {kept}\nfrom (\n{self._stored_changes()}\n) where not {after}"
        else:
            items = self._state_items()
            rows = f"{self._stored_columns()}\nwhere {self.waits}"
            rows = self._summed_rows(rows) if self.changes else rows
            fold = f"select {NO_STEP}, {items}\nfrom (\n{rows}\n)"
        append = f"select {clock_sql(STEP)} as {STEP}, {items}\nfrom (\n{packed_change(self.below)}\n) where {self.waits}"
        return StatePart(self.part, append, fold)

    def _state_items(self, stored_at: str = "") -> str:
        return f"{ROW} as {self.row}, {TIMES} as {self.times}, {stored_at}{self.end} as {EXPIRES_AT}"

    def _was_emitted_condition(self, watermark: str) -> str:
        """SQL predicate: a stored change has been emitted by a watermark."""
        passed = latest_firing_sql(self.emission, _micros_sql(self.end), _micros_sql(clock_sql(watermark)))
        return f"coalesce({passed} > {_STORED_AT}, {_STORED_AT} is null and {passed} is not null)"

    def _stored_changes(self) -> str:
        columns = f"{self.row} as {ROW}, {self.times} as {TIMES}, {STEP} as {generations.ADDED_IN}"
        columns += f", {self.stored_at} as {_STORED_AT}" if self.emission.may_update_results else ""
        return f"select {columns} from state where part = '{self.part}'"

    def _stored_columns(self) -> str:
        return f"select {ROW}, {TIMES}, {generations.ADDED_IN} from (\n{self._stored_changes()}\n)"

    def _summed_rows(self, rows: str) -> str:
        """Returns rows with their multiplicity, over all stored changes."""
        if self._key_columns:
            return generations.newest_rows(rows, [ROW], TIMES, self._key_columns)
        return summed_rows(rows)

    def _closed_rows(self, closes: str, closed: str) -> str:
        """Returns the rows of closing windows, and changes of windows that had closed."""
        if not self.changes:
            return repeated_rows(f"{closes}\nunion all\n{closed}", False)
        if self.open_for is not None:
            # All rows of the window have arrived when it closes, so the changes add up to its result.
            return repeated_rows(present_rows(f"select {ROW}, {TIMES} from (\n{closes}\n)", True), True)
        return (
            f"select {ROW}.*, {TIMES} as {WEIGHT} from (\n{self._summed_rows(closes)}\nunion all\n"
            f"select {ROW}, {TIMES} from (\n{closed}\n)\n)"
        )


def _micros_sql(time: str) -> str:
    return f"unix_micros({time})"
