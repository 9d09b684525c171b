"""`UnionAll`: the rows of all inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...sql.names import digest
from ..explanation import Context, Explanation
from ..lineage import Lineage, lineage_by_position
from ..operator import Operator, Wiring
from ..relation import WEIGHT, Relation, common_window_end


@dataclass(frozen=True, kw_only=True)
class UnionAll(Operator):
    """The rows of all inputs. No state."""

    depends_on_watermark = False

    label: str = "UNION ALL"
    pairs: Mapping[str, str] = field(default_factory=dict)
    """Columns of the first input, in lower case → those of the second at the same position; empty if unknown."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns the properties that columns of both inputs at the same position share."""
        left, right = below
        complete_by = {
            name: origin
            for name, origin in left.complete_by.items()
            if name in self.pairs and right.complete_by.get(self.pairs[name]) == origin
        }
        times = right.times
        delays = {
            name: max(delay, times[self.pairs[name]])
            for name, delay in left.times.items()
            if name not in complete_by and self.pairs.get(name) in times
        }
        return Relation(
            left.changes or right.changes,
            complete_by,
            delays=delays,
            ends=common_window_end(left, right, self.pairs),
            bounded=left.bounded and right.bounded,
            repeatable=left.repeatable and right.repeatable,
        )

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of the inputs' rows. A column's origin combines its origins in each side, so that
        other columns can be added and removed."""
        if any(each.star for each in below) or len({len(each.columns) for each in below}) > 1:
            return lineage_by_position("union", *(each.meaning for each in below), like=below[0])
        named = {tuple(name.lower() for name, _ in each.columns) for each in below}
        # The order of the sides doesn't matter.
        sides = sorted(below, key=lambda each: (each.rows, each.meaning)) if len(named) == 1 else below
        places = zip(*(each.columns for each in sides), strict=True)
        columns = [
            [(each.rows, what) for each, (_, what) in zip(sides, place, strict=True)] for place in places
        ]
        return Lineage(
            digest("union", [each.rows for each in sides]),
            tuple(
                (name, digest("union", what))
                for (name, _), what in zip(below[0].columns, columns, strict=True)
            ),
        )

    def generate(self, wiring: Wiring) -> None:
        """Appends the inputs' rows. If some rows may be retracted, all have a weight."""
        wiring.add_output_step(self, "\nunion all\n".join(map(self._branch_sql, self.inputs)))

    def explain(self, context: Context) -> Explanation:
        """Returns the number of inputs."""
        return self.explanation(context, f"of {len(self.inputs)}")

    def _branch_sql(self, each: Operator) -> str:
        weight = f", 1L as {WEIGHT}" if self.relation.changes and not each.relation.changes else ""
        return f"select *{weight} from {each.name}"
