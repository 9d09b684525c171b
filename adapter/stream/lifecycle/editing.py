"""Edits rows of a state by hand: checks the new rows against the state's invariants, and writes them in one commit.

Only states with additive rows are accepted: partial aggregates of windows, sessions and groups, and the distinct values
that some of them count. Other states (rankings, updating rows, several operators) store related rows in several state
tables, which are not checked here.

If state rows carry an epoch, an edit is a separate epoch, as a flush is: its rows carry it, so their groups are emitted to
the table as after any epoch. Otherwise the edit keeps the position, as a compaction does, and windows include the edited
rows when they close.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...query.program import EXPIRES_AT, STEP, Program
from ...query.state_signature import AggregateState, DistinctState, Signature
from ...util.quoting import literal
from ...util.quoting import quote as quoted
from ...util.types import type_text
from ..common.errors import StreamError, readable_errors
from ..common.model import StreamModel
from ..common.session import register_view, session_defaults
from ..common.table_rows import converted_value
from ..evolution.output_schema import can_hold
from ..microbatch.micro_batch import MicroBatch, RunContext
from ..progress.position import Position
from ..run.runner import open_stopped
from ..run.saving import save_before
from ..sources.readers import read_streams
from ..sources.rows import BatchCache, scan_cached
from ..state.column_mapping import signature_with_physical_names
from ..storage.savepoints import EDIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_WINDOW = (EXPIRES_AT, "window_start", "slice_end", "session_start", "session_end", "grouping_id")
_SINCE = "since"
ROWS = "new_rows"
"""Name of the view with rows from the user's file or table."""
_CHANGES, _TIMES, _ONE = "changed_state", "__times", "__one"


@dataclass(frozen=True)
class Edited:
    """Result of an edit or a dry run."""

    removed: Mapping[str, int]
    """Number of removed rows by state table."""
    added: Mapping[str, int]
    """Number of added rows by state table."""
    kept_as: str | None
    """Name of the savepoint from before the edit; None if nothing was changed."""


def edit(
    spark: SparkSession, model: StreamModel, program: Program, rows: str, more: str | None, dry: bool
) -> Edited:
    """Replaces the rows of a state.

    Args:
        rows: a query over the view ``state`` for the new rows of the state.
        more: a query for additional rows; None if there are none.
        dry: whether to return the result without changing the state.

    Raises:
        StreamError: the state can't be edited, the new rows are invalid, or the model is running. Nothing was changed.
    """
    _check_program(model, program)
    # Without columns, an edited query is refused here: only a run migrates the state, and rows are checked against the
    # query of the state.
    model = replace(model, columns=None)
    with open_stopped(spark, model, program) as stream:
        session, position = stream.session, stream.position
        if position.batch < 0 or not stream.context.state.exists:
            raise StreamError(
                f"Model {model.name}: it has no state yet, so there is nothing to edit. `dbt run --select {model.name}` "
                "comes first."
            )
        if position.cut is not None:
            raise StreamError(
                f"Model {model.name}: its last micro-batch is only partly ingested, because its run was interrupted. "
                f"Finish it with `dbt run --select {model.name}` first."
            )
        with BatchCache() as cache:
            found = _Edit(session, stream.context, position)
            removed, added = found.compare(rows, more, cache)
            if (not removed and not added) or dry:
                return Edited(removed, added, None)
            savepoint = save_before(session, model, EDIT)
            found.commit({*removed, *added})
        if found.has_steps:
            stream.finish()
        return Edited(removed, added, savepoint.name)


def register_user_rows(spark: SparkSession, model: StreamModel, source: str) -> None:
    """Registers rows of the user as the view `ROWS`, which the queries of an edit can read.

    Args:
        source: a CSV file with a header, a Parquet file, or a relation. Columns of a CSV file are cast to the types of the
            state's columns of the same names.

    Raises:
        StreamError: the source doesn't exist, or a value doesn't have the column's type.
    """
    with readable_errors(model):
        kind = source.rpartition(".")[2].lower()
        if kind == "parquet":
            rows = spark.read.parquet(source)
        elif kind == "csv":
            rows = _read_csv(spark, model, spark.read.option("header", "true").csv(source), source)
        else:
            rows = spark.table(source)
        rows.createOrReplaceTempView(ROWS)


def _read_csv(spark: SparkSession, model: StreamModel, rows: DataFrame, source: str) -> DataFrame:
    fields = spark.table(model.state).schema.fields if spark.catalog.tableExists(model.state) else []
    kinds = {field.name.lower(): type_text(field.dataType) for field in fields}
    typed = {name: kinds[name.lower()] for name in rows.columns if name.lower() in kinds}
    for name, kind in typed.items():
        wrong = rows.where(
            f"{quoted(name)} is not null and try_cast({quoted(name)} as {kind}) is null"
        ).first()
        if wrong is not None:
            raise StreamError(
                f"Model {model.name}: '{wrong[name]}' in column {name} of {source} is no {kind.upper()}, the type of that "
                "column in its state. Nothing was changed."
            )
    return rows.selectExpr(
        *(
            f"cast({quoted(name)} as {typed[name]}) as {quoted(name)}" if name in typed else quoted(name)
            for name in rows.columns
        )
    )


def _check_program(model: StreamModel, program: Program) -> None:
    if not program.keeps_state:
        raise StreamError(f"Model {model.name}: its query keeps no state, so there is nothing to edit.")
    parts = [part.name for part in program.parts]
    editable = _aggregate_parts(program.signature)
    other = [name for name in parts if name not in editable]
    in_a_tree = program.signature.has_several_operators
    if other or in_a_tree or program.cascade:
        what = f"has {', '.join(other)}" if other else "has several operators"
        raise StreamError(
            f"Model {model.name}: only the state of windows with aggregates, or of one GROUP BY, can be edited. Its state "
            f"{what}, and their tables depend on each other. To go back to an earlier state: `dbt-stream state restore`."
        )


def _aggregate_parts(signature: Signature) -> set[str]:
    """Returns the names of the state tables of aggregates, and of the distinct values that they count.

    >>> from ...query.state_signature import WindowOperatorState
    >>> counted = AggregateState(distinct_sets={"DISTINCT v": DistinctState("window_1a2b_2_distinct_v")})
    >>> windows = (WindowOperatorState("window_1a2b_2", aggregates=counted),)
    >>> sorted(_aggregate_parts(Signature(windows=windows)))[:2]
    ['window_1a2b_2_distinct_v', 'window_1a2b_2_groups']
    """
    tables = {f"{name}_{kind}" for name in signature.aggregates for kind in ("slices", "sessions", "groups")}
    sets = (each for found in signature.aggregates.values() for each in found.distinct_sets.values())
    return tables | {each.part for each in sets}


class _Edit:
    """Compares, checks and commits the new rows of a state."""

    def __init__(self, spark: SparkSession, context: RunContext, position: Position) -> None:
        self._spark, self._context, self._model = spark, context, context.model
        self._schema: StructType = spark.table(context.model.state).schema
        self._names = [field.name for field in self._schema.fields]
        self.has_steps = STEP in self._names
        flush = position.flush + 1 if self.has_steps else position.flush
        self._position = replace(
            position,
            flush=flush,
            folded=not self.has_steps,
            before=position.after if self.has_steps else position.before,
            is_rebuild=False,
            is_edited=True,
        )
        self._last = position.number
        empty = spark.createDataFrame([], read_streams(spark, context.model, context.program.inputs).schema)
        step = MicroBatch(context, spark, position, session_defaults(spark))
        self._mapping = context.state.mapping
        self._own = {
            name: {self._physical_name(name, column).lower() for column in columns}
            for name, columns in step.state_layout(empty).physical_names.items()
        }
        context.state.register_state_view(spark)

    def compare(
        self, rows: str, more: str | None, cache: BatchCache
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Returns the numbers of removed and of added rows by state table. Raises if the state would be invalid."""
        listed = ", ".join(map(quoted, self._names))
        wanted = self._cast_to_state(rows, is_whole=True)
        if more is not None:
            wanted += f"\nunion all\n{self._cast_to_state(more, is_whole=False)}"
        changes = self._spark.sql(
            f"select {listed}, sum(__sign) as {_TIMES} from (\n"
            f"  select *, 1 as __sign from (\n{wanted}\n)\n  union all\n  select {listed}, -1 as __sign from state\n"
            f") group by {listed} having sum(__sign) <> 0"
        ).localCheckpoint()
        cache.persist(changes)
        register_view(scan_cached(changes), _CHANGES)
        for problem in self._state_problems():
            raise StreamError(
                f"Model {self._model.name}: the edit would make its state invalid: {problem} Nothing was changed."
            )
        counted = self._spark.sql(
            f"select part, sum(greatest(-{_TIMES}, 0)) as removed, sum(greatest({_TIMES}, 0)) as added "
            f"from {_CHANGES} group by part order by part"
        ).collect()
        return (
            {row["part"]: row["removed"] for row in counted if row["removed"]},
            {row["part"]: row["added"] for row in counted if row["added"]},
        )

    def commit(self, parts: set[str]) -> None:
        """Commits the new rows of some state tables."""
        listed = ", ".join(map(quoted, self._names))
        of_parts = f"part in ({', '.join(map(literal, sorted(parts)))})"
        new_items = [
            f"{self._position.number}L as {STEP}" if name == STEP else quoted(name) for name in self._names
        ]
        remaining = (
            f"select {listed}, sum(__sign) as {_TIMES} from (\n"
            f"  select {listed}, 1L as __sign from state where {of_parts}\n"
            f"  union all\n  select {listed}, {_TIMES} as __sign from {_CHANGES} where {_TIMES} < 0\n"
            f") group by {listed} having sum(__sign) > 0"
        )
        rows = (
            f"select {listed} from (\n{remaining}\n) lateral view explode(sequence(1L, {_TIMES})) as __time\nunion all\n"
            f"select {', '.join(new_items)} from {_CHANGES} lateral view explode(sequence(1L, {_TIMES})) as __time "
            f"where {_TIMES} > 0"
        )
        self._context.state.edit(self._spark.sql(rows), sorted(parts), self._position)

    def _cast_to_state(self, query: str, is_whole: bool) -> str:
        """Returns a query cast to the columns of the state. Raises if it has others or, with `is_whole`, lacks one."""
        given = {field.name.lower(): field for field in self._spark.sql(query).schema.fields}
        has = {field.name.lower(): field for field in self._schema.fields}
        if unknown := sorted(given.keys() - has.keys()):
            raise self._edit_error(f"it has no column {', '.join(unknown)}; it has {', '.join(self._names)}.")
        if is_whole and (lacking := sorted(has.keys() - given.keys())):
            raise self._edit_error(
                f"the query gives no {', '.join(lacking)}. Give all columns, as in `select * from state …`."
            )
        columns = []
        for name, field in has.items():
            kind, found = type_text(field.dataType), given.get(name)
            if found is not None and not can_hold(type_text(found.dataType).lower(), kind.lower()):
                raise self._edit_error(
                    f"{field.name} is {kind.upper()} in the state, and {type_text(found.dataType).upper()} in the new rows; "
                    f"write cast(… as {kind.upper()})."
                )
            columns.append(converted_value(found, field))
        return f"select {', '.join(columns)} from (\n{query}\n)"

    def _physical_name(self, part: str, column: str) -> str:
        """Returns the physical name of a column of a state table."""
        return self._mapping.get(part, {}).get(column.lower(), column)

    def _edit_error(self, why: str) -> StreamError:
        return StreamError(
            f"Model {self._model.name}: this edit of its state isn't possible: {why} Nothing was changed."
        )

    # Invariants of a state. Each method yields sentences on violations.

    def _state_problems(self) -> Iterator[str]:
        yield from self._part_problems()
        for part, own in self._own.items():
            added = f"(select * from {_CHANGES} where {_TIMES} > 0 and part = {literal(part)})"
            if self._first_row(f"select 1 from {added} limit 1") is None:
                continue
            yield from self._column_problems(part, own, added)
            yield from self._window_problems(part, own, added)
            yield from self._step_problems(own, added)
        yield from self._count_problems()
        yield from self._distinct_problems()

    def _part_problems(self) -> Iterator[str]:
        known = ", ".join(map(literal, self._own))
        row = self._first_row(
            f"select part from {_CHANGES} where {_TIMES} > 0 and (part is null or part not in ({known})) limit 1"
        )
        if row is not None:
            yield f"it has no part {row[0]}; its parts are {', '.join(self._own)}."

    def _column_problems(self, part: str, own: set[str], added: str) -> Iterator[str]:
        """Checks that rows of a state table have NULL in columns of other state tables, and no NULL in window columns."""
        for name in self._names:
            if name != "part" and name.lower() not in own:
                if self._first_row(f"select 1 from {added} where {quoted(name)} is not null limit 1"):
                    yield f"a row of {part} would have {name}, which is a column of other parts."
        for name in (self._physical_name(part, each) for each in (*_WINDOW, _SINCE)):
            if name in own:
                here = f"select 1 from state where part = {literal(part)} and {quoted(name)} is null limit 1"
                come = f"select 1 from {added} where {quoted(name)} is null limit 1"
                if self._first_row(here) is None and self._first_row(come) is not None:
                    yield f"a row of {part} would have no {name}."

    def _window_problems(self, part: str, own: set[str], added: str) -> Iterator[str]:
        """Checks that added rows belong to windows that the state has."""
        called = [self._physical_name(part, name) for name in _WINDOW]
        bounds = [name for name in called if name in own and name in self._names]
        if not bounds:
            return
        same = " and ".join(f"old.{quoted(name)} <=> new.{quoted(name)}" for name in bounds)
        listed = ", ".join(map(quoted, bounds))
        row = self._first_row(
            f"select {', '.join(f'string(new.{quoted(name)})' for name in bounds)} from {added} as new left anti join "
            f"(select distinct {listed} from state where part = {literal(part)}) as old on {same} limit 1"
        )
        if row is not None:
            found = ", ".join(f"{name} {value}" for name, value in zip(bounds, row, strict=True))
            yield (
                f"no row of {part} has {found}. An edit changes the rows of windows that are there; others begin with rows "
                "of the stream."
            )

    def _step_problems(self, own: set[str], added: str) -> Iterator[str]:
        for name in (STEP, _SINCE):
            if name in own and name in self._names:
                row = self._first_row(f"select {name} from {added} where {name} > {self._last} limit 1")
                if row is not None:
                    yield f"a row would have the step {row[0]}, and the last step is {self._last}."

    def _count_problems(self) -> Iterator[str]:
        """Checks that the COUNT of a group is not negative."""
        for name, aggregates in self._physical_aggregates().items():
            values, metrics = self._value_columns(aggregates), aggregates.metrics.values()
            for column in (each.columns[0] for each in metrics if each.sql.upper().startswith("COUNT(")):
                for part, own in self._own.items():
                    if column in own and not part.startswith(f"{name}_distinct"):
                        yield from self._negative_counts_of_column(part, own, column, values)

    def _negative_counts_of_column(
        self, part: str, own: set[str], column: str, values: set[str]
    ) -> Iterator[str]:
        """Checks that a COUNT isn't negative for any values of the other columns.

        Args:
            part: the state table.
            own: its columns, in lower case.
            column: its column with the COUNT.
            values: columns of the state with results of aggregates, not keys.
        """
        by = [name for name in self._names if name.lower() in own - values - {STEP, _SINCE}]
        by = [name for name in by if name != self._physical_name(part, "slice_end")]
        keys = ", ".join(map(quoted, (*by, _ONE)))
        row = self._first_row(
            f"select 1 from ({self._rows_after_sql(part)}) group by {keys} "
            f"having sum({quoted(column)} * {_TIMES}) < 0 limit 1"
        )
        if row is not None:
            yield f"{column} of {part} would be less than 0."

    def _distinct_problems(self) -> Iterator[str]:
        """Checks that a COUNT(DISTINCT) equals the number of distinct values in the state."""
        for aggregates in self._physical_aggregates().values():
            for metric in aggregates.metrics.values():
                if metric.distinct_set is None:
                    continue
                of_set = aggregates.distinct_sets[metric.distinct_set]
                column, flag = metric.columns[0], metric.columns[-1]
                for part, own in self._own.items():
                    if column in own and part != of_set.part:
                        yield from self._distinct_set_problems(
                            part, column, flag, of_set, self._value_columns(aggregates)
                        )

    def _distinct_set_problems(
        self, part: str, column: str, flag: str, of_set: DistinctState, values: set[str]
    ) -> Iterator[str]:
        """Checks that count and values differ only where they did before: values of expired windows may be deleted."""
        other = of_set.part
        common = (self._own[part] & self._own[other]) - values - {STEP, _SINCE}
        by = [name for name in self._names if name.lower() in common]
        keys = ", ".join(map(quoted, (*by, _ONE)))
        distinct = ", ".join(map(quoted, of_set.columns))
        is_set = f"coalesce({quoted(flag)}, false)" if flag.endswith("_in") else f"{quoted(flag)} is not null"

        def difference(counts: str, members: str) -> str:
            """Returns a query for the number of values minus the count, by key."""
            return (
                f"select {keys}, sum(__n) as __n from (\n"
                f"  select {keys}, -coalesce(sum({quoted(column)} * {_TIMES}), 0) as __n from ({counts}) group by {keys}\n"
                f"  union all\n  select {keys}, count(*) as __n from (select {keys}, {distinct} from ({members}) "
                f"where {is_set} group by {keys}, {distinct} having sum({_TIMES}) > 0) group by {keys}\n"
                f") group by {keys} having sum(__n) <> 0"
            )

        before = difference(self._rows_before_sql(part), self._rows_before_sql(other))
        after = difference(self._rows_after_sql(part), self._rows_after_sql(other))
        row = self._first_row(f"({after}) except ({before}) limit 1")
        if row is not None:
            of = ", ".join(f"{name} {value}" for name, value in zip(by, row, strict=False)) or "the one group"
            yield (
                f"for {of} the {column} of {part} would differ from the number of values in {other}. Change both, or "
                "all rows of a key."
            )

    def _rows_before_sql(self, part: str) -> str:
        """Returns a query for the existing rows of a state table, each with the multiplicity 1."""
        listed = ", ".join(map(quoted, self._names))
        return f"select {listed}, 1L as {_TIMES}, 0 as {_ONE} from state where part = {literal(part)}"

    def _rows_after_sql(self, part: str) -> str:
        """Returns a query for the existing rows and the changes of a state table, with multiplicities."""
        where = f"part = {literal(part)}"
        listed = ", ".join(map(quoted, self._names))
        changes = f"select {listed}, {_TIMES}, 0 as {_ONE} from {_CHANGES} where {where}"
        return f"{self._rows_before_sql(part)}\nunion all\n{changes}"

    def _physical_aggregates(self) -> Mapping[str, AggregateState]:
        """Returns the aggregates of each window operator and group, with physical column names."""
        return signature_with_physical_names(self._context.program.signature, self._mapping).aggregates

    @staticmethod
    def _value_columns(aggregates: AggregateState) -> set[str]:
        """Returns the columns of a window operator that are not keys, in lower case."""
        return {name.lower() for name in aggregates.columns} | {"part", "rows_there"}

    def _first_row(self, query: str) -> Any:
        return self._spark.sql(query).first()
