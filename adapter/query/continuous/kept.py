"""SQL of rows that are kept for what is computed from all of them again and again."""

from __future__ import annotations

from ..plan import KeptStage
from ..program import EXPIRES_AT, StatePart, Step
from ..windows import quote
from .carry import ROW_TIME
from .lives import NO_STEP, STEP


class KeptRows:
    """The pieces of a `KeptStage`.

    Args:
        stage: the stage.
        ttl: microseconds after which a row is forgotten, where no predicate says; None: never.
    """

    def __init__(self, stage: KeptStage, ttl: int | None) -> None:
        self.stage, self.name = stage, stage.name
        self.part = self.rows = f"{stage.name}_rows"
        self.row = quote(f"{stage.name}_row")
        self.lasts = ttl if stage.lasts is None else stage.lasts
        self.timed = self.lasts is not None

    def rows_text(self) -> str:
        """The stage's rows, with the step they come in."""
        times = [f"q.`{ROW_TIME}` as event_time", f"q.`{ROW_TIME}` as row_time"] if self.timed else []
        items = [f"clock.{STEP}", *times, f"struct(q.*) as {self.row}"]
        return f"select {', '.join(items)}\nfrom (\n{self.stage.rows}\n) as q cross join clock"

    def ingest(self) -> list[Step]:
        """Nothing is made before the rows are kept."""
        return []

    def parts(self) -> list[StatePart]:
        """The rows."""
        expiry = (
            [f"timestamp_micros(unix_micros(row_time) + {self.lasts}) as {EXPIRES_AT}"] if self.timed else []
        )
        columns = [*([EXPIRES_AT] if self.timed else []), self.row]
        return [
            StatePart(
                self.part,
                f"select {', '.join([STEP, *expiry, self.row])} from {self.rows}",
                f"select {', '.join([NO_STEP, *columns])} from (\n{self._alive()}\n)",
                closes=None,
                merges=False,
                forgets=self.lasts,
            )
        ]

    def _alive(self) -> str:
        live = ""
        if self.timed:
            live = f" left semi join clock on clock.watermark_after is null or {EXPIRES_AT} > clock.watermark_after"
        return f"select state.* from state{live}\nwhere part = '{self.part}'"

    def emit(self, whole: bool) -> list[Step]:
        """All rows that are still in it."""
        shown = f"select {self.row}.* from (\n{self._alive()}\n)"
        if self.timed:
            shown = f"select * except (`{ROW_TIME}`) from (\n{shown}\n)"
        return [Step(self.name, shown)]
