"""`Project`: a query that works row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..lineage import Lineage
from ..operator import Operator, Wiring, over
from ..query_lineage import lineage_of_text


@dataclass(frozen=True, kw_only=True)
class Project(Operator):
    """Row by row: projection, filter, LATERAL VIEW, joins with static tables. No state."""

    sql: str
    """Has the weight among its columns if the input has one."""

    @property
    def lookup_sql(self) -> str:
        """Returns `sql`."""
        return self.sql

    @property
    def depends_on_watermark(self) -> bool:
        """Returns False: rows are passed on as they come."""
        return False

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its query, or of its text if that isn't understood."""
        return lineage_of_text("Project", self.sql, below)

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over its inputs."""
        inputs = [f"select * from {each.name}" for each in self.inputs]
        wiring.output(self, over(self.sql, inputs), lookups=wiring.lookups(self, inputs))


def row_by_row(operator: Operator) -> tuple[list[Project], Operator]:
    """Splits off the `Project` operators at the top: returns them, the lowest first, and the operator below."""
    path: list[Project] = []
    while isinstance(operator, Project):
        path.insert(0, operator)
        (operator,) = operator.inputs
    return path, operator
