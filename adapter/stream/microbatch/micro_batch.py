"""One micro-batch: a `Program` carried out, with one commit of its state.

::

    streams → rows (judged, counted) → changes, level by level → COMMIT all state
    state, or what is in memory → output                       → COMMIT changelog, where one is kept
                                                               → COMMIT table

All commits carry the `Position`. What comes after the first is a function of the state and of the position's two
watermarks (what can't be is a part of that commit), so after a crash it is done again from the state alone: it is decided
once, whatever the query reads besides its streams.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...query.program import (
    Asking,
    Boundaries,
    Level,
    Lookup,
    Program,
    Rewrite,
    StatePart,
    Step,
    clock_column,
)
from ...util.types import type_text
from ..common.model import StreamModel
from ..common.session import SessionDefaults, are_few, show, spread, sql
from ..common.time_zones import shown
from ..evolution.output_schema import check_collations, check_kept
from ..iceberg.table import stored_types
from ..progress import query_metrics
from ..progress.position import Position
from ..progress.report import Figures
from ..progress.unreadable_rows import added
from ..progress.watermark import Watermark
from ..sink import constraints
from ..sink.append import Sink
from ..sources.readers import split
from ..sources.records import readable
from ..sources.rows import (
    Counted,
    Judged,
    Kept,
    Meter,
    counted,
    counting,
    cut_off,
    judge,
    judgement,
    leaf,
    recounted,
)
from ..state.schema import KnownColumns, Layout, is_plain, layout_of, schema_of
from ..state.table import StateTable
from .lookups import Lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Work:
    """What stays the same from one micro-batch to the next."""

    model: StreamModel
    program: Program
    state: StateTable
    sink: Sink
    lookups: Lookups


class MicroBatch:
    """A step that is being carried out. `position` follows what is committed.

    Args:
        work: what is carried out.
        spark: the session it runs in; views of this step are made there.
        position: the step. Its watermark `before` is set; so is `after`, where there is no input.
        asked: what the project asks of Spark.
        expected: at most so many rows come; None: that isn't known.
    """

    def __init__(
        self,
        work: Work,
        spark: SparkSession,
        position: Position,
        asked: SessionDefaults,
        expected: int | None = None,
    ) -> None:
        self.position = position
        self.figures = Figures()
        self._work = work
        self._spark = spark
        self._asked = asked
        self._kept = Kept()
        self._rows_of: dict[str, int] = {}
        self._expected = expected
        self._came: int | None = None
        """The rows that it was last set for how Spark computes."""
        self._early: set[str] = set()
        """The steps that were made before their level's others."""
        self.asked: dict[str, tuple[Asking, ...]] = {}
        """By how their counts are called, what steps have asked the state for."""
        self._made: set[str] | None = None
        """The steps that were made before the commit of the state; None: that commit isn't of this object."""
        self._input_schema: StructType | None = None

    def take_in(self, batch: DataFrame, watermark: Watermark, at: int) -> Watermark:
        """From the micro-batch's rows to the first commit.

        Args:
            batch: the rows.
            watermark: before them.
            at: when they came, by the clock on the wall.

        Returns:
            The watermark after them.
        """
        streams = self._work.program.inputs
        self._spread(self._expected)
        with self.figures.timed("read"):
            self._show_clock()
            self._input_schema = batch.schema
            self._show_streams(batch)
        judged = self._begin(self._work.program.levels[0], self._expected)
        with self.figures.timed("read"):
            for stream in streams:
                if not self._kept.has_observed(stream.view):
                    self._kept.keep(counting(split(batch, streams)[stream.view], stream))
            counts = [counted(self._kept, stream) for stream in streams]
            watermark = watermark.advance(self._newest(counts, judged), at)
        self._move_to(watermark)
        self._compute(judged)
        return watermark

    def close_at(self, watermark: int) -> None:
        """A step whose streams have no rows, and that only moves the watermark: the first commit."""
        if self._work.program.flushes_from_state:
            self.position = replace(self.position, after=watermark)
            self._compute(None)
            return
        # As it was when the state was made: what it is made for hasn't changed since, and a source may be gone.
        nothing = self._spark.createDataFrame([], self._work.state.input_schema())
        self._show_clock()
        for stream, rows in split(nothing, self._work.program.inputs).items():
            show(readable(rows), stream)
        judged = self._begin(self._work.program.levels[0])
        self.position = replace(self.position, after=watermark)
        self._compute(judged)

    def put_out(self) -> None:
        """From memory, or from the state where a crash came between, to the last commit, if there is anything new."""
        program = self._work.program
        windows = self._closing()
        if windows == 0:
            return
        if windows is not None:
            self._spread(self._came, windows)
        made = self._made or ()
        if left := [step for step in program.again if step.name not in made]:
            self._show_clock()
            self._work.state.show(self._spark)
            with self.figures.timed("emission"):
                for step in left:
                    self._show(self._freshest(step))
        if program.only_with is not None and not self._rows_of.get(program.only_with, 1):
            return
        self._look_up(program.lookups)
        with self.figures.timed("emission"):
            self._append(few=are_few(self._work.state.rows))

    def _closing(self) -> int | None:
        """How many windows may close, of those with the most; None: that isn't known, and something may come out anyhow."""
        boundaries = self._work.program.boundaries
        if boundaries is None:
            return None

        def at(watermark: int | None, each: Boundaries) -> int | None:
            return shown(None if watermark is None else watermark - each.behind, each.time_zone)

        before, after = self.position.before, self.position.after
        return max(0, *(each.closing(at(before, each), at(after, each)) for each in boundaries))

    def pass_on(self, batch: DataFrame, watermark: Watermark, at: int) -> Watermark:
        """From the micro-batch's rows to the table, where there is no state between: one commit.

        Where rows needn't be kept for anything, counts and watermark are known only when it is done, so the commit carries
        those of before: nothing but `progress` asks for them then.

        Args:
            batch: the rows.
            watermark: before them.
            at: when they came, by the clock on the wall.

        Returns:
            The watermark after them.
        """
        self._show_clock()
        streams = self._work.program.inputs
        rows_of = split(batch, streams)
        keeps = bool(self._work.program.lookups) or self._work.program.reads_clock
        are_kept = self._work.sink.changes is not None
        meters = []
        for stream in streams:
            rows = counting(rows_of[stream.view], stream)
            if keeps:
                # Read for their keys too, or for the watermark.
                self._kept.keep(rows)
                rows = leaf(rows)
            elif not are_kept:
                meters.append(Meter(rows_of[stream.view], stream))
                rows = meters[-1].rows
            show(rows, stream.view)
        self._look_up(self._work.program.lookups)
        if keeps:
            counts = [counted(self._kept, each) for each in streams]
            watermark = watermark.advance(self._newest(counts, []), at)
            self._move_to(watermark)
        with self.figures.timed("emission"):
            self._append(few=False)
        if not keeps:
            counts = [each.read() for each in meters]
            if are_kept:
                # With the rows that were made of them, unless none could be.
                counts = [
                    counted(self._kept, each)
                    if self._kept.has_observed(each.view)
                    else recounted(rows_of[each.view], each)
                    for each in streams
                ]
            watermark = watermark.advance(self._newest(counts, []), at)
            self._move_to(watermark)
        return watermark

    def tidy_up(self) -> None:
        """Fold what has grown, put small files together and forget old snapshots, where it pays.

        Only after all of the step's rows are in the table: they can't be made again from a folded state.
        """
        if self._work.program.keeps_state:
            self._fold()
            self._note_end()
            self._maintain(self._work.state)
        self._maintain(self._work.sink)

    def _note_end(self) -> None:
        """Has the state say that the step is all in the table, where nothing else would: the table has no commit of it, as
        nothing changed, and Spark's checkpoint knows only of the first step of a micro-batch."""
        position = self.position
        if position.flush == 0 or position.cut is not None or position.folded:
            return
        told = self._work.sink.position()
        if told is None or told.step < position.step:
            self.position = replace(position, folded=True)
            self._commit({}, few=True)

    def _fold(self) -> None:
        state = self._work.state
        parts = list(self._work.program.parts)
        grown = state.parts_to_fold(parts, self.position.after)
        if not grown and not state.is_scattered():
            return
        with self.figures.timed("fold"):
            if grown:
                spread(self._spark, self._asked, state.rows, are_few(state.rows))
                self._show_clock()
                state.show(self._spark)
                self.position = replace(self.position, folded=True)
                folds = {part.name: self._seen(part, part.fold) for part in parts if part.name in grown}
                state.fold(self._spark, folds, self.position)
                spread(self._spark, self._asked)
            else:
                state.compact(self._spark)
            self.figures.commits += 1

    def _maintain(self, table: StateTable | Sink) -> None:
        with self.figures.timed("maintenance"):
            self.figures.commits += table.maintain(self._spark)

    def release(self) -> None:
        """Give back the memory of what was kept."""
        self._kept.release()

    # Views.

    def _show_clock(self) -> None:
        def instant(micros: int | None) -> str:
            return "cast(null as timestamp)" if micros is None else f"timestamp_micros({micros}L)"

        position, program = self.position, self._work.program
        times = {"now_before": position.before, "now_after": position.after}
        for name, now in (("watermark_before", position.before), ("watermark_after", position.after)):
            times[name] = None if now is None else now - program.kept_for
        values = {"batch_id": f"{position.batch}L", "step": f"{position.number}L"}
        for zone in (None, *program.time_zones):
            values |= {clock_column(name, zone): instant(shown(at, zone)) for name, at in times.items()}
        row, names = ", ".join(values.values()), ", ".join(values)
        show(sql(self._spark, f"select * from values ({row}) as clock({names})"), "clock")

    def _show_streams(self, batch: DataFrame) -> None:
        """A view per stream; their rows are counted when they are read."""
        program = self._work.program
        rows_of = split(batch, program.inputs)
        once = {view for rows in program.levels[0].rows if rows.alone for view in rows.streams}
        for stream in program.inputs:
            rows = counting(rows_of[stream.view], stream)
            if stream.view not in once:
                self._kept.keep(rows)
                rows = leaf(rows)
            show(rows, stream.view)

    def _begin(self, level: Level, expected: int | None = None) -> list[Judged]:
        """The rows of a level, from what they are made of; `expected` as of `_judge`."""
        with self.figures.timed("read"):
            self._show_known(level)
        self._look_up(level.lookups)
        with self.figures.timed("read"):
            return self._judge(level, expected)

    def _show_known(self, level: Level) -> None:
        if level.known:
            state = self._work.state
            if state.exists:
                state.show(self._spark)
            for step in level.known:
                self._show(step, not state.exists or state.rows == 0)

    def _look_up(self, lookups: Sequence[Lookup]) -> None:
        """Asks tables outside for the keys of this step."""
        figures = self.figures
        requests, keys = figures.lookup_requests, figures.lookup_keys
        for lookup in lookups:
            with figures.timed("lookup"):
                show(self._work.lookups.answer(self._spark, lookup, self._kept, figures), lookup.view)
        self.position = replace(
            self.position,
            lookup_requests=self.position.lookup_requests + figures.lookup_requests - requests,
            lookup_keys=self.position.lookup_keys + figures.lookup_keys - keys,
        )

    def _judge(self, level: Level, expected: int | None = None) -> list[Judged]:
        """The rows of a level, kept and counted. Where it is known how many to expect, those that one step alone reads are
        counted when that is made, and not kept."""
        readers = []
        for rows in level.rows:
            live = judge(self._spark, self._work.model, rows)
            if rows.read_by is None or expected is None:
                self._kept.keep(live)
                show(leaf(live), rows.name)
            else:
                readers.append(rows.read_by)
        if readers:
            self._prepare()
        for step in level.ingest:
            if step.name in readers:
                self._show_early(step)
                self._early.add(step.name)
        return [judgement(self._kept, rows) for rows in level.rows]

    def _show_early(self, step: Step) -> None:
        """A step that is computed by a job of its own, by which its rows are counted."""
        rows = self._made_of(step, self._work.state.rows == 0)
        self._rows_of[step.name] = self._kept.keep(rows)
        show(leaf(rows), step.name)

    def _prepare(self) -> None:
        """The state as it is before the step."""
        program, state = self._work.program, self._work.state
        if not state.exists:
            with self.figures.timed("state"):
                layout = self._layout()
                inputs = None if program.flushes_from_state else self._input_schema
                if program.upsert is not None and not program.flushes_from_state:
                    check_kept(self._work.model, (type_text(each.dataType) for each in layout.schema.fields))
                state.create(self._spark, layout, program.signature, inputs)
        state.show(self._spark)

    def _newest(self, counts: Sequence[Counted], judged: Sequence[Judged]) -> dict[str, int | None]:
        """The newest event time of each stream. On the way their rows are counted."""
        newest: dict[str, int | None] = {}
        names = {source.relation: source.name for source in self._work.model.sources}
        for stream, count in zip(self._work.program.inputs, counts, strict=True):
            self.figures.rows_in += count.rows
            if count.unreadable:
                self.figures.note_unreadable(names[stream.relation], count.unreadable)
            newest[stream.relation] = count.newest
            if stream.event_time is None:
                times = [each.newest for each in judged if stream.view in each.streams]
                newest[stream.relation] = max((time for time in times if time is not None), default=None)
        return newest

    def _show(self, step: Step, state_is_empty: bool = False) -> None:
        """A step. What is computed on the way to something else needs no job of its own."""
        rows = self._made_of(step, state_is_empty)
        if step.materialize or (step.persist and step.name == self._work.program.only_with):
            self._rows_of[step.name] = self._kept.keep(rows)
            rows = cut_off(rows)
        elif step.persist and not self._is_for_nothing(step):
            rows = self._kept.hold(rows)
        show(rows, step.name)

    def _is_for_nothing(self, step: Step) -> bool:
        """Whether a step finds nothing to do, so that its text is another one."""
        return step.unless_empty is not None and not self._rows_of.get(step.unless_empty, 1)

    def _made_of(self, step: Step, state_is_empty: bool) -> DataFrame:
        """The rows of a step, which aren't computed yet."""
        self._look_up(step.lookups)
        self._work.state.show_to(self._spark, step.reads)
        return self._looking_up(step, text_of(step, state_is_empty or self._is_for_nothing(step)))

    def _looking_up(self, step: Step, text: str) -> DataFrame:
        """The rows of a step, which count what they look up in the state."""
        rows = sql(self._spark, text)
        if not step.asks or text != step.sql:
            return rows
        name = query_metrics.lookups_of(step.name)
        self.asked[name] = step.asks
        return query_metrics.observed(rows, name, step.asks)

    def _seen(self, part: StatePart, text: str) -> str:
        """The rows of a part, made of the state as its text sees it: together with others' it would see theirs."""
        if not self._work.state.apart:
            return text
        self._work.state.show_to(self._spark, part.reads)
        name = f"{part.name}__written"
        show(sql(self._spark, text), name)
        return f"select * from {name}"

    def _freshest(self, step: Step) -> Step:
        """A step of what is put out as it costs least: of what is there in memory, if that was made in here."""
        if step.fresh is None or self._made is None:
            return step
        return replace(step, sql=step.fresh, persist=False, materialize=False, asks=())

    def _spread(self, rows: int | None, windows: int = 1) -> None:
        """Sets how Spark computes so many rows that came, None: as many as come; and in how many windows each of the state
        may come out."""
        self._came = rows
        work = self._work
        # A table whose rows are replaced, or whose changes are followed, is compared.
        compared = work.program.upsert is not None or work.sink.changes is not None
        kept = work.state.rows * windows + (work.sink.rows if compared else 0)
        few = rows is not None and not work.program.tables and are_few(rows + kept)
        spread(self._spark, self._asked, rows or 0, few)

    # Changes, and commits.

    def _compute(self, judged: list[Judged] | None) -> None:
        """Computes all changes of the state and commits them at once.

        Args:
            judged: the rows of the first level; None: nothing comes in, and windows of the first level only close.
        """
        program, state = self._work.program, self._work.state
        self._show_clock()
        # Of streams that no window reads, no row is judged.
        rows = max(sum(each.live_rows for each in judged or ()), self.figures.rows_in)
        if program.puts_out_all:
            rows += state.rows  # what they come to is read from there
        self._spread(rows)
        self._prepare()
        is_empty, windows = state.rows == 0, self._closing()
        texts: dict[str, str] = {}
        shown: set[str] = set()
        emitted = False
        for number, level in enumerate(program.levels):
            made: dict[str, str] = {}
            if number > 0 or judged is not None:
                state.show(self._spark)
                if number > 0:
                    judged = self._begin(level)
                    # What comes out of windows may be more than what came in.
                    rows = max(rows, sum(each.live_rows for each in judged))
                assert judged is not None
                self._count(judged)
                with self.figures.timed("state"):
                    for step in level.ingest:
                        if step.name not in self._early:
                            self._show(self._as_it_costs_least(step), is_empty)
                    made = {
                        part.name: self._rows_of_part(part, is_empty, bool(level.emit))
                        for part in level.parts
                    }
                shown |= {step.name for step in level.ingest}
                texts |= made
            if windows == 0:
                break  # nothing comes out of this level
            if level.emit:
                if windows is not None:
                    self._spread(rows, windows)
                emitted = True
                with self.figures.timed("emission"):
                    state.show_with(self._spark, made)
                    for step in level.emit:
                        self._show(step)
                shown |= {step.name for step in level.emit}
        state.show(self._spark)
        self._made = shown
        self._commit(texts, few=are_few(rows + (state.rows if emitted else 0)))

    def _rows_of_part(self, part: StatePart, is_empty: bool, is_read: bool) -> str:
        """A part's new rows; where they are read before they are written they are computed once."""
        rewrite = self._rewrite_of(part)
        text = text_of(part, is_empty) if rewrite is None else rewrite.sql
        if not is_read:
            return self._seen(part, text)
        name = f"{part.name}__new"
        self._show(Step(name, text, persist=True, reads=part.reads))
        return f"select * from {name}"

    def _rewrite_of(self, part: StatePart) -> Rewrite | None:
        """How a part is written as a whole, where it is: as far as it is known how much comes to it."""
        rewrite = part.rewrite
        if rewrite is None:
            return None
        rows = self._rows_of.get(rewrite.grows_by, 0)
        return rewrite if self._work.state.is_renewed_by(part.name, rows) else None

    def _as_it_costs_least(self, step: Step) -> Step:
        """A step with the text that is the least work for so many rows."""
        whole = step.whole
        if whole is None or (whole.of_many and are_few(self._came or 0)):
            return step
        if whole.part in self._rewritten():
            return replace(step, sql=whole.sql, persist=True)
        return replace(step, sql=whole.sql) if self._work.state.is_small(whole.part) else step

    def _rewritten(self) -> list[str]:
        """The parts of the state that are written as a whole."""
        parts = self._work.program.parts
        return [part.name for part in parts if self._rewrite_of(part) is not None]

    def _move_to(self, watermark: Watermark) -> None:
        """Notes how far the streams have come with this step."""
        self.position = replace(
            self.position,
            after=watermark.value,
            newest=watermark.newest,
            heard=watermark.heard,
            idle=watermark.idle,
            rows_in=self.position.rows_in + self.figures.rows_in,
            unreadable=added(self.position.unreadable, self.figures.unreadable),
        )

    def _count(self, judged: Sequence[Judged]) -> None:
        """Adds up the rows that were dropped."""
        late = sum(rows.late_rows for rows in judged)
        null_times = sum(rows.null_time_rows for rows in judged)
        self.figures.late_rows += late
        self.figures.null_time_rows += null_times
        self.position = replace(
            self.position,
            late_rows=self.position.late_rows + late,
            null_time_rows=self.position.null_time_rows + null_times,
        )

    def _commit(self, parts: Mapping[str, str], few: bool) -> None:
        with self.figures.timed("commit_state"):
            rewritten = [part for part in self._rewritten() if part in parts]
            self._work.state.append(self._spark, parts, self.position, few, rewritten)
            self.figures.commits += 1

    def _append(self, few: bool) -> None:
        output = self._work.program.output
        try:
            self.figures.rows_out = self._work.sink.put(self._spark, output, self.position, few, self._kept)
        except Exception as problem:
            if (error := constraints.broken(problem)) is None:
                raise
            if self._work.program.keeps_state:
                self._work.state.take_back(self._spark, self.position)
            raise error from problem
        self.figures.commits += 1
        self.position = replace(self.position, rows_out=self.position.rows_out + self.figures.rows_out)

    def layout(self, batch: DataFrame, known: KnownColumns | None = None) -> Layout:
        """The columns of the state that the program keeps. Nothing is read.

        Args:
            batch: a micro-batch without rows.
            known: of a state that is there.
        """
        self._show_nothing(batch)
        return self._layout(known)

    def _show_nothing(self, batch: DataFrame) -> None:
        self._show_clock()
        rows_of = split(batch, self._work.program.inputs)
        for stream in self._work.program.inputs:
            show(readable(rows_of[stream.view]), stream.view)
        self._show_level(self._work.program.levels[0])

    def _show_level(self, level: Level) -> None:
        """The rows of a level, of no rows and no state."""
        for step in level.known:
            self._show_step(step)
        self._show_no_answers(level.lookups)
        for rows in level.rows:
            show(self._spark.sql(rows.sql), rows.name)

    def _show_step(self, step: Step) -> None:
        """A step, of no rows and no state."""
        self._show_no_answers(step.lookups)
        show(self._spark.sql(text_of(step, True)), step.name)

    def _show_no_answers(self, lookups: Sequence[Lookup]) -> None:
        for lookup in lookups:
            show(self._work.lookups.none(self._spark, lookup), lookup.view)

    def _layout(self, known: KnownColumns | None = None) -> Layout:
        """The state's columns, from its texts: each is analysed, none is run."""

        def stored(kinds: Sequence[str]) -> list[str]:
            return [*stored_types(self._spark, {f"c{n}": kind for n, kind in enumerate(kinds)}).values()]

        schemas = {name: rows.schema for name, rows in self._parts().items()}
        kept = [type_text(each.dataType) for schema in schemas.values() for each in schema.fields]
        check_collations(self._work.model, kept)
        together: dict[tuple[str, ...], None] = {}
        for level in self._work.program.levels:
            together |= dict.fromkeys(step.reads for step in (*level.known, *level.ingest, *level.emit))
            together |= dict.fromkeys(part.reads for part in level.parts)
        together |= dict.fromkeys(step.reads for step in self._work.program.again)
        return layout_of(schemas, together, stored, known)

    def _parts(self) -> dict[str, DataFrame]:
        parts: dict[str, DataFrame] = {}
        for number, level in enumerate(self._work.program.levels):
            if number > 0:
                # What comes out of a level is made from the state of that level.
                schemas = {name: rows.schema for name, rows in parts.items()}
                same = is_plain(schemas.values())
                for place, step in enumerate(self._work.program.levels[number - 1].emit):
                    if not same or not place:
                        seen = schemas if same else {name: schemas[name] for name in step.reads}
                        show(self._spark.createDataFrame([], schema_of(seen.values())), "state")
                    show(self._spark.sql(step.sql), step.name)
                self._show_level(level)
            for step in level.ingest:
                self._show_step(step)
            parts |= {part.name: self._spark.sql(text_of(part, True)) for part in level.parts}
        return parts


def now() -> int:
    """Microseconds since 1970, by the clock on the wall."""
    return time.time_ns() // 1000


def text_of(made: Step | StatePart, state_is_empty: bool) -> str:
    if state_is_empty and made.initial is not None:
        return made.initial
    return made.append if isinstance(made, StatePart) else made.sql
