"""Runs one micro-batch of a `Program`, with one commit of its state.

::

    streams → rows (late rows dropped, counted) → changes, in the program's order → COMMIT all state
    state, or rows cached in memory → output                                      → COMMIT changelog, where one is kept
                                                                                  → COMMIT table

Every commit carries the `Position`. All work after the first commit is a function of the state and of the position's
two watermarks; anything else that it needs is part of that commit. So after a crash this work is repeated from the state
alone, with the same result, whatever else the query reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...query.program import (
    Boundaries,
    Item,
    Lookup,
    Program,
    Rewrite,
    Rows,
    StateLookup,
    StatePart,
    Step,
    clock_column,
)
from ...util.types import column_types
from ..common.model import StreamModel
from ..common.session import SessionDefaults, are_few, register_view, set_shuffle_partitions, sql
from ..common.time_zones import latest_local_time
from ..evolution.output_schema import check_collations, check_groupable
from ..iceberg.table import stored_types
from ..progress import query_metrics
from ..progress.position import Position
from ..progress.report import BatchMetrics
from ..progress.unreadable_rows import sum_of_counts
from ..progress.watermark import Watermark
from ..sink import constraints
from ..sink.append import Sink
from ..sources.readers import split_by_view
from ..sources.records import without_unreadable
from ..sources.rows import (
    BatchCache,
    Counted,
    FilteredCounts,
    Meter,
    count_again,
    count_rows,
    filter_late_rows,
    filtered_counts,
    scan_cached,
    truncate_lineage,
    with_row_counts,
)
from ..state.schema import KnownColumns, Layout, derive_layout, merged_schema
from ..state.table import StateTable
from .lookups import Lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class RunContext:
    """Objects that all micro-batches of a run share."""

    model: StreamModel
    program: Program
    state: StateTable
    sink: Sink
    lookups: Lookups


class MicroBatch:
    """A micro-batch that is being run. `position` is updated with each commit.

    Args:
        spark: the session; the views of this micro-batch are created in it.
        position: position of the micro-batch. Its watermark `before` is set; without input, `after` is set too.
        session_defaults: the project's session settings.
        expected: upper bound of the number of input rows; None if unknown.
    """

    def __init__(
        self,
        context: RunContext,
        spark: SparkSession,
        position: Position,
        session_defaults: SessionDefaults,
        expected: int | None = None,
    ) -> None:
        self.position = position
        self.metrics = BatchMetrics()
        self._context = context
        self._spark = spark
        self._session_defaults = session_defaults
        self._cache = BatchCache()
        self._rows_of: dict[str, int] = {}
        self._expected = expected
        self._row_count: int | None = None
        """Number of input rows for which the shuffle partitions were last set; None if unknown."""
        self._early: set[str] = set()
        """Names of the steps that are computed together with the rows they read, before the watermark advances."""
        self._added: dict[str, str] = {}
        """State table → query of the rows to append to it."""
        self.observed_lookups: dict[str, tuple[StateLookup, ...]] = {}
        """Name of observed metrics → the state look-ups that they count."""
        self._computed: set[str] | None = None
        """Names of the steps computed before the commit of the state; None if another run made that commit."""
        self._input_schema: StructType | None = None

    def update_state(self, batch: DataFrame, watermark: Watermark, at: int) -> Watermark:
        """Computes the state changes of the micro-batch's rows and makes the first commit. Returns the watermark after
        them. `at`: processing time at which they arrived, in microseconds since 1970."""
        streams = self._context.program.inputs
        self._set_shuffle_partitions(self._expected)
        with self.metrics.timed("read"):
            self._register_clock()
            self._input_schema = batch.schema
            self._register_streams(batch)
        filtered = self._evaluate_before_watermark()
        with self.metrics.timed("read"):
            for stream in streams:
                if not self._cache.has_observed(stream.view):
                    self._cache.persist(with_row_counts(split_by_view(batch, streams)[stream.view], stream))
            counts = [count_rows(self._cache, stream) for stream in streams]
            watermark = watermark.advance(self._newest_times(counts, filtered), at)
        self._advance_position(watermark)
        self._commit_changes(filtered)
        return watermark

    def advance_watermark_to(self, watermark: int) -> None:
        """Makes the first commit of a micro-batch that has no input and only advances the watermark."""
        if self._context.program.flushes_from_state:
            self.position = replace(self.position, after=watermark)
            self._commit_changes(None)
            return
        # The schema at the state's creation: the state's columns haven't changed since, and a source may be gone.
        self._register_empty_streams(self._spark.createDataFrame([], self._context.state.input_schema()))
        filtered = self._evaluate_before_watermark()
        self.position = replace(self.position, after=watermark)
        self._commit_changes(filtered)

    def emit(self) -> None:
        """Emits from cached rows, or from the state after a crash, and makes the last commit. Does nothing if no
        window closes, or if the step `skip_if_empty` has no rows."""
        program = self._context.program
        windows = self._max_closing_windows()
        if windows == 0:
            return
        if windows is not None:
            self._set_shuffle_partitions(self._row_count, windows)
        made = self._computed or ()
        if left := [step for step in program.output_steps if step.name not in made]:
            self._register_clock()
            with self.metrics.timed("emission"):
                for step in left:
                    self._register_step(self._with_cached_rows(step))
        if program.skip_if_empty is not None and not self._rows_of.get(program.skip_if_empty, 1):
            return
        self._run_lookups(program.lookups)
        with self.metrics.timed("emission"):
            self._append_output(few=are_few(self._context.state.rows))

    def _max_closing_windows(self) -> int | None:
        """Returns an upper bound of the number of windows that this micro-batch closes; None if it may emit rows although
        none closes."""
        boundaries = self._context.program.boundaries
        if boundaries is None:
            return None

        def at(watermark: int | None, each: Boundaries) -> int | None:
            return latest_local_time(
                None if watermark is None else watermark - each.extra_delay, each.time_zone
            )

        before, after = self.position.before, self.position.after
        return max(0, *(each.count_closing(at(before, each), at(after, each)) for each in boundaries))

    def write_without_state(self, batch: DataFrame, watermark: Watermark, at: int) -> Watermark:
        """Writes the micro-batch's rows straight to the table, for a program without state: one commit. Returns the
        watermark after them.

        Unless the rows are cached, counts and watermark are known only after the commit. The commit then carries those of
        the previous micro-batch, and only `progress` reads them.
        """
        self._register_clock()
        streams = self._context.program.inputs
        rows_of = split_by_view(batch, streams)
        caches_rows = bool(self._context.program.lookups) or self._context.program.filters_on_arrival
        has_changelog = self._context.sink.changes is not None
        meters = []
        for stream in streams:
            rows = with_row_counts(rows_of[stream.view], stream)
            if caches_rows:
                # Also read for look-up keys or for the watermark.
                self._cache.persist(rows)
                rows = scan_cached(rows)
            elif not has_changelog:
                meters.append(Meter(rows_of[stream.view], stream))
                rows = meters[-1].rows
            register_view(rows, stream.view)
        self._run_lookups(self._context.program.lookups)
        if caches_rows:
            counts = [count_rows(self._cache, each) for each in streams]
            watermark = watermark.advance(self._newest_times(counts, []), at)
            self._advance_position(watermark)
        with self.metrics.timed("emission"):
            self._append_output(few=False)
        if not caches_rows:
            counts = [each.read() for each in meters]
            if has_changelog:
                # Uses the counts observed while the changelog's rows were computed; counts again if none were.
                counts = [
                    count_rows(self._cache, each)
                    if self._cache.has_observed(each.view)
                    else count_again(rows_of[each.view], each)
                    for each in streams
                ]
            watermark = watermark.advance(self._newest_times(counts, []), at)
            self._advance_position(watermark)
        return watermark

    def compact(self) -> None:
        """Compacts the state, merges small files and expires old snapshots, where it pays. Runs only after all output of
        the micro-batch is in the table, because a compacted state can't reproduce the output."""
        if self._context.program.keeps_state:
            self._fold_state()
            self._record_completion()
            self._maintain_table(self._context.state)
        self._maintain_table(self._context.sink)

    def _record_completion(self) -> None:
        """Commits to the state that the epoch's output is complete, if nothing else records it: the table has no commit of
        an epoch without changes, and Spark's checkpoint records only the first epoch of a micro-batch."""
        position = self.position
        if position.flush == 0 or position.cut is not None or position.folded:
            return
        emitted = self._context.sink.position()
        if emitted is None or emitted.step < position.step:
            self.position = replace(position, folded=True)
            self._commit_state({}, few=True)

    def _fold_state(self) -> None:
        state, parts = self._context.state, self._context.program.parts
        grown = state.parts_to_fold(parts, self.position.after)
        if not grown and not state.has_many_small_files():
            return
        with self.metrics.timed("fold"):
            if grown:
                set_shuffle_partitions(self._spark, self._session_defaults, state.rows, are_few(state.rows))
                self._register_clock()
                state.register_state_view(self._spark)
                self.position = replace(self.position, folded=True)
                folds = {
                    part.name: self._analyzed_sql(part, part.fold) for part in parts if part.name in grown
                }
                state.fold(self._spark, folds, self.position)
                set_shuffle_partitions(self._spark, self._session_defaults)
            else:
                state.compact(self._spark)
            self.metrics.commits += 1

    def _maintain_table(self, table: StateTable | Sink) -> None:
        with self.metrics.timed("maintenance"):
            self.metrics.commits += table.maintain(self._spark)

    def release(self) -> None:
        """Releases the cached rows."""
        self._cache.release()

    # Views.

    def _register_clock(self) -> None:
        def instant(micros: int | None) -> str:
            return "cast(null as timestamp)" if micros is None else f"timestamp_micros({micros}L)"

        position, program = self.position, self._context.program
        times = {"now_before": position.before, "now_after": position.after}
        for name, now in (("watermark_before", position.before), ("watermark_after", position.after)):
            times[name] = None if now is None else now - program.allowed_lateness
        values = {"batch_id": f"{position.batch}L", "step": f"{position.number}L"}
        for zone in (None, *program.time_zones):
            for name, at in times.items():
                values[clock_column(name, zone)] = instant(latest_local_time(at, zone))
        row, names = ", ".join(values.values()), ", ".join(values)
        register_view(sql(self._spark, f"select * from values ({row}) as clock({names})"), "clock")

    def _register_streams(self, batch: DataFrame) -> None:
        """Registers a view per stream. Rows are counted when they are read."""
        program = self._context.program
        rows_of = split_by_view(batch, program.inputs)
        once = {
            view for rows in program.items_of_kind(Rows) if rows.is_single_reader for view in rows.streams
        }
        for stream in program.inputs:
            rows = with_row_counts(rows_of[stream.view], stream)
            if stream.view not in once:
                self._cache.persist(rows)
                rows = scan_cached(rows)
            register_view(rows, stream.view)

    def _evaluate_before_watermark(self) -> list[FilteredCounts]:
        """Evaluates the items of `program.arrival` before the watermark advances, and each step that is the only reader of
        such an item's rows, which are counted meanwhile. Returns the counts."""
        program, is_empty = self._context.program, self._context.state.rows == 0
        with self.metrics.timed("read"):
            for item in program.arrival:
                self._evaluate_item(item, is_empty)
            if self._early:
                self._ensure_state()
            for item in program.ingest:
                if isinstance(item, Step) and item.name in self._early:
                    made = self._rows_of_step(item, is_empty)
                    self._rows_of[item.name] = self._cache.persist(made)
                    register_view(scan_cached(made), item.name)
            return [filtered_counts(self._cache, rows) for rows in program.arrival if isinstance(rows, Rows)]

    def _evaluate_item(self, item: Item, state_is_empty: bool) -> None:
        """Registers the view of an item, or computes the rows to append to a state table."""
        if isinstance(item, Lookup):
            self._run_lookups([item])
        elif isinstance(item, Rows):
            self._filter_late_rows(item)
        elif isinstance(item, StatePart):
            self._added[item.name] = self._part_rows_sql(item, state_is_empty)
        elif item.name not in self._early:
            self._register_step(self._with_cheapest_sql(item), state_is_empty and not item.sees_changes)

    def _run_lookups(self, lookups: Sequence[Lookup]) -> None:
        """Queries the external tables for the keys of this micro-batch."""
        metrics = self.metrics
        requests, keys = metrics.lookup_requests, metrics.lookup_keys
        for lookup in lookups:
            with metrics.timed("lookup"):
                rows = self._context.lookups.rows_for_keys(self._spark, lookup, self._cache, metrics)
                register_view(rows, lookup.view)
        self.position = replace(
            self.position,
            lookup_requests=self.position.lookup_requests + metrics.lookup_requests - requests,
            lookup_keys=self.position.lookup_keys + metrics.lookup_keys - keys,
        )

    def _filter_late_rows(self, rows: Rows) -> None:
        """Drops late rows and caches the others. If the number of input rows is known and a single step reads them, they
        aren't cached but counted while that step is computed."""
        live = filter_late_rows(self._spark, self._context.model, rows)
        if rows.read_by is None or self._expected is None:
            self._cache.persist(live)
            register_view(scan_cached(live), rows.name)
        else:
            self._early.add(rows.read_by)

    def _ensure_state(self) -> None:
        """Creates the state if it doesn't exist."""
        program, state = self._context.program, self._context.state
        if not state.exists:
            with self.metrics.timed("state"):
                layout = self._derive_layout()
                inputs = None if program.flushes_from_state else self._input_schema
                if program.upsert is not None and not program.flushes_from_state:
                    check_groupable(self._context.model, column_types(layout.schema).values())
                state.create(self._spark, layout, program.signature, inputs)

    def _newest_times(
        self, counts: Sequence[Counted], filtered: Sequence[FilteredCounts]
    ) -> dict[str, int | None]:
        """Returns the newest event time of each stream, and adds its counts to the metrics."""
        newest: dict[str, int | None] = {}
        names = {source.relation: source.name for source in self._context.model.sources}
        for stream, count in zip(self._context.program.inputs, counts, strict=True):
            self.metrics.rows_in += count.rows
            if count.unreadable:
                self.metrics.add_unreadable_values(names[stream.relation], count.unreadable)
            newest[stream.relation] = count.newest
            if stream.event_time is None:
                times = [each.newest for each in filtered if stream.view in each.streams]
                newest[stream.relation] = max((time for time in times if time is not None), default=None)
        return newest

    def _register_step(self, step: Step, state_is_empty: bool = False) -> None:
        """Registers the rows of a step. Rows that other steps read are persisted lazily, without a job."""
        rows = self._rows_of_step(step, state_is_empty)
        if step.materialize or (step.persist and step.name == self._context.program.skip_if_empty):
            self._rows_of[step.name] = self._cache.persist(rows)
            rows = truncate_lineage(rows)
        elif step.persist and not self._has_no_input(step):
            rows = self._cache.persist_lazily(rows)
        register_view(rows, step.name)

    def _has_no_input(self, step: Step) -> bool:
        """Returns whether the step that `unless_empty` names has no rows, so that the step's `initial` text applies."""
        return step.unless_empty is not None and not self._rows_of.get(step.unless_empty, 1)

    def _rows_of_step(self, step: Step, state_is_empty: bool) -> DataFrame:
        """Returns the rows of a step as a lazy DataFrame."""
        if self._context.state.exists:
            names = step.reads if step.sees_changes else ()
            added = {name: self._added[name] for name in names if name in self._added}
            self._context.state.register_state_view(self._spark, step.reads, added)
        return self._rows_counting_lookups(step, item_sql(step, state_is_empty or self._has_no_input(step)))

    def _rows_counting_lookups(self, step: Step, text: str) -> DataFrame:
        """Returns the rows of a step, which count its state look-ups while they are computed."""
        rows = sql(self._spark, text)
        if not step.state_lookups or text != step.sql:
            return rows
        name = query_metrics.lookup_metrics_name(step.name)
        self.observed_lookups[name] = step.state_lookups
        return query_metrics.with_observations(rows, name, step.state_lookups)

    def _analyzed_sql(self, part: StatePart, text: str) -> str:
        """Returns SQL for a state table's rows. It is analysed while the view ``state`` has only the columns of the state
        tables that it reads: another state table may have a column of the same name with another type."""
        if not self._context.state.mapping:
            return text
        self._context.state.register_state_view(self._spark, part.reads)
        name = f"{part.name}__written"
        register_view(sql(self._spark, text), name)
        return f"select * from {name}"

    def _with_cached_rows(self, step: Step) -> Step:
        """Returns an output step. It reads the rows that this micro-batch has cached, if the step has such a text."""
        if step.fresh is None or self._computed is None:
            return step
        return replace(step, sql=step.fresh, persist=False, materialize=False, state_lookups=())

    def _set_shuffle_partitions(self, rows: int | None, windows: int = 1) -> None:
        """Sets the shuffle partitions for a number of input rows. `windows`: how many windows may emit a state row."""
        self._row_count = rows
        context = self._context
        # An upsert or a changelog compares the result with the table.
        compared = context.program.upsert is not None or context.sink.changes is not None
        kept = context.state.rows * windows + (context.sink.rows if compared else 0)
        few = rows is not None and not context.program.tables and are_few(rows + kept)
        set_shuffle_partitions(self._spark, self._session_defaults, rows or 0, few)

    # Changes, and commits.

    def _commit_changes(self, filtered: Sequence[FilteredCounts] | None) -> None:
        """Computes all changes of the state and commits them at once. `filtered`: the input; None to close windows."""
        program, state = self._context.program, self._context.state
        self._register_clock()
        # Streams without windows have no late-row filter, so no filtered rows.
        rows = max(sum(each.live_rows for each in filtered or ()), self.metrics.rows_in)
        if program.is_full_output:
            rows += state.rows  # the output is computed from all of the state
        self._set_shuffle_partitions(rows)
        self._ensure_state()
        is_empty, windows, fed = state.rows == 0, self._max_closing_windows(), 0
        ingest = () if filtered is None else program.ingest
        cascade = () if windows == 0 else program.cascade
        self._add_late_counts(filtered or ())
        with self.metrics.timed("state"):
            for item in ingest:
                self._evaluate_item(item, is_empty)
        if cascade and windows is not None:
            self._set_shuffle_partitions(rows, windows)
        with self.metrics.timed("emission"):
            for item in cascade:
                self._evaluate_item(item, is_empty)
                if isinstance(item, Rows):
                    counts = filtered_counts(self._cache, item)
                    self._add_late_counts([counts])
                    # Windows may emit more rows than came in.
                    fed += counts.live_rows
        state.register_state_view(self._spark)
        self._computed = {each.name for each in (*ingest, *cascade) if isinstance(each, Step)}
        self._commit_state(self._added, few=are_few(max(rows, fed) + (state.rows if cascade else 0)))

    def _part_rows_sql(self, part: StatePart, is_empty: bool) -> str:
        """Returns SQL for a state table's new rows. Rows that are read before they are written are computed once."""
        rewrite = self._rewrite_of(part)
        text = item_sql(part, is_empty) if rewrite is None else rewrite.sql
        if not any(
            part.name in step.reads for step in self._context.program.items_of_kind(Step) if step.sees_changes
        ):
            return self._analyzed_sql(part, text)
        name = f"{part.name}__new"
        self._register_step(Step(name, text, persist=True, reads=part.reads))
        return f"select * from {name}"

    def _rewrite_of(self, part: StatePart) -> Rewrite | None:
        """Returns the rewrite of a state table, if this micro-batch changes most of it; else None."""
        rewrite = part.rewrite
        if rewrite is None:
            return None
        rows = self._rows_of.get(rewrite.grows_by, 0)
        return rewrite if self._context.state.is_cheap_to_rewrite(part.name, rows) else None

    def _with_cheapest_sql(self, step: Step) -> Step:
        """Returns the step with the text that costs least for the number of input rows."""
        whole = step.full_scan
        if whole is None or (whole.of_many and are_few(self._row_count or 0)):
            return step
        if whole.part in self._rewritten_part_names():
            return replace(step, sql=whole.sql, persist=True)
        return replace(step, sql=whole.sql) if self._context.state.is_small(whole.part) else step

    def _rewritten_part_names(self) -> list[str]:
        """Returns the names of the state tables that are rewritten as a whole."""
        return [part.name for part in self._context.program.parts if self._rewrite_of(part) is not None]

    def _advance_position(self, watermark: Watermark) -> None:
        """Updates the position with the watermark and row counts."""
        self.position = replace(
            self.position,
            after=watermark.value,
            newest=watermark.newest,
            last_arrival=watermark.last_arrival,
            idle=watermark.idle,
            rows_in=self.position.rows_in + self.metrics.rows_in,
            unreadable=sum_of_counts(self.position.unreadable, self.metrics.unreadable),
        )

    def _add_late_counts(self, filtered: Sequence[FilteredCounts]) -> None:
        """Adds late rows and rows without event time to the metrics and the position."""
        late = sum(rows.late_rows for rows in filtered)
        null_times = sum(rows.null_time_rows for rows in filtered)
        self.metrics.late_rows += late
        self.metrics.null_time_rows += null_times
        self.position = replace(
            self.position,
            late_rows=self.position.late_rows + late,
            null_time_rows=self.position.null_time_rows + null_times,
        )

    def _commit_state(self, parts: Mapping[str, str], few: bool) -> None:
        with self.metrics.timed("commit_state"):
            rewritten = [part for part in self._rewritten_part_names() if part in parts]
            self._context.state.append(self._spark, parts, self.position, few, rewritten)
            self.metrics.commits += 1

    def _append_output(self, few: bool) -> None:
        output = self._context.program.output
        try:
            sink = self._context.sink
            self.metrics.rows_out = sink.put(self._spark, output, self.position, few, self._cache)
        except Exception as problem:
            if (error := constraints.violation_error(problem)) is None:
                raise
            if self._context.program.keeps_state:
                self._context.state.undo_micro_batch(self._spark, self.position)
            raise error from problem
        self.metrics.commits += 1
        self.position = replace(self.position, rows_out=self.position.rows_out + self.metrics.rows_out)

    def state_layout(self, batch: DataFrame, known: KnownColumns | None = None) -> Layout:
        """Returns the columns of the program's state. Reads no data."""
        self._register_empty_streams(batch)
        self._register_empty_items(self._context.program.arrival)
        return self._derive_layout(known)

    def _register_empty_streams(self, batch: DataFrame) -> None:
        self._register_clock()
        for stream, rows in split_by_view(batch, self._context.program.inputs).items():
            register_view(without_unreadable(rows), stream)

    def _register_empty_items(self, items: Sequence[Item]) -> dict[str, DataFrame]:
        """Registers the views of items with no rows and no state. Returns the empty rows to append to each state table."""
        parts: dict[str, DataFrame] = {}
        for item in items:
            if isinstance(item, Lookup):
                register_view(self._context.lookups.no_rows(self._spark, item), item.view)
                continue
            if isinstance(item, Step) and item.sees_changes:
                seen = merged_schema(parts[name].schema for name in item.reads)
                register_view(self._spark.createDataFrame([], seen), "state")
            rows = self._spark.sql(item.sql if isinstance(item, Rows) else item_sql(item, True))
            if isinstance(item, StatePart):
                parts[item.name] = rows
            else:
                register_view(rows, item.name)
        return parts

    def _derive_layout(self, known: KnownColumns | None = None) -> Layout:
        """Derives the state's columns by analysing the program's texts, without running them."""

        def stored(kinds: Sequence[str]) -> list[str]:
            return [*stored_types(self._spark, {f"c{n}": kind for n, kind in enumerate(kinds)}).values()]

        program = self._context.program
        parts = self._register_empty_items((*program.ingest, *program.cascade))
        schemas = {name: rows.schema for name, rows in parts.items()}
        kept = [kind for schema in schemas.values() for kind in column_types(schema).values()]
        check_collations(self._context.model, kept)
        readers: list[Step | StatePart] = [
            *program.items_of_kind(Step),
            *program.parts,
            *program.output_steps,
        ]
        return derive_layout(schemas, dict.fromkeys(each.reads for each in readers), stored, known)


def now() -> int:
    """Returns the processing time in microseconds since 1970."""
    return time.time_ns() // 1000


def item_sql(made: Step | StatePart, state_is_empty: bool) -> str:
    """Returns the SQL of a step, or of the rows to append to a state table."""
    if state_is_empty and made.initial is not None:
        return made.initial
    return made.append if isinstance(made, StatePart) else made.sql
