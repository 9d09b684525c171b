"""SQL that holds changes back until their window closes: stored until then, and emitted when the watermark passes.

Results of a closed window that change later are passed on at once. Results that are retracted before their window
closes are never emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

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
from ..state.buffered_rows import ROW, TIMES, added_up, netted, packed, repeated, summed
from ..state.generations import NO_STEP, is_not_reached, later
from ..state.window_trigger import is_firing_due, latest_firing


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
        self.end = f"{ROW}.{quote(operator.window_end)}"
        if emission.changes:
            end, before, after = _micros(self.end), _micros(now("now_before")), _micros(now("now_after"))
            is_due = is_firing_due(emission, end, before, after)
            # Or it arrived after the on-time firing.
            self.is_emitted = f"({is_due} or coalesce({after} >= {end} + {emission.complete}, false))"
            self.waits = f"not {self.is_emitted}"
        else:
            self.end = later(self.end, self.lasts) if self.lasts else self.end
            self.waits = is_not_reached(self.end)
            self.is_emitted = f"not {self.waits}"
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
        step = f"{now(STEP)} as {generations.CAME_IN}"
        came = f"select {ROW}, {TIMES}, {step} from (\n{packed(self.below)}\n)\nwhere {self.is_emitted}"
        held = f"{self._stored_columns()}\nwhere {self.is_emitted}"
        if self.emission.changes:
            held += f" and not {self._was_emitted('now_before')}"
            # A retraction may refer to an emitted row, so all weights are kept.
            net = netted if self.changes else partial(repeated, changes=False)
            return net(f"{held}\nunion all\n{came}"), net(came)
        open_before = is_not_reached(self.end, "watermark_before")
        closes, closed = f"{came} and {open_before}", f"{came} and not {open_before}"
        held += f" and {open_before}"
        return self._closed_rows(f"{held}\nunion all\n{closes}", closed), self._closed_rows(closes, closed)

    def state(self) -> StatePart:
        """Returns the state table."""
        if self.emission.changes:
            came = self._items(f"{_micros(now('now_after'))} as {self.came_at}, ")
            step, kept = f"{generations.CAME_IN} as {STEP}", self._items(f"{_CAME_AT} as {self.came_at}, ")
            after = self._was_emitted("now_after")
            fold = f"select {step}, {kept}\nfrom (\n{self._stored_changes()}\n) where not {after}"
        else:
            came = self._items()
            rows = f"{self._stored_columns()}\nwhere {self.waits}"
            rows = self._summed(rows) if self.changes else rows
            fold = f"select {NO_STEP}, {came}\nfrom (\n{rows}\n)"
        append = f"select {now(STEP)} as {STEP}, {came}\nfrom (\n{packed(self.below)}\n) where {self.waits}"
        return StatePart(self.part, append, fold)

    def _items(self, came_at: str = "") -> str:
        return f"{ROW} as {self.row}, {TIMES} as {self.times}, {came_at}{self.end} as {EXPIRES_AT}"

    def _was_emitted(self, watermark: str) -> str:
        """SQL predicate: a stored change has been emitted by a watermark."""
        passed = latest_firing(self.emission, _micros(self.end), _micros(now(watermark)))
        return f"coalesce({passed} > {_CAME_AT}, {_CAME_AT} is null and {passed} is not null)"

    def _stored_changes(self) -> str:
        columns = f"{self.row} as {ROW}, {self.times} as {TIMES}, {STEP} as {generations.CAME_IN}"
        columns += f", {self.came_at} as {_CAME_AT}" if self.emission.changes else ""
        return f"select {columns} from state where part = '{self.part}'"

    def _stored_columns(self) -> str:
        return f"select {ROW}, {TIMES}, {generations.CAME_IN} from (\n{self._stored_changes()}\n)"

    def _summed(self, rows: str) -> str:
        """Returns the multiplicity of rows over all stored changes."""
        if self._key:
            return generations.newest(rows, [ROW], TIMES, self._key)
        return summed(rows)

    def _closed_rows(self, closes: str, closed: str) -> str:
        """Returns the rows of closing windows, and changes of windows that had closed."""
        if not self.changes:
            return repeated(f"{closes}\nunion all\n{closed}", False)
        if self.lasts is not None:
            # All rows of the window are there when it closes; intermediate results aren't emitted.
            return repeated(added_up(f"select {ROW}, {TIMES} from (\n{closes}\n)", True), True)
        return (
            f"select {ROW}.*, {TIMES} as {WEIGHT} from (\n{self._summed(closes)}\nunion all\n"
            f"select {ROW}, {TIMES} from (\n{closed}\n)\n)"
        )


def _micros(time: str) -> str:
    return f"unix_micros({time})"
