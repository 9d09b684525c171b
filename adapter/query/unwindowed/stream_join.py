"""SQL of a join of streams: the rows of each side are kept, and every pair comes out with its later row."""

from __future__ import annotations

from ..plan import JoinStage, Side
from ..program import EXPIRES_AT, STEP, StatePart, Step, now
from ..window_buffer import row_column
from ..windows import quote
from .hidden_columns import ROW_TIME
from .key_generations import ALIVE, NO_STEP, TIME, comes_due, expiry


class StreamJoin:
    """The pieces of a `JoinStage`."""

    def __init__(self, stage: JoinStage) -> None:
        self.stage, self.name = stage, stage.name

    def rows_texts(self) -> dict[str, str]:
        """The rows of each side, with the step they come in, by the step's name."""
        return {self._rows(side): self._text(side) for side in self.stage.sides}

    def _text(self, side: Side) -> str:
        times = []
        if side.time is not None:
            times = [f"{side.time} as event_time", f"{side.time} as {TIME}"]
        row = f"struct(q.*) as {self._row(side)}"
        return f"select {', '.join([f'{now(STEP)} as {STEP}', *times, row])}\nfrom (\n{side.rows}\n) as q"

    def _rows(self, side: Side) -> str:
        return f"{self._part(side)}_rows"

    def _part(self, side: Side) -> str:
        return f"{self.name}_{side.alias}"

    def _row(self, side: Side) -> str:
        return row_column(self._part(side))

    def ingest(self) -> list[Step]:
        """Nothing is made before the rows are kept."""
        return []

    def parts(self) -> list[StatePart]:
        """The rows of each side, until none can find them."""
        found = []
        for number, side in enumerate(self.stage.sides):
            columns = [self._row(side)]
            until, live = [], ""
            if side.time is not None:
                until = [expiry(TIME, side.lasts)]
                live = f" and {ALIVE}"
                columns.append(EXPIRES_AT)
            append = f"select {', '.join([STEP, self._row(side), *until])} from {self._rows(side)}"
            fold = (
                f"select {', '.join([NO_STEP, *columns])} from state where part = '{self._part(side)}'{live}"
            )
            # Rows of the first side that found none come out when they expire.
            closes = EXPIRES_AT if self.stage.unmatched and not number else None
            found.append(
                StatePart(
                    self._part(side),
                    append,
                    fold,
                    closes=closes,
                    merges=False,
                    forgets=side.lasts if live else None,
                )
            )
        return found

    def emit(self, whole: bool) -> list[Step]:
        """The pairs whose later row is of the step."""
        steps = []
        for side in self.stage.sides:
            steps += self._views(side)
        texts = [*self.stage.joined]
        if self.stage.unmatched is not None:
            steps += self._unmatched()
            texts.append(self.stage.unmatched)
        return [
            *steps,
            Step(self.name, "\nunion all\n".join(f"select * from (\n{text}\n)" for text in texts)),
        ]

    def _views(self, side: Side) -> list[Step]:
        part = self._part(side)
        state = f"select * from state\nwhere part = '{part}' and "
        is_new = f"{STEP} = {now(STEP)}"
        alive = ""
        if side.time is not None:
            before = now("watermark_before")
            alive = f" and ({before} is null or {EXPIRES_AT} > {before})"
        is_old = f"coalesce({STEP}, -1L) < {now(STEP)}{alive}"
        return [
            Step(
                f"{part}_new",
                self._shown(side, state + is_new),
                persist=True,
                fresh=self._shown(side, f"select * from {self._rows(side)}"),
            ),
            Step(f"{part}_old", self._shown(side, state + is_old)),
            Step(f"{part}_all", f"select * from {part}_new\nunion all\nselect * from {part}_old"),
        ]

    def _shown(self, side: Side, rows: str) -> str:
        shown = f"select {self._row(side)}.* from (\n{rows}\n)"
        if ROW_TIME in side.rows and not self.stage.hidden:
            shown = f"select * except (`{ROW_TIME}`) from (\n{shown}\n)"
        return shown

    def _unmatched(self) -> list[Step]:
        first, second = self.stage.sides
        due = comes_due(EXPIRES_AT, "state")
        rows = f"select * from state\nwhere part = '{self._part(first)}' and {due}"
        alone = f"{self._part(first)}_unmatched"
        return [
            Step(
                alone,
                f"select {quote(first.alias)}.* from (\n{self._shown(first, rows)}\n) as {quote(first.alias)}\n"
                f"left anti join {self._part(second)}_all as {quote(second.alias)} on {self.stage.condition}",
            ),
            Step(f"{self._part(second)}_none", f"select * from {self._part(second)}_new where false"),
        ]
