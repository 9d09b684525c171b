"""One micro-batch of a `Program` whose state is written in one commit.

::

    streams → rows → changes, level by level → COMMIT all state, and what comes out
                                             → COMMIT changelog, where one is kept
                                             → COMMIT table

What comes out is a part of the first commit, so after a crash it is taken from there: it is decided once,
whatever the query reads besides its streams.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..query.program import Level, StatePart, Step
from .columns import check_kept
from .identifiers import type_text
from .microbatch import MicroBatch, text_of
from .rows import Judged, counted, counting, cut_off, leaf
from .session import are_few, show
from .sources import split
from .watermark import Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class DataflowBatch(MicroBatch):
    """A step of a program that commits its state once."""

    _computed = False
    _input_schema: StructType | None = None

    def take_in(self, batch: DataFrame, watermark: Watermark, at: int) -> Watermark:
        """See `MicroBatch.take_in`."""
        program = self._work.program
        with self.figures.timed("read"):
            self._show_clock()
            self._input_schema = batch.schema
            rows_of = split(batch, program.inputs)
            # What one step alone reads is counted when that is made.
            alone = {view for rows in program.levels[0].rows if rows.read_by for view in rows.streams}
            for stream in program.inputs:
                rows = counting(rows_of[stream.view], stream)
                if stream.view not in alone or self._expected is None:
                    self._kept.keep(rows)
                    rows = leaf(rows)
                show(rows, stream.view)
            first = self._begin(program.levels[0], self._expected)
            for stream in program.inputs:
                if not self._kept.has_observed(stream.view):
                    self._kept.keep(counting(rows_of[stream.view], stream))
            counts = [counted(self._kept, stream) for stream in program.inputs]
            watermark = watermark.advance(self._newest(counts, first), at)
        self._move_to(watermark)
        self._compute(first)
        return watermark

    def close_at(self, watermark: int) -> None:
        """See `MicroBatch.close_at`: a step whose streams have no rows."""
        program = self._work.program
        # As it was when the state was made: what it is made for hasn't changed since, and a source may be gone.
        rows_of = split(self._spark.createDataFrame([], self._work.state.input_schema()), program.inputs)
        for stream in program.inputs:
            show(rows_of[stream.view], stream.view)
        self._show_clock()
        first = self._begin(program.levels[0])
        self.position = replace(self.position, after=watermark)
        self._compute(first)

    def put_out(self) -> None:
        """See `MicroBatch.put_out`: from memory, or from the state where a crash came between."""
        program = self._work.program
        made = {step.name for step in program.levels[-1].ingest} if self._computed else set()
        left = [step for step in program.again if step.name not in made]
        if left:
            self._show_clock()
            self._work.state.show(self._spark)
            with self.figures.timed("emission"):
                for step in left:
                    self._show(self._freshest(step, len(program.levels) - 1))
        if not program.puts_out_all and not self._rows_of.get(program.again[-1].name, 1):
            return
        self._look_up(program.lookups)
        with self.figures.timed("emission"):
            self._append(few=are_few(self._work.state.rows))

    # -- the changes -------------------------------------------------------------------------------

    def _begin(self, level: Level, expected: int | None = None) -> list[Judged]:
        self._show_known(level)
        self._look_up(level.lookups)
        return self._judge(level, expected)

    def _prepare(self) -> None:
        """See `MicroBatch._prepare`."""
        program, state = self._work.program, self._work.state
        if not state.exists:
            with self.figures.timed("state"):
                layout = self._layout()
                if program.upsert is not None:
                    check_kept(self._work.model, (type_text(each.dataType) for each in layout.schema.fields))
                state.create(self._spark, layout, program.signature, self._input_schema)
        state.show(self._spark)

    def _compute(self, judged: list[Judged]) -> None:
        """All changes, and the one commit of what is to be remembered of them."""
        program, state = self._work.program, self._work.state
        self._show_clock()
        # Of streams that no window reads, no row is judged.
        rows = max(sum(each.live_rows for each in judged), self.figures.rows_in)
        if program.puts_out_all:
            rows += state.rows  # what they come to is read from there
        self._spread(rows)
        self._prepare()
        is_empty = state.rows == 0
        texts: dict[str, str] = {}
        for number, level in enumerate(program.levels):
            with self.figures.timed("state"):
                state.show(self._spark)
                if number > 0:
                    judged = self._begin(level)
                self._count(judged)
                for step in level.ingest:
                    if step.name not in self._early:
                        self._show(step, is_empty)
                made = {part.name: self._made(part, is_empty, bool(level.emit)) for part in level.parts}
                texts |= made
            if level.emit:
                with self.figures.timed("emission"):
                    state.show_with(self._spark, made)
                    for step in level.emit:
                        self._show(step)
        state.show(self._spark)
        self._computed = True
        self._added.add(len(program.levels) - 1)
        self._commit(texts, few=are_few(rows))

    def _made(self, part: StatePart, is_empty: bool, is_read: bool) -> str:
        """A part's new rows; where they are read before they are written they are computed once."""
        text = text_of(part, is_empty)
        if not is_read:
            return self._seen(part, text)
        name = f"{part.name}__new"
        self._show(Step(name, text, persist=True, reads=part.reads))
        return f"select * from {name}"

    def _show(self, step: Step, state_is_empty: bool = False) -> None:
        """See `MicroBatch._show`. What is computed on the way to the result needs no job of its own."""
        self._look_up(step.lookups)
        self._work.state.show_to(self._spark, step.reads)
        nothing = step.unless_empty is not None and not self._rows_of.get(step.unless_empty, 1)
        rows = self._looking_up(step, text_of(step, state_is_empty or nothing))
        if step.persist and step.name == self._work.program.again[-1].name:
            self._rows_of[step.name] = self._kept.keep(rows)
            rows = cut_off(rows)
        elif nothing:
            pass  # kept already, under another name
        elif step.materialize:
            self._rows_of[step.name] = self._kept.keep(rows)
            rows = cut_off(rows)
        elif step.persist:
            rows = self._kept.hold(rows)
        show(rows, step.name)
