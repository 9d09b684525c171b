"""`Project`: a query that works row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..explanation import Context, Explanation
from ..lineage import Lineage
from ..operator import Operator, QueryOperator, Wiring, with_inputs
from ..query_lineage import lineage_over
from ..query_summary import ROW_BY_ROW, Summary, tables_read_by
from ..relation import Relation
from ..relations.passed import passed_relation


@dataclass(frozen=True, kw_only=True)
class Project(QueryOperator):
    """Row by row: select list, filter, LATERAL VIEW, joins with static tables, which are read in each
    micro-batch, and with external tables, in which its keys are looked up. No state."""

    shown_as = ROW_BY_ROW
    depends_on_watermark = False

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns what passes through from its input."""
        return passed_relation(self.query, below[0])

    @property
    def lookup_query(self) -> exp.Select:
        return self.query

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its query, or of its text if that isn't understood."""
        return lineage_over("Project", self.tree, below)

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over its inputs."""
        inputs = [f"select * from {each.name}" for each in self.inputs]
        wiring.add_output_step(self, with_inputs(self.sql, inputs), lookups=wiring.lookups(self, inputs))

    def explain(self, context: Context) -> Explanation | None:
        """Returns its select list, joins and conditions; None if it only returns columns of its input."""
        if not self.label.upper().startswith("SELECT"):
            return self.explanation(context, self.label)
        name, text = Summary(self.inputs[0].expressions).describe(self.query)
        return self.explanation(context, text, name, reads=tables_read_by(self.query)) if text else None


def row_by_row(operator: Operator) -> tuple[list[Project], Operator]:
    """Returns the `Project` operators at the top of a tree, the lowest first, and the operator below them."""
    path: list[Project] = []
    while isinstance(operator, Project):
        path.insert(0, operator)
        (operator,) = operator.inputs
    return path, operator
