"""`Local`: a query over the rows of one micro-batch that arrive together."""

from __future__ import annotations

from dataclasses import dataclass

from ..operator import Operator, Wiring, over


@dataclass(frozen=True, kw_only=True)
class Local(Operator):
    """A query that needs only the rows of this micro-batch that arrived together. No state."""

    sql: str

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over its inputs."""
        wiring.output(self, over(self.sql, [f"select * from {each.name}" for each in self.inputs]))
