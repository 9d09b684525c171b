"""Computes new aggregates from the history of the sources (`on_new_metric: backfill`), as rows to add to a state.

State rows are additive, and the columns of an aggregate are NULL in rows without values for it. So the history is ingested
as a first micro-batch into a temporary state. The columns of the new aggregates are then copied from there, for the windows
and groups that the state still has. Kept aggregates are computed too: if they differ from the state, the history isn't what
the state has ingested, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...query.program import EXPIRES_AT, STEP, Lookup, Rows, Step
from ...query.state_signature import AggregateState, Signature
from ...util.quoting import quote as quoted
from ...util.types import column_types
from ..common.errors import StreamError
from ..common.session import register_view, session_defaults, sql
from ..common.table_rows import Columns
from ..evolution.compare import KINDS
from ..evolution.effect import Evolution
from ..microbatch.micro_batch import MicroBatch, RunContext, item_sql
from ..progress.position import Position
from ..sources.replay import History, history
from ..sources.rows import scan_cached
from .state_change import StateChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SINCE, _MERGE_FROM, _SLICE = "since", "merge_from", "slice_end"
_EXACT = ("COUNT(", "COUNT_IF(", "SUM(", "AVG(", "MEAN(")
"""Aggregates whose results over exact numbers don't depend on the order of their values."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")
_ALL_ROWS = "COUNT(*)"


def check_new_metrics(
    spark: SparkSession, context: RunContext, found: Evolution, had: Signature, position: Position
) -> History:
    """Returns the history for new aggregates, or raises if they can't be computed from it. Reads only metadata."""
    model = context.model
    if why := _backfill_problem(context, found, had, position):
        raise _backfill_error(model.name, why)
    try:
        read = history(spark, model, context.program.inputs, position.batch)
    except StreamError as problem:
        raise _backfill_error(model.name, _without_name(model.name, problem)) from problem
    if read.unsure and not all(map(_counts_rows, _aggregations_with_new(context, found, had))):
        raise _backfill_error(
            model.name,
            f"{' and '.join(read.unsure)}, and it keeps no COUNT(*) to show whether the history is still what the "
            "stream has read",
        )
    return read


def _backfill_problem(
    context: RunContext, found: Evolution, had: Signature, position: Position
) -> str | None:
    program = context.program
    if position.cut is not None:
        return "its last micro-batch is only partly ingested, because its run was interrupted"
    is_tree = program.signature.has_several_operators
    if program.cascade:
        what = "windows with other operators on top of them" if is_tree else "windows on top of each other"
        return f"its state is of {what}"
    if program.filters_on_arrival:
        return "which rows it counts depends on the watermark at their arrival (current_timestamp())"
    if context.state.mapping:
        return "a column of its state has several types"
    aggregations = _aggregations_with_new(context, found, had)
    if is_tree and not all(map(_counts_rows, aggregations)):
        return (
            "its state is of several operators on top of each other, and it keeps no COUNT(*) to show whether all rows "
            "that now reach a group had reached it before"
        )
    for aggregation in aggregations:
        if not aggregation.main:
            return f"{aggregation.name} keeps rows and no aggregates"
    ttl = any(part.forgets is not None for part in program.parts)
    for aggregation in aggregations if ttl else ():
        if not _counts_rows(aggregation):
            return "with state_ttl, it keeps no COUNT(*) to show whether all rows of a key came since it last expired"
        if aggregation.new.enumerated:
            return "it has both state_ttl and enum_distinct"
    return None


def _backfill_error(name: str, why: str) -> StreamError:
    return StreamError(
        f"Model {name}: its new aggregates can't be computed from the history of its sources (on_new_metric is 'backfill'): "
        f"{why}. Nothing was changed. Write on_new_metric='from_now' to have them count the rows that come from now on."
    )


def _without_name(name: str, problem: StreamError) -> str:
    text = problem.without_name(name)
    if text.startswith(f"Model {name} "):
        text = f"it {text.removeprefix(f'Model {name} ')}"
    return text.strip().rstrip(".")


@dataclass(frozen=True)
class _Aggregation:
    """A window or group aggregation with new aggregates."""

    name: str
    main: str
    """State table with its partial aggregates; empty if there is none."""
    new: AggregateState
    """Aggregates of the new signature."""
    new_keys: frozenset[str]
    """Keys of its new aggregates."""
    complete_keys: frozenset[str]
    """Keys of the kept aggregates that include all rows so far."""

    @property
    def values(self) -> set[str]:
        """Columns of its aggregates and distinct values, in lower case."""
        return {column.lower() for column in self.new.columns}

    @property
    def new_columns(self) -> set[str]:
        """Columns that only its new aggregates have, in lower case."""
        metrics = self.new.metrics
        kept = {
            column.lower() for key in metrics if key not in self.new_keys for column in metrics[key].columns
        }
        return {column.lower() for key in self.new_keys for column in metrics[key].columns} - kept

    @property
    def metric_columns(self) -> set[str]:
        """Columns of all its aggregates, in lower case."""
        return {column.lower() for metric in self.new.metrics.values() for column in metric.columns}


def _aggregations_with_new(context: RunContext, found: Evolution, had: Signature) -> list[_Aggregation]:
    before, now = had.aggregates, context.program.signature.aggregates
    parts = {part.name for part in context.program.parts}
    made = []
    for name, keys in found.new_keys.items():
        if not keys:
            continue
        come, metrics = frozenset(keys), before[name].metrics
        main = [each for each in (f"{name}_{kind}" for kind in KINDS) if each in parts]
        complete_keys = frozenset(
            key
            for key in now[name].metrics
            if key not in come and not (key in metrics and metrics[key].from_now)
        )
        made.append(_Aggregation(name, main[0] if main else "", now[name], come, complete_keys))
    return made


def _counts_rows(aggregation: _Aggregation) -> bool:
    return any(aggregation.new.metrics[key].sql == _ALL_ROWS for key in aggregation.complete_keys)


class NewMetrics(MicroBatch):
    """A micro-batch that ingests the sources' history for new aggregates. The caller releases it after writing its rows.

    Args:
        position: the last epoch in the state.
        unfinished: whether the table lacks the output of that epoch.
    """

    def __init__(
        self,
        context: RunContext,
        spark: SparkSession,
        position: Position,
        unfinished: bool,
        had: Signature,
        change: StateChange,
    ) -> None:
        super().__init__(context, spark, position, session_defaults(spark))
        assert change.migration is not None and change.schema is not None and change.history is not None
        self._change, self._schema, self._read = change.migration, change.schema, change.history
        self._aggregations = _aggregations_with_new(context, change.found, had)
        self._has_steps = STEP in self._schema.names
        # Windows whose output the table lacks must not count as closed.
        self._at = position.before if unfinished else position.after
        self.then = position
        """The epoch of the state after the rows computed here are added."""
        if self._has_steps and not change.found.rebuilt:
            # A separate epoch, which emits all groups with new values.
            later = position.flush + 1
            self.then = replace(position, flush=later, folded=False, before=self._at, is_rebuild=False)
        self._is_step = self.then is not position

    def compute(self) -> None:
        """Reads the history and computes the rows to add to the state."""
        self._set_shuffle_partitions(self._read.count)
        # Only the state tables of aggregations with new aggregates are computed.
        parts = list(dict.fromkeys(name for each in self._aggregations for name in self._parts_of(each)))
        try:
            self._ingest_history(parts)
        except Exception as problem:
            if isinstance(problem, StreamError) or not self._read.has_messages:
                raise
            raise _backfill_error(
                self._context.model.name,
                f"messages that were read are no longer in Kafka, or can't be read ({str(problem).splitlines()[0]})",
            ) from problem
        columns = Columns(self._schema)
        self._register_state(
            [columns.select(self._spark, f"select * from history_of_{name}", part=name) for name in parts]
        )
        self._set_clock(self._at)
        self._register_folded({*parts}, "past")
        self._register_state([self._existing_rows_sql()])
        self._register_folded({aggregation.main for aggregation in self._aggregations}, "present")
        for aggregation in self._aggregations:
            self._check_kept_aggregates(aggregation)

    def rows(self, schema: StructType) -> DataFrame:
        """Returns the rows to add to the state, in its schema."""
        columns = Columns(schema)
        made = [
            columns.select(self._spark, self._added_rows_sql(aggregation, part), part=part)
            for aggregation in self._aggregations
            for part in self._parts_of(aggregation)
        ]
        return sql(self._spark, "\nunion all\n".join(made))

    # -- the history -------------------------------------------------------------------------------

    def _ingest_history(self, parts: Sequence[str]) -> None:
        """Ingests the history into an empty state, and registers a view for each of the given state tables."""
        self._set_clock(None)
        register_view(self._spark.createDataFrame([], self._schema), "state")
        self._register_streams(self._read.rows(self._spark))
        for item in self._context.program.items:
            if isinstance(item, Lookup):
                self._run_lookups([item])
            elif isinstance(item, Rows):
                self._filter_late_rows(item)
            elif isinstance(item, Step):
                self._register_step(item, True)
            elif item.name in parts:
                self._register_persisted(sql(self._spark, item_sql(item, True)), f"history_of_{item.name}")

    def _register_step(self, step: Step, state_is_empty: bool = False) -> None:
        """Registers the view of a step. Unlike in `MicroBatch`, the step's rows are computed only when they are read."""
        rows = sql(self._spark, item_sql(step, state_is_empty))
        register_view(self._cache.persist_lazily(rows) if step.persist else rows, step.name)

    def _set_clock(self, watermark: int | None) -> None:
        self.position = replace(self.position, before=watermark, after=watermark)
        self._register_clock()

    def _register_persisted(self, rows: DataFrame, view: str) -> None:
        self._cache.persist(rows)
        register_view(scan_cached(rows), view)

    # -- states ------------------------------------------------------------------------------------

    def _register_state(self, queries: Sequence[str]) -> None:
        """Registers the rows of queries as the view ``state``."""
        register_view(sql(self._spark, "\nunion all\n".join(queries)), "state")

    def _existing_rows_sql(self) -> str:
        """Returns the existing rows of the state, with the columns of the new schema."""
        state, was = self._context.state, {now: name for name, now in self._change.rename.items()}
        dropped = {name.lower() for name in self._change.drop}
        has = {name.lower() for name in state.physical_types(self._spark)} - dropped
        items = [
            f"{quoted(was.get(name, name))} as {quoted(name)}"
            for name in self._schema.names
            if was.get(name, name).lower() in has and name not in self._change.add
        ]
        query = f"select {', '.join(items)} from {state.relation}"
        return Columns(self._schema).select(self._spark, query)

    def _register_folded(self, parts: set[str], prefix: str) -> None:
        """Registers views of state tables in compacted form, as ``{prefix}_{part}``."""
        for part in self._context.program.parts:
            if part.name in parts:
                self._register_persisted(sql(self._spark, part.fold), f"{prefix}_{part.name}")

    def _parts_of(self, aggregation: _Aggregation) -> list[str]:
        """Returns the state tables with columns of an aggregation's new aggregates."""
        names = {aggregation.new.metrics[key].distinct_set for key in aggregation.new_keys}
        return [
            aggregation.main,
            *sorted({aggregation.new.distinct_sets[name].part for name in names if name is not None}),
        ]

    def _group_columns(self, aggregation: _Aggregation, part: str) -> list[str]:
        """Returns the columns of a state table that identify the window and group of a row."""
        others = {"part", STEP, _SINCE, _MERGE_FROM, _SLICE, *aggregation.values}
        if self._has_steps:
            others.add(EXPIRES_AT)  # here the expiry of a key, not the end of a window
        of_main = self._spark.table(f"past_{aggregation.main}").columns
        own = {name.lower() for name in self._spark.table(f"past_{part}").columns}
        return [name for name in of_main if name.lower() in own - others]

    # -- comparison and additions ------------------------------------------------------------------

    def _check_kept_aggregates(self, aggregation: _Aggregation) -> None:
        """Raises if kept aggregates with exact results differ between the history and the state."""
        by = self._group_columns(aggregation, aggregation.main)
        schema = self._spark.table(f"past_{aggregation.main}").schema
        kinds = {name.lower(): kind for name, kind in column_types(schema).items()}
        exact = {
            f"__n{place}": (key, column)
            for place, (key, column) in enumerate(
                (key, column)
                for key in sorted(aggregation.complete_keys)
                for metric in [aggregation.new.metrics[key]]
                if metric.distinct_set is None and metric.sql.upper().startswith(_EXACT)
                for column in metric.columns
                if kinds[column.lower()].startswith(_NUMBERS)
            )
        }
        sums = []
        for name, (_, column) in exact.items():
            kind = kinds[column.lower()]
            sum_type = kind if kind.startswith("decimal") else "decimal(20,0)"
            sums.append(f"coalesce(try_sum(cast({quoted(column)} as {sum_type})), 0) as {name}")
        listed = ", ".join(map(quoted, by))
        grouped = f"group by {listed}" if by else "having count(*) > 0"

        def summed(view: str) -> str:
            return f"select {', '.join([*map(quoted, by), *sums, 'true as __there'])} from {view} {grouped}"

        on = _join_condition(by)
        present, past = summed(f"present_{aggregation.main}"), summed(f"past_{aggregation.main}")
        both = f"({present}) as own left join ({past}) as past on {on}"
        wrong = {"__there": "past.__there is null", **{name: f"own.{name} <> past.{name}" for name in exact}}
        counts = ", ".join(f"count_if({text}) as {name}" for name, text in wrong.items())
        row = self._spark.sql(f"select {counts}, count(*) as __all from {both}").first()
        assert row is not None
        for name, text in wrong.items():
            if not row[name]:
                continue
            difference = "have no rows there"
            if name != "__there":
                difference = (
                    f"have another {aggregation.new.metrics[exact[name][0]].sql} there than in the state"
                )
            one = self._spark.sql(f"select own.* from {both} where {text} limit 1").first()
            of = ", ".join(f"{key} {one[key]}" for key in by) if one is not None else ""
            raise _backfill_error(
                self._context.model.name,
                f"its state can't be computed again from them: {row[name]:,} of {row['__all']:,} windows or groups "
                f"{difference}{f' (as {of})' if of else ''}: rows of the sources were changed "
                "or deleted, the state was edited, or a key had expired and came again",
            )

    def _added_rows_sql(self, aggregation: _Aggregation, part: str) -> str:
        """Returns a query for the rows to add to a state table."""
        by, columns = self._group_columns(aggregation, part), self._spark.table(f"past_{part}").columns
        present_columns = {name.lower() for name in self._spark.table(f"present_{aggregation.main}").columns}
        # All rows of a group have one TTL generation, and all rows of a session one `merge_from`.
        carried = {_SINCE: "max", _MERGE_FROM: "min", **({EXPIRES_AT: "max"} if self._has_steps else {})}
        carried = {name: how for name, how in carried.items() if name in present_columns}
        items = []
        for name in columns:
            if name.lower() == STEP:
                items.append(
                    f"{self.then.number}L as {STEP}" if self._is_step else f"cast(null as bigint) as {STEP}"
                )
            elif name.lower() in carried:
                items.append(f"own.{quoted(name)}")
            elif name.lower() not in aggregation.metric_columns - aggregation.new_columns:
                items.append(f"past.{quoted(name)}")
        listed = [
            *map(quoted, by),
            *(f"{how}({quoted(name)}) as {quoted(name)}" for name, how in carried.items()),
        ]
        grouped = f"group by {', '.join(map(quoted, by))}" if by else "having count(*) > 0"
        there = f"select {', '.join(listed) or '1 as __there'} from present_{aggregation.main} {grouped}"
        seen = ""
        if part != aggregation.main:
            of_new = aggregation.new_columns & aggregation.metric_columns
            flags = (f"string({quoted(name)})" for name in columns if name.lower() in of_new)
            seen = f"\nwhere coalesce({', '.join(flags)}) is not null"
        on = _join_condition(by)
        return f"select {', '.join(items)}\nfrom past_{part} as past join (\n{there}\n) as own on {on}{seen}"


def _join_condition(columns: Sequence[str]) -> str:
    return " and ".join(f"own.{quoted(name)} <=> past.{quoted(name)}" for name in columns) or "true"
