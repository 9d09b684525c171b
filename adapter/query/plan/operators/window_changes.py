"""SQL of windows whose results change: a result is stored, and retracted when the next one is emitted.

A micro-batch emits all rows of a window that fires. The previous ones are stored until the end of allowed lateness, so
the change is exact whatever the query computes from a window. A session may get other bounds when more rows arrive: the
previous rows within the new bounds are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....util.quoting import quote
from ...program import EXPIRES_AT, StateNames, StatePart, Step
from ...sql.names import digest
from ..explanation import WINDOW_END, Context, Explanation
from ..lineage import Lineage
from ..operator import Operator, Wiring
from ..relation import Relation
from ..state.buffered_rows import ROW, TIMES, net_change, packed_change
from ..state.generations import not_reached_condition
from ..state.sessions import InSessions, Sessions
from .window_results import WindowResults


@dataclass(frozen=True, kw_only=True)
class WindowChanges(Operator):
    """Windows that fire several times: a new result of a window retracts the rows of the previous one. Keeps
    the latest rows of each open window."""

    end: str
    """Column with the window's end."""
    start: str | None
    """Column with the window's start, if later rows can change a window's bounds; None if they can't."""
    by: tuple[tuple[str, str], ...]
    """Partition columns of such windows, each as its name in the result and its name in the list of fired windows."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns changes of windows, which expire with their end. A session that is extended retracts its result when the
        next one is emitted, possibly long after its end."""
        results, keys = self.results, below[0].keys
        (spec,) = results.specs
        if spec.window.merges and not spec.window.grows:
            return Relation(True, keys=keys)
        in_time = {
            name.lower()
            for name, kind in results.column_origins.items()
            if kind in ("window_end", "window_time")
        }
        return Relation(True, keys=keys, ends=self.end, in_time=frozenset(in_time))

    @property
    def results(self) -> WindowResults:
        (below,) = self.inputs
        assert isinstance(below, WindowResults)
        return below

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of the windows' results, as changes."""
        (rows,) = below
        return replace(rows, rows=digest("changes", rows.meaning, (self.end, self.start, self.by)))

    def generate(self, wiring: Wiring) -> None:
        """Stores the result of each window, and emits the next one with a retraction of it."""
        changed = ChangedWindows(self, wiring.names)
        text, initial = changed.change_sql()
        # The state reads it too.
        wiring.steps.append(Step(self.name, text, persist=True, initial=initial))
        wiring.add_state_table(changed.state(), self)

    def explain(self, context: Context) -> Explanation:
        """Returns that results of open windows are stored."""
        state = context.state_tables({}, ("what a window gave last, to be retracted as it was", WINDOW_END))
        return self.explanation(context, "early and late firing", state=state)


class ChangedWindows:
    """Steps and state of a `WindowChanges`."""

    def __init__(self, operator: WindowChanges, names: StateNames) -> None:
        self.operator, self.below = operator, operator.results
        (windows,) = self.below.windows
        self.spec = windows.spec
        self.part = names.get(operator.name, operator.name)
        self.row, self.times = (quote(f"{self.part}_{name}") for name in ("row", "times"))
        self.end = f"{ROW}.{quote(operator.end)}"
        steps = windows.window_steps(names=names)
        self.windows_step = steps.windows_step
        self.sessions: Sessions | None = None
        """Sessions, which may be extended, so that a previous result may have an earlier end; None for other windows."""
        if isinstance(steps, InSessions) and not self.spec.window.grows:
            self.sessions = steps.sessions

    def change_sql(self) -> tuple[str, str]:
        """Returns the change of a micro-batch, and the same for an empty state."""
        inserted = packed_change(self.below)
        stored = self._stored_rows()
        if self.sessions is None:
            stored += f" and {not_reached_condition(EXPIRES_AT, 'watermark_before')}"
        retracted = (
            f"select own.{ROW}, -own.{TIMES} as {TIMES} from (\n{stored}\n) as own\n"
            f"left semi join (\n{self._fired_windows()}\n) as fired on {self._same_window_condition()}"
        )
        return net_change(f"{inserted}\nunion all\n{retracted}"), net_change(inserted)

    def state(self) -> StatePart:
        append = f"select {self._state_items()} from (\n{packed_change(self.operator)}\n)"
        rows = (
            f"select {ROW}, sum({TIMES}) as {TIMES} from (\n{self._unexpired_rows()}\n)\n"
            f"group by {ROW} having sum({TIMES}) <> 0"
        )
        return StatePart(self.part, append, f"select {self._state_items()} from (\n{rows}\n)")

    def _state_items(self) -> str:
        return f"{ROW} as {self.row}, {TIMES} as {self.times}, {self.end} as {EXPIRES_AT}"

    def _stored_rows(self) -> str:
        return f"select {self.row} as {ROW}, {self.times} as {TIMES} from state where part = '{self.part}'"

    def _unexpired_rows(self) -> str:
        """Returns the stored rows of windows that may still change after the micro-batch."""
        still_open = f"{self._stored_rows()} and {not_reached_condition(EXPIRES_AT)}"
        if self.sessions is None:
            return still_open
        open_sessions = self.sessions.bounds_as_instants(self._key_names, self.sessions.open_after_batch())
        extended = (
            f"select own.* from (\n{self._stored_rows()} and not {not_reached_condition(EXPIRES_AT)}\n) as own\n"
            f"left semi join (\n{open_sessions}\n) as fired "
            f"on {self._same_window_condition()}"
        )
        return f"{still_open}\nunion all\n{extended}"

    @property
    def _key_names(self) -> list[str]:
        return [name for _, name in self.operator.by]

    def _fired_windows(self) -> str:
        """Returns the windows that emit a result."""
        if self.sessions is not None:
            return self.sessions.bounds_as_instants(self._key_names)
        columns = [quote(name) for _, name in self.operator.by]
        bounds = ["window_end"] if self.operator.start is None else ["window_start", "window_end"]
        return f"select distinct {', '.join([*columns, *bounds])} from {self.windows_step}"

    def _same_window_condition(self) -> str:
        """SQL predicate: a row of ``own`` belonged to a window in ``fired``."""
        end = f"own.{self.end}"
        if self.operator.start is None:
            return f"{end} = fired.window_end"
        by = [f"own.{ROW}.{quote(column)} <=> fired.{quote(name)}" for column, name in self.operator.by]
        by.append(f"own.{ROW}.{quote(self.operator.start)} >= fired.window_start")
        # The ends of dynamic_cumulate's steps are fixed; an extended session ends later.
        by.append(f"{end} {'=' if self.spec.window.grows else '<='} fired.window_end")
        if self.sessions is not None:
            # The result of a closed session stays, even if a later session has bounds around it.
            by.append(f"{end} >= fired.merge_from")
        return " and ".join(by)
