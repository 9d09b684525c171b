"""SQL of rows that are kept for what is computed from all of them again and again."""

from __future__ import annotations

from ..plan import KeptStage
from ..program import EXPIRES_AT, STEP, StatePart, Step, now
from ..window_buffer import row_column
from .hidden_columns import ROW_TIME
from .key_generations import ALIVE, NO_STEP, TIME, expiry


class RowBuffer:
    """The pieces of a `KeptStage`.

    Args:
        stage: the stage.
        ttl: microseconds after which a row is forgotten, where no predicate says; None: never.
    """

    def __init__(self, stage: KeptStage, ttl: int | None) -> None:
        self.stage, self.name = stage, stage.name
        self.part = self.rows = f"{stage.name}_rows"
        self.row = row_column(stage.name)
        self.lasts = ttl if stage.lasts is None else stage.lasts
        self.timed = self.lasts is not None

    def rows_text(self) -> str:
        """The stage's rows, with the step they come in."""
        times = [f"q.`{ROW_TIME}` as event_time", f"q.`{ROW_TIME}` as {TIME}"] if self.timed else []
        items = [f"{now(STEP)} as {STEP}", *times, f"struct(q.*) as {self.row}"]
        return f"select {', '.join(items)}\nfrom (\n{self.stage.rows}\n) as q"

    def ingest(self) -> list[Step]:
        """Nothing is made before the rows are kept."""
        return []

    def parts(self) -> list[StatePart]:
        """The rows."""
        until = [expiry(TIME, self.lasts)] if self.timed else []
        columns = [*([EXPIRES_AT] if self.timed else []), self.row]
        return [
            StatePart(
                self.part,
                f"select {', '.join([STEP, *until, self.row])} from {self.rows}",
                f"select {', '.join([NO_STEP, *columns])} from (\n{self._alive()}\n)",
                closes=None,
                merges=False,
                forgets=self.lasts,
            )
        ]

    def _alive(self) -> str:
        live = f" and {ALIVE}" if self.timed else ""
        return f"select state.* from state\nwhere part = '{self.part}'{live}"

    def emit(self, whole: bool) -> list[Step]:
        """All rows that are still in it."""
        shown = f"select {self.row}.* from (\n{self._alive()}\n)"
        if self.timed:
            shown = f"select * except (`{ROW_TIME}`) from (\n{shown}\n)"
        return [Step(self.name, shown)]
