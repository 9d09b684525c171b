"""`LateRows`: counts rows behind the watermark, and drops rows without a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....util.quoting import quote
from ...program import Rows
from ..explanation import Context, Explanation
from ..lineage import Lineage
from ..operator import Operator, Wiring
from ..relation import Relation
from ..state.buffered_rows import ROW
from .source import views_below


@dataclass(frozen=True, kw_only=True)
class LateRows(Operator):
    """Counts rows behind the watermark, because the rows they would have matched may have expired, and returns
    them with the others. Rows without a time are dropped and counted. No state."""

    time: str
    """Column that the watermark is measured on."""
    label: str = "late rows counted"

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the properties of its input's rows."""
        return below[0]

    @property
    def rows_name(self) -> str:
        """Returns the name of its `Rows`."""
        return f"{self.name}_rows"

    @property
    def inputs_compared_with_watermark(self) -> tuple[Operator, ...]:
        return self.inputs

    def lineage(self, below: Sequence[Lineage]) -> Lineage | None:
        """Returns the lineage of the input's rows with a time."""
        (rows,) = below
        return rows.with_rows("late", rows.column(self.time))

    def generate(self, wiring: Wiring) -> None:
        """Compares the rows with the watermark and passes them on."""
        (below,) = self.inputs
        text = f"select struct(own.*) as {ROW}, own.{quote(self.time)} as event_time from {below.name} as own"
        wiring.rows.append(Rows(self.rows_name, text, views_below(below), expires=False, forgets=True))
        wiring.add_output_step(self, f"select {ROW}.* from {self.rows_name}")

    def explain(self, context: Context) -> Explanation:
        """Returns which of the rows are counted."""
        return self.explanation(context, f"rows behind the watermark, by {self.time}, are counted")
