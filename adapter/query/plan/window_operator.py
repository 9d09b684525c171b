"""`WindowOperator`: the base class of windows that are stored until they close."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from ..windows.emission import FINAL, Emission
from .lineage import Lineage, opaque
from .operator import Operator, Wiring
from .relation import Relation
from .stages import Stage
from .state.window_steps import WindowSteps


@dataclass(frozen=True, kw_only=True)
class WindowOperator(Operator):
    """Windows over streams, or over the results of other windows. The rows of a window are emitted when it closes.

    Its inputs are the windows whose results it reads; none if it reads streams. Its name is that of its stage and
    of the view with its results.
    """

    stage: Stage
    streams: tuple[str, ...]
    """Relations of the streams that are read."""
    at_once: bool = False
    """Whether its rows feed other windows as they are emitted."""
    relation: Relation = field(default_factory=Relation)

    @abstractmethod
    def window_steps(self, emission: Emission = FINAL) -> WindowSteps:
        """Returns the steps and state of the windows.

        Args:
            emission: when their results are emitted.
        """

    def definition(self) -> dict[str, object]:
        """Returns what the windows compute, without the number of the stage."""
        return {
            "window": asdict(self.stage.window),
            "streams": list(self.streams),
            "carries": self.stage.time_carries,
        }

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of windows, by their name; that of their results follows from `definition`."""
        return opaque("windows", self.name)

    def generate(self, wiring: Wiring) -> None:
        """Adds the windows' steps, which come before those of all other operators."""
        emission = wiring.emission
        wiring.windows(self.window_steps(replace(emission, at_once=True) if self.at_once else emission))
