"""`UnionAll`: the rows of all inputs."""

from __future__ import annotations

from dataclasses import dataclass

from ..operator import Operator, Wiring
from ..relation import WEIGHT


@dataclass(frozen=True, kw_only=True)
class UnionAll(Operator):
    """The rows of all inputs. No state."""

    label: str = "UNION ALL"

    @property
    def depends_on_watermark(self) -> bool:
        """Returns False: rows are passed on as they come."""
        return False

    def generate(self, wiring: Wiring) -> None:
        """Appends the inputs' rows. If some rows may be retracted, all have a weight."""
        wiring.output(self, "\nunion all\n".join(map(self._side, self.inputs)))

    def _side(self, each: Operator) -> str:
        weight = f", 1L as {WEIGHT}" if self.relation.changes and not each.relation.changes else ""
        return f"select *{weight} from {each.name}"
