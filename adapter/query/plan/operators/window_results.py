"""`WindowResults`: a query over the rows of closed windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...windows.windows import Window
from ..operator import Operator, Wiring, in_order
from ..stages import Stage
from ..state.generations import without_expired_windows
from ..window_operator import WindowOperator
from .window_aggregate import WindowAggregate


@dataclass(frozen=True, kw_only=True)
class WindowResults(Operator):
    """A query over the rows of closed windows, which arrive together. Without windows it works row by row. No
    state.

    Its inputs are the windows; without windows the sources, if other operators read these too.
    """

    sql: str
    """Reads windows by their names, and streams by their views."""
    carried: Mapping[str, str] = field(default_factory=dict)
    """Output column → the window column or group key it holds (``stage.key``)."""
    unique: frozenset[str] | None = None
    """Columns that identify a row of the output; None if nothing does."""
    ranks: tuple[str, ...] = ()
    """Rankings that a filter limits, as written."""
    grouped_rows: tuple[Window, ...] = ()
    """Windows whose buffered rows a GROUP BY reads."""
    certain: bool = True
    """Whether no operation in it can multiply a row."""
    closed: bool = True
    """Whether the window columns in its output belong to closed windows, so that all rows of a window arrive
    at once."""
    written: str = ""
    """`sql` as written in the model, if it differs; for display."""

    @property
    def lookup_sql(self) -> str:
        """Returns `sql`."""
        return self.sql

    @property
    def windows(self) -> tuple[WindowOperator, ...]:
        """Returns the windows below it, inputs first."""
        return tuple(each for each in in_order(self) if isinstance(each, WindowOperator))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Returns the stage of each window."""
        return tuple(each.stage for each in self.windows)

    @property
    def at_once(self) -> bool:
        """Whether its windows feed other windows as they are emitted."""
        return any(each.at_once for each in self.windows)

    @property
    def grouped(self) -> list[Window]:
        """Returns the windows whose rows are grouped."""
        own = [each.stage.window for each in in_order(self) if isinstance(each, WindowAggregate)]
        return [*own, *self.grouped_rows]

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over the windows' results, without rows of windows whose state has expired."""
        text = without_expired_windows(self.sql, self, wiring.ttl)
        wiring.output(self, text, lookups=wiring.lookups(self))
