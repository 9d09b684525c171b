"""SQL that holds changes back until their window closes: stored until then, and emitted when the watermark passes.

Results of a closed window that change later are passed on at once. Results that are retracted before their window
closes are never emitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....util.quoting import quote
from ...program import EXPIRES_AT, STEP, StatePart, now
from ...sql import intervals
from ...sql.names import digest
from ...windows.emission import Emission
from ..explanation import Context, Explanation
from ..lineage import Lineage
from ..operator import Operator, Wiring, ttl_over
from ..relation import WEIGHT, WINDOW_END, Relation, comes_late
from ..state import generations
from ..state.buffered_rows import ROW, TIMES, added_up, netted, packed, repeated
from ..state.key_generations import NO_STEP, is_not_reached, later
from ..state.window_trigger import is_firing_due, latest


@dataclass(frozen=True, kw_only=True)
class WindowClose(Operator):
    """Holds back changes of open windows until they close; changes of closed windows pass through. Where it
    is known for how long rows of a window may still arrive, it waits for that, and results are final. Keeps
    what waits."""

    @property
    def window_end(self) -> str:
        """Returns the column with the window's end, which the watermark must have reached."""
        return str(self.inputs[0].relation.open_until)

    @property
    def lasts(self) -> int | None:
        """Returns the microseconds after the window's end in which rows may still arrive. The window closes then, and is
        final. None if unknown: it closes at its end, and later changes pass through."""
        return self.inputs[0].relation.open_for

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns that of its input without open windows. If these are final when they close, rows are only inserted,
        and those of a window arrive together."""
        (of,) = below
        found = replace(of, open_until=None, open_for=None)
        if of.open_until is None or of.open_for is None:
            return found
        together = {of.open_until: comes_late(WINDOW_END, of.open_for)}
        return replace(found, changes=False, ends=None, together=together)

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of the input's rows, emitted when windows close."""
        (of,) = below
        return replace(of, rows=digest("closed", of.rows, of.column(self.window_end)))

    def generate(self, wiring: Wiring) -> None:
        """Stores changes of open windows, and emits those of windows that close."""
        held = OpenWindows(self, ttl_over(self, wiring.ttl), wiring.emission)
        wiring.output(self, *held.change())
        wiring.store(held.state(), self)

    def explain(self, context: Context) -> Explanation:
        """Returns when windows close, until which their changes are stored."""
        emission = context.emission
        later = (
            f" + {intervals.format(emission.complete)} (complete_result_offset)" if emission.complete else ""
        )
        if self.lasts:
            later = f" + {intervals.format(self.lasts)}"
        early = ", and at early firing" if emission.first is not None else ""
        when = f"when the watermark reaches {self.window_end}{later}{early}"
        state = context.states({}, ("a change of an open window", f"window end{later}"))
        return self.explanation(context, when, state=state)

    @property
    def expressions(self) -> Mapping[str, str]:
        """Returns those of its input."""
        return self.inputs[0].expressions


_CAME_AT = "__came_at"
"""The watermark, in microseconds, after the micro-batch in which a change was stored."""


class OpenWindows:
    """Steps and state of a `WindowClose`.

    Args:
        ttl: microseconds after which an idle key below expires. None for never.
        emission: when results are emitted.
    """

    def __init__(self, operator: WindowClose, ttl: int | None, emission: Emission) -> None:
        self.emission = emission
        (self.below,) = operator.inputs
        self.part, self.lasts = operator.name, operator.lasts
        self.row, self.times, self.came_at = (
            quote(f"{self.part}_{what}") for what in ("row", "times", "came_at")
        )
        self.window_end = f"{ROW}.{quote(operator.window_end)}"
        self.end = later(self.window_end, self.lasts) if self.lasts else self.window_end
        relation = self.below.relation
        self.changes = relation.changes
        # A key that expired and returns inserts a row without retracting the previous one.
        self._key = (
            [f"{ROW}.{quote(column)}" for column in sorted(relation.key or ())]
            if ttl is not None and relation.changes
            else []
        )

    def change(self) -> tuple[str, str]:
        """Returns the emitted change of a micro-batch, and the same for an empty state."""
        if self.emission.changes:
            return self._change_of_results()
        open_before = is_not_reached(self.end, "watermark_before")
        came = (
            f"select {ROW}, {TIMES}, {now(STEP)} as {generations.CAME_IN} from (\n{packed(self.below)}\n)\n"
            f"where not {is_not_reached(self.end)}"
        )
        held = (
            f"select {ROW}, {TIMES}, {generations.CAME_IN} from (\n{self._stored_changes()}\n)\n"
            f"where not {is_not_reached(self.end)} and {open_before}"
        )
        closes, closed = f"{came} and {open_before}", f"{came} and not {open_before}"
        return self._closed_rows(f"{held}\nunion all\n{closes}", closed), self._closed_rows(closes, closed)

    def state(self) -> StatePart:
        """Returns the state table."""
        if self.emission.changes:
            return self._state_of_results()
        append = (
            f"select {now(STEP)} as {STEP}, {ROW} as {self.row}, {TIMES} as {self.times}, {self.end} as {EXPIRES_AT}\n"
            f"from (\n{packed(self.below)}\n) where {is_not_reached(self.end)}"
        )
        columns = f"{ROW}, {TIMES}, {generations.CAME_IN}"
        rows = f"select {columns} from (\n{self._stored_changes()}\n)\nwhere {is_not_reached(self.end)}"
        if self.changes:
            rows = self._summed(rows)
        fold = (
            f"select {NO_STEP}, {ROW} as {self.row}, {TIMES} as {self.times}, {self.end} as {EXPIRES_AT}\n"
            f"from (\n{rows}\n)"
        )
        return StatePart(self.part, append, fold)

    # -- where windows have several results --------------------------------------------------------

    def _change_of_results(self) -> tuple[str, str]:
        came = (
            f"select {ROW}, {TIMES}, {now(STEP)} as {generations.CAME_IN} from (\n{packed(self.below)}\n)\n"
            f"where {self._is_emitted()}"
        )
        before = self._was_emitted(_micros(now("now_before")), _CAME_AT)
        held = (
            f"select {ROW}, {TIMES}, {generations.CAME_IN} from (\n{self._stored_changes_with_watermark()}\n)\n"
            f"where {self._is_emitted()} and not {before}"
        )
        return self._net_change(f"{held}\nunion all\n{came}"), self._net_change(came)

    def _net_change(self, rows: str) -> str:
        """Returns the net change. A retraction may refer to an emitted row, so all weights are kept."""
        if not self.changes:
            return f"select {ROW}.* from (\n{rows}\n)"
        return netted(rows)

    def _state_of_results(self) -> StatePart:
        came_at = f"{_micros(now('now_after'))} as {self.came_at}"
        append = (
            f"select {now(STEP)} as {STEP}, {ROW} as {self.row}, {TIMES} as {self.times}, {came_at}, "
            f"{self.window_end} as {EXPIRES_AT}\nfrom (\n{packed(self.below)}\n) where not {self._is_emitted()}"
        )
        after = self._was_emitted(_micros(now("now_after")), _CAME_AT)
        fold = (
            f"select {generations.CAME_IN} as {STEP}, {ROW} as {self.row}, {TIMES} as {self.times}, "
            f"{_CAME_AT} as {self.came_at}, {self.window_end} as {EXPIRES_AT}\n"
            f"from (\n{self._stored_changes_with_watermark()}\n) where not {after}"
        )
        return StatePart(self.part, append, fold)

    def _is_emitted(self) -> str:
        """SQL predicate: a change is emitted in this micro-batch, or arrived after the on-time firing."""
        end, after = _micros(self.window_end), _micros(now("now_after"))
        is_due = is_firing_due(self.emission, end, _micros(now("now_before")), after)
        return f"({is_due} or coalesce({after} >= {end} + {self.emission.complete}, false))"

    def _was_emitted(self, at: str, came_at: str) -> str:
        """SQL predicate: a change that was stored at one watermark has been emitted by another one."""
        end = _micros(self.window_end)
        passed = latest(self.emission, end, at)
        return f"coalesce({passed} > {came_at}, {came_at} is null and {passed} is not null)"

    def _stored_changes_with_watermark(self) -> str:
        columns = f"{self.row} as {ROW}, {self.times} as {TIMES}, {STEP} as {generations.CAME_IN}"
        return f"select {columns}, {self.came_at} as {_CAME_AT} from state where part = '{self.part}'"

    def _stored_changes(self) -> str:
        columns = f"{self.row} as {ROW}, {self.times} as {TIMES}, {STEP} as {generations.CAME_IN}"
        return f"select {columns} from state where part = '{self.part}'"

    def _summed(self, rows: str) -> str:
        """Returns the multiplicity of rows over all stored changes."""
        if self._key:
            return generations.newest(rows, [ROW], TIMES, self._key)
        return (
            f"select {ROW}, sum({TIMES}) as {TIMES} from (\n{rows}\n) group by {ROW} having sum({TIMES}) <> 0"
        )

    def _closed_rows(self, closes: str, closed: str) -> str:
        """Returns the rows of closing windows, and changes of windows that had closed."""
        if not self.changes:
            return f"select {ROW}.* from (\n{closes}\nunion all\n{closed}\n)"
        if self.lasts is not None:
            # All rows of the window are there when it closes; intermediate results aren't emitted.
            return repeated(added_up(f"select {ROW}, {TIMES} from (\n{closes}\n)", True), True)
        return (
            f"select {ROW}.*, {TIMES} as {WEIGHT} from (\n{self._summed(closes)}\nunion all\n"
            f"select {ROW}, {TIMES} from (\n{closed}\n)\n)"
        )


def _micros(time: str) -> str:
    return f"unix_micros({time})"
