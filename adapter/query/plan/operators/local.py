"""`Local`: a query over the rows of one micro-batch that arrive together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...normalize.conditions import is_repeatable
from ..explanation import Context, Explanation
from ..lineage import Lineage
from ..operator import QueryOperator, Wiring, with_inputs
from ..query_lineage import lineage_over
from ..query_summary import ANY_QUERY, WITHIN_WINDOWS, Summary, tables_read_by
from ..relation import Relation
from ..relations.joined import JoinedRelations
from ..relations.passed import passed_relation


@dataclass(frozen=True, kw_only=True)
class Local(QueryOperator):
    """A query that needs only the rows of this micro-batch, because all rows of a window arrive together:
    joins, rankings and groups within windows. No state."""

    shown_as = ANY_QUERY

    unique: tuple[frozenset[str], ...] = ()
    """Sets of columns that identify a group, or a ranked row; each set does."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns rows that arrive together as those of its inputs do. DISTINCT passes on all of their columns."""
        if self.query.args.get("distinct"):
            return replace(passed_relation(self.query, below[0]), keys=())
        joined = JoinedRelations(self.query, below)
        is_join = bool(self.query.args.get("joins"))
        return Relation(
            complete_by=joined.outputs.complete_by,
            keys=joined.keys if is_join else self.unique,
            repeatable=is_repeatable(self.query) and all(each.repeatable for each in below),
        )

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its query, or of its text if that isn't understood."""
        return lineage_over("Local", self.tree, below)

    def generate(self, wiring: Wiring) -> None:
        """Runs the query over its inputs."""
        wiring.add_output_step(
            self, with_inputs(self.sql, [f"select * from {each.name}" for each in self.inputs])
        )

    def explain(self, context: Context) -> Explanation:
        """Returns its joins, groups and rankings, which are within a window."""
        name, text = Summary(self.inputs[0].expressions, windows=True).describe(self.query)
        return self.explanation(
            context, text or "its rows", WITHIN_WINDOWS.get(name, name), reads=tables_read_by(self.query)
        )
