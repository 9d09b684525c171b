"""Runs one micro-batch of a `Program`, with one commit of its state.

::

    streams → rows (late rows dropped, counted) → changes, level by level → COMMIT all state
    state, or rows cached in memory → output                              → COMMIT changelog, where one is kept
                                                                          → COMMIT table

Every commit carries the `Position`. All work after the first commit is a function of the state and of the position's
two watermarks (whatever isn't is part of that commit), so after a crash it is repeated from the state alone with the
same result, whatever else the query reads.
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
    """Objects that all micro-batches of a run share."""

    model: StreamModel
    program: Program
    state: StateTable
    sink: Sink
    lookups: Lookups


class MicroBatch:
    """A micro-batch that is being run. `position` follows what is committed.

    Args:
        work: the model, its program, state and sink.
        spark: the session; the views of this micro-batch are created in it.
        position: position of the micro-batch. Its watermark `before` is set; so is `after`, where there is no input.
        asked: the project's session settings.
        expected: upper bound of the number of input rows; None if unknown.
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
        """Number of rows for which the shuffle partitions were last set."""
        self._early: set[str] = set()
        """Names of the steps computed before the other steps of their level."""
        self.asked: dict[str, tuple[Asking, ...]] = {}
        """Name of the observed metrics → state look-ups that the step makes."""
        self._made: set[str] | None = None
        """Names of the steps computed before the commit of the state; None if another run made that commit."""
        self._input_schema: StructType | None = None

    def take_in(self, batch: DataFrame, watermark: Watermark, at: int) -> Watermark:
        """Computes the state changes of the micro-batch's rows and makes the first commit.

        Args:
            batch: the input rows.
            watermark: the watermark before them.
            at: processing time at which they arrived, in microseconds since 1970.

        Returns:
            The watermark after the rows.
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
        """Makes the first commit of a micro-batch without input that only advances the watermark."""
        if self._work.program.flushes_from_state:
            self.position = replace(self.position, after=watermark)
            self._compute(None)
            return
        # The schema at the state's creation: the state's columns haven't changed since, and a source may be gone.
        nothing = self._spark.createDataFrame([], self._work.state.input_schema())
        self._show_clock()
        for stream, rows in split(nothing, self._work.program.inputs).items():
            show(readable(rows), stream)
        judged = self._begin(self._work.program.levels[0])
        self.position = replace(self.position, after=watermark)
        self._compute(judged)

    def put_out(self) -> None:
        """Emits from cached rows, or from the state after a crash, and makes the last commit. Does nothing if no
        window closes, or if the step `only_with` has no rows."""
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
        """Upper bound of the windows that this micro-batch closes; None if unknown, in which case rows may be emitted
        anyway."""
        boundaries = self._work.program.boundaries
        if boundaries is None:
            return None

        def at(watermark: int | None, each: Boundaries) -> int | None:
            return shown(None if watermark is None else watermark - each.behind, each.time_zone)

        before, after = self.position.before, self.position.after
        return max(0, *(each.closing(at(before, each), at(after, each)) for each in boundaries))

    def pass_on(self, batch: DataFrame, watermark: Watermark, at: int) -> Watermark:
        """Writes the micro-batch's rows straight to the table, for a program without state: one commit.

        Unless the rows are cached, counts and watermark are known only after the commit, so the commit carries those
        of the micro-batch before. Only `progress` reads them then.

        Args:
            batch: the input rows.
            watermark: the watermark before them.
            at: processing time at which they arrived, in microseconds since 1970.

        Returns:
            The watermark after the rows.
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
                # Also read for look-up keys or for the watermark.
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
                # Uses the counts observed while the changelog's rows were computed; counts again if none were.
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
        """Compacts the state, merges small files and expires old snapshots, where it pays.

        Runs only after all output of the micro-batch is in the table: a compacted state can't reproduce it.
        """
        if self._work.program.keeps_state:
            self._fold()
            self._note_end()
            self._maintain(self._work.state)
        self._maintain(self._work.sink)

    def _note_end(self) -> None:
        """Commits to the state that the micro-batch's output is complete, where nothing else records it: the table
        has no commit of it because nothing changed, and Spark's checkpoint records only the first step of a
        micro-batch."""
        position = self.position
        if position.flush == 0 or position.cut is not None or position.folded:
            return
        told = self._work.sink.position()
        if told is None or told.step < position.step:
            self.position = replace(position, folded=True)
            self._commit({}, few=True)

    def _fold(self) -> None:
        state = self._work.state
        parts = self._work.program.parts
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
        """Releases the cached rows."""
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
        """Registers a view per stream. Rows are counted when they are read."""
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
        """Registers the rows of a level and filters late ones; `expected` is an upper bound of the input rows, or
        None."""
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
        """Queries the external tables for the keys of this micro-batch."""
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
        """Drops late rows of a level and counts them. Caches the rest, unless the number of input rows is known and a
        single step reads them; they are then counted while that step is computed."""
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
        """Computes a step in a job that also counts its input rows."""
        rows = self._made_of(step, self._work.state.rows == 0)
        self._rows_of[step.name] = self._kept.keep(rows)
        show(leaf(rows), step.name)

    def _prepare(self) -> None:
        """Creates the state if it doesn't exist and registers its view."""
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
        """Returns the newest event time of each stream, and counts their rows."""
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
        """Registers the rows of a step. Rows that other steps read are persisted lazily, without a job."""
        rows = self._made_of(step, state_is_empty)
        if step.materialize or (step.persist and step.name == self._work.program.only_with):
            self._rows_of[step.name] = self._kept.keep(rows)
            rows = cut_off(rows)
        elif step.persist and not self._is_for_nothing(step):
            rows = self._kept.hold(rows)
        show(rows, step.name)

    def _is_for_nothing(self, step: Step) -> bool:
        """Whether the step named by `unless_empty` has no rows, so that the `initial` text applies."""
        return step.unless_empty is not None and not self._rows_of.get(step.unless_empty, 1)

    def _made_of(self, step: Step, state_is_empty: bool) -> DataFrame:
        """The rows of a step as a lazy DataFrame."""
        self._look_up(step.lookups)
        self._work.state.show_to(self._spark, step.reads)
        return self._looking_up(step, text_of(step, state_is_empty or self._is_for_nothing(step)))

    def _looking_up(self, step: Step, text: str) -> DataFrame:
        """The rows of a step, with metrics of its state look-ups."""
        rows = sql(self._spark, text)
        if not step.asks or text != step.sql:
            return rows
        name = query_metrics.lookups_of(step.name)
        self.asked[name] = step.asks
        return query_metrics.observed(rows, name, step.asks)

    def _seen(self, part: StatePart, text: str) -> str:
        """SQL for a state table's rows, computed while the view of the state shows only what its text reads. Column
        names can differ in type between state tables, so a text run together with others would see theirs."""
        if not self._work.state.apart:
            return text
        self._work.state.show_to(self._spark, part.reads)
        name = f"{part.name}__written"
        show(sql(self._spark, text), name)
        return f"select * from {name}"

    def _freshest(self, step: Step) -> Step:
        """Returns the emitting step with its cheaper text, which reads rows cached by this micro-batch, if there is
        one."""
        if step.fresh is None or self._made is None:
            return step
        return replace(step, sql=step.fresh, persist=False, materialize=False, asks=())

    def _spread(self, rows: int | None, windows: int = 1) -> None:
        """Sets the shuffle partitions.

        Args:
            rows: number of input rows; None if unknown.
            windows: number of windows that each state row may be emitted in.
        """
        self._came = rows
        work = self._work
        # An upsert or a changelog compares the result with the table.
        compared = work.program.upsert is not None or work.sink.changes is not None
        kept = work.state.rows * windows + (work.sink.rows if compared else 0)
        few = rows is not None and not work.program.tables and are_few(rows + kept)
        spread(self._spark, self._asked, rows or 0, few)

    # Changes, and commits.

    def _compute(self, judged: list[Judged] | None) -> None:
        """Computes all changes of the state and commits them at once.

        Args:
            judged: the rows of the first level; None if there is no input and its windows only close.
        """
        program, state = self._work.program, self._work.state
        self._show_clock()
        # Streams without windows have no late-row filter, so no judged rows.
        rows = max(sum(each.live_rows for each in judged or ()), self.figures.rows_in)
        if program.puts_out_all:
            rows += state.rows  # the output is computed from all of the state
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
                    # Windows may emit more rows than came in.
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
                break  # no window of this level closes
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
        """SQL for a state table's new rows. Rows that are read before they are written are computed once."""
        rewrite = self._rewrite_of(part)
        text = text_of(part, is_empty) if rewrite is None else rewrite.sql
        if not is_read:
            return self._seen(part, text)
        name = f"{part.name}__new"
        self._show(Step(name, text, persist=True, reads=part.reads))
        return f"select * from {name}"

    def _rewrite_of(self, part: StatePart) -> Rewrite | None:
        """The rewrite of a state table, if this micro-batch changes most of it; else None."""
        rewrite = part.rewrite
        if rewrite is None:
            return None
        rows = self._rows_of.get(rewrite.grows_by, 0)
        return rewrite if self._work.state.is_renewed_by(part.name, rows) else None

    def _as_it_costs_least(self, step: Step) -> Step:
        """Returns the step with the cheapest text for the number of input rows."""
        whole = step.whole
        if whole is None or (whole.of_many and are_few(self._came or 0)):
            return step
        if whole.part in self._rewritten():
            return replace(step, sql=whole.sql, persist=True)
        return replace(step, sql=whole.sql) if self._work.state.is_small(whole.part) else step

    def _rewritten(self) -> list[str]:
        """Names of the state tables that are rewritten as a whole."""
        parts = self._work.program.parts
        return [part.name for part in parts if self._rewrite_of(part) is not None]

    def _move_to(self, watermark: Watermark) -> None:
        """Updates the position with the watermark and row counts."""
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
        """Adds up dropped rows, late and without event time."""
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
        """Returns the columns of the program's state. Reads no data.

        Args:
            batch: a micro-batch without rows.
            known: columns of the existing state; None if there is none.
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
        """Registers the views of a level with no rows and no state."""
        for step in level.known:
            self._show_step(step)
        self._show_no_answers(level.lookups)
        for rows in level.rows:
            show(self._spark.sql(rows.sql), rows.name)

    def _show_step(self, step: Step) -> None:
        """Registers the view of a step with no rows and no state."""
        self._show_no_answers(step.lookups)
        show(self._spark.sql(text_of(step, True)), step.name)

    def _show_no_answers(self, lookups: Sequence[Lookup]) -> None:
        for lookup in lookups:
            show(self._work.lookups.none(self._spark, lookup), lookup.view)

    def _layout(self, known: KnownColumns | None = None) -> Layout:
        """Derives the state's columns from the program's texts, which are analysed and not run."""

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
                # A level's output is computed from that level's state.
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
    """Returns the processing time in microseconds since 1970."""
    return time.time_ns() // 1000


def text_of(made: Step | StatePart, state_is_empty: bool) -> str:
    if state_is_empty and made.initial is not None:
        return made.initial
    return made.append if isinstance(made, StatePart) else made.sql
