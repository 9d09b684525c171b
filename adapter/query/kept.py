"""SQL of a stage that keeps the rows of open windows, for what can't be kept as aggregates."""

from __future__ import annotations

from .aggregate_stage import EXPIRES_AT, SLICE_END, WINDOW_END, WINDOW_START, WINDOW_TIME
from .closing import closing_windows, live
from .plan import RowsStage
from .program import StatePart, Step


class KeptRows:
    """The pieces of a `RowsStage`."""

    def __init__(self, stage: RowsStage) -> None:
        self.stage = stage
        self.part = f"{stage.name}_rows"

    def ingest(self) -> list[Step]:
        """Nothing is made before the rows are kept."""
        return []

    def parts(self) -> list[StatePart]:
        """The rows, each once however many windows it is in."""
        columns = f"{EXPIRES_AT}, {SLICE_END}, `row`"
        return [
            StatePart(
                self.part,
                append=f"select {columns} from {self.part}",
                fold=f"select {columns} from state cross join clock where part = '{self.part}' and {live()}",
            )
        ]

    def emit(self) -> list[Step]:
        """The rows of the windows that have closed."""
        return [
            Step(
                self.stage.name,
                self._windows(f"(select * from state where part = '{self.part}')", clock=True),
            )
        ]

    def batch(self) -> list[Step]:
        """The rows of all windows."""
        return [Step(self.stage.name, self._windows(self.part, clock=False))]

    def _windows(self, relation: str, clock: bool) -> str:
        closing = closing_windows(self.stage.window, f"{relation} as kept", "kept.`row`", clock)
        start = self.stage.window.start("(end_micros - 1)") if self.stage.window.grows else None
        start = start or f"end_micros - {self.stage.window.size}"
        return (
            f"select `row`.*, timestamp_micros({start}) as {WINDOW_START}, timestamp_micros(end_micros) as {WINDOW_END},\n"
            f"  timestamp_micros(end_micros - 1) as {WINDOW_TIME}\n"
            f"from (\n{closing}\n)"
        )
