"""`WindowOperator`: the base class of windows that are stored until they close."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..frontend.source_text import text_to_compare
from ..program import NEW_STATE, StateNames
from ..sql import intervals
from ..sql.clauses import table_names
from ..windows.emission import FINAL, Emission
from ..windows.windows import Window
from .explanation import Context, Explanation
from .lineage import Lineage, opaque_lineage
from .operator import Operator, Wiring
from .query_summary import rows_suffix, tables_read_by
from .relation import Relation
from .state.window_steps import WindowSpec, WindowSteps


@dataclass(frozen=True, kw_only=True)
class WindowOperator(Operator):
    """Windows over streams, or over results of other windows. A window emits its rows when it closes.

    Its inputs are the windows whose results it reads; none if it reads streams. Its name is that of its spec and
    of the view with its results.
    """

    spec: WindowSpec
    streams: tuple[str, ...]
    """Relations of the streams that are read."""
    at_once: bool = False
    """Whether each micro-batch emits its rows until its state is cleared, since other windows read them."""

    @property
    def tables_read(self) -> frozenset[str]:
        """Names of the tables and views in its input."""
        return table_names(self.spec.written)

    @property
    def filters_on_arrival(self) -> bool:
        """Whether its input rows are filtered by the watermark before the micro-batch."""
        return self.spec.filters_on_arrival

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns a relation without properties: those of the rows are in the `WindowResults` above it."""
        return Relation()

    @abstractmethod
    def window_steps(self, emission: Emission = FINAL, names: StateNames = NEW_STATE) -> WindowSteps:
        """Returns the steps and state of the windows.

        Args:
            emission: when their results are emitted.
        """

    @property
    def source(self) -> str:
        """Text of the input rows."""
        return self.spec.source

    def definition(self, below: Mapping[str, str]) -> dict[str, object]:
        """Returns what the windows compute, without their name.

        Args:
            below: other names for the windows below, made of their meanings.
        """
        return {
            "window": asdict(self.spec.window),
            "streams": list(self.streams),
            "carries": self.spec.time_carries,
            "source": text_to_compare(self.source, below),
        }

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of windows by name. `WindowResults` derives that of their results from `definition`."""
        return opaque_lineage("windows", self.name)

    def explanation(self, context: Context, description: str, *args: Any, **more: Any) -> Explanation:
        """Returns an explanation with the properties of windows. See `Operator.explanation`."""
        emission = context.emission
        last = emission.last if emission.late_updates else emission.complete
        final = (
            f"window_end, final when the watermark reaches it{f' + {intervals.format(last)}' if last else ''}"
        )
        more = {"event_time": final, "reads": tables_read_by(self.spec.written, self._windows_below), **more}
        more["notes"] = (*more.get("notes", ()), *window_bounds(self.spec.window))
        return super().explanation(context, description, *args, **more)

    @property
    def _windows_below(self) -> tuple[str, ...]:
        """Names of the windows below."""
        return tuple(each.name for each in self.inputs)

    def rows_suffix(self) -> str:
        """Returns its input rows, as a suffix of its description."""
        return rows_suffix(self.spec.written, (*self.spec.streams, *self._windows_below))

    def clearing_phrase(self, context: Context, last: str = "") -> str:
        """Returns what clears the state of windows, as a phrase."""
        emission = context.emission
        end = self.spec.window.end_of_state
        if not emission.last:
            return end
        lateness = "allowed lateness" if emission.late_updates else "complete_result_offset"
        return f"{end} + {intervals.format(emission.last)} ({lateness})"

    def generate(self, wiring: Wiring) -> None:
        """Adds the windows' steps, which come before those of all other operators."""
        emission = wiring.emission
        emission = replace(emission, at_once=True) if self.at_once else emission
        wiring.window_steps.append(self.window_steps(emission, wiring.names))


def window_bounds(window: Window) -> Iterator[str]:
    """Yields sentences on the bounds of windows.

    >>> for sentence in window_bounds(Window("cumulate", "ts", 3_600_000_000, 60_000_000, emit="on_change")):
    ...     print(sentence)
    Slices of 1 minute; a window closes every 1 minute.
    A key has results only at steps in which it had new rows.
    """
    if not window.merges:
        yield f"Slices of {intervals.format(window.slice_length)}; a window closes every {intervals.format(window.step)}."
    else:
        whose = f"each {', '.join(window.partition_by)}" if window.partition_by else "all rows together"
        yield f"Sessions of {whose}, ended by {intervals.format(window.size)} without rows."
    if window.kind == "dynamic_cumulate":
        yield (
            f"A result at each step of {intervals.format(window.step)}, the last one at the first step at or after the "
            "session's end."
        )
    if window.emit == "on_change":
        yield "A key has results only at steps in which it had new rows."
    if window.time_zone:
        yield f"Windows are cut on the clock of {window.time_zone}; the watermark is an instant."
