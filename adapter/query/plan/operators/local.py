"""`Local`: a query over the rows of one micro-batch that arrive together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..lineage import Lineage
from ..operator import Operator, Wiring, over
from ..query_lineage import lineage_of_text


@dataclass(frozen=True, kw_only=True)
class Local(Operator):
    """A query that needs only the rows of this micro-batch that arrived together. No state."""

    sql: str

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its query, or of its text if that isn't understood."""
        return lineage_of_text("Local", self.sql, below)

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over its inputs."""
        wiring.output(self, over(self.sql, [f"select * from {each.name}" for each in self.inputs]))
