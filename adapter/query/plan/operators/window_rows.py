"""`WindowRows`: rows, each once per window that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....util.quoting import split_path
from ...sql.names import digest
from ...windows.expansion import WINDOW_COLUMNS
from ...windows.windows import Window
from ..explanation import Context, Explanation
from ..lineage import Lineage
from ..operator import Operator, Wiring, with_inputs
from ..relation import Relation
from ..relations.windowed import RowsInWindows
from .window_results import without_expired_windows


@dataclass(frozen=True, kw_only=True)
class WindowRows(Operator):
    """Returns each row once per tumble, hop or cumulate window that it is in, immediately. No state."""

    shown_as = ("WindowTableFunction",)

    sql: str
    window: Window
    fires_again: bool = False
    """Whether a window may have several results."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the rows with their windows, which may be open."""
        return RowsInWindows(self.window, below[0], self.fires_again).relation

    def lineage(self, below: Sequence[Lineage]) -> Lineage | None:
        """Returns the lineage of the input's rows, each repeated for each window that it is in."""
        (every,) = below
        window = self.window
        time = split_path(window.time)
        by = [every.column(name) for name in (time[0], *window.partition_by)]
        made = every.without_columns(*WINDOW_COLUMNS).with_rows("in windows", self.sql, *by, *time[1:])
        if made is None:
            return None
        added = ((name, digest(made.rows, name)) for name in WINDOW_COLUMNS)
        return replace(made, columns=(*made.columns, *added))

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over its inputs, without rows of windows whose state has expired."""
        text = with_inputs(self.sql, [f"select * from {each.name}" for each in self.inputs])
        wiring.add_output_step(self, without_expired_windows(text, self, wiring.ttl))

    def explain(self, context: Context) -> Explanation:
        return self.explanation(context, str(self.window), *self.shown_as)
