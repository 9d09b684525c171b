"""What macros ask of the adapter about incremental models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dbt.adapters.base import available
from dbt.adapters.base.meta import AdapterMeta
from dbt_common.exceptions import CompilationError

from ..util.lazily import Lazily
from ..util.quoting import find_name, quote, quote_path

if TYPE_CHECKING:
    from dbt.adapters.base import BaseRelation
    from dbt.adapters.base.column import Column

    from ..project import batch, stream_node, streaming
    from ..project.batch import Incremental
    from ..query.batch import replace_rows
    from ..query.windows import ranges
    from ..query.windows.ranges import TimeRange
    from ..stream.evolution import output_schema as columns
    from ..stream.progress import position
    from ..stream.sink import incremental_runs
else:
    batch, stream_node, streaming = map(Lazily, ("project.batch", "project.stream_node", "project.streaming"))
    columns, incremental_runs, position = map(
        Lazily, ("stream.evolution.output_schema", "stream.sink.incremental_runs", "stream.progress.position")
    )
    ranges, replace_rows = map(Lazily, ("query.windows.ranges", "query.batch.replace_rows"))


class BatchMethods(metaclass=AdapterMeta):
    """The methods of the adapter that macros/incremental calls."""

    config: Any
    connections: Any

    @available.parse_none
    def get_incremental_strategy_macro(self, model_context: Any, strategy: str) -> Any:
        """The macro of a strategy, as dbt finds it.

        Raises:
            CompilationError: there is none; which there are.
        """
        model = model_context["model"]
        if f"get_incremental_{strategy.replace('+', '_')}_sql" not in model_context:
            with streaming.sentences(), stream_node.named(model):
                raise batch.unknown(strategy)
        return super().get_incremental_strategy_macro(model_context, strategy)  # type: ignore[misc]

    @available.parse_none
    def check_incremental(self, model: Mapping[str, Any], strategy: str, file_format: str) -> None:
        """Passes an incremental model whose configs go together. Touches nothing.

        Raises:
            CompilationError: they don't; what to write instead.
        """
        with streaming.sentences(), stream_node.named(model):
            batch.check(model, strategy, file_format)

    @available.parse(lambda *arguments, **named: batch.Incremental(""))
    def plan_incremental(
        self, model: Mapping[str, Any], sql: str, strategy: str, existing: BaseRelation | None
    ) -> Incremental:
        """What a run computes, and which rows of the table that replaces.

        Args:
            model: the model's node.
            sql: its compiled text.
            strategy: of two, `window_overwrite` and `microbatch`, a range is recomputed.
            existing: the model's table; None if it isn't there, or is made anew.

        Raises:
            CompilationError: the range can't be recomputed, and why.
        """
        if strategy not in (batch.WINDOW_OVERWRITE, batch.MICROBATCH):
            return batch.Incremental(sql)
        if strategy == batch.MICROBATCH and not model.get("batch"):
            return batch.Incremental(sql)
        if getattr(self.config.args, "EMPTY", False):
            return batch.Incremental(sql, batch.NOTHING)
        sample = getattr(self.config.args, "SAMPLE", None)
        with streaming.sentences(), stream_node.named(model):
            table = None if existing is None else existing.render()
            if strategy == batch.MICROBATCH:
                found = batch.microbatch(model, sql, sample is None, table, self._ask, self._column_types)
            else:
                found = batch.overwrite(model, sql, self._asked(sample), table, self._ask, sample)
        return replace(found, sql=self.typed(found.sql, sql))  # type: ignore[attr-defined]

    def _asked(self, sample: Any) -> TimeRange | None:
        """The range that the command line names."""
        start = getattr(self.config.args, "EVENT_TIME_START", None)
        end = getattr(self.config.args, "EVENT_TIME_END", None)
        if sample is not None:
            start, end = sample.start, sample.end
        if start is None and end is None:
            return None
        return ranges.TimeRange(
            None if start is None else ranges.micros(start), None if end is None else ranges.micros(end)
        )

    def _ask(self, query: str) -> tuple[int | None, ...]:
        return tuple(self._execute(query).fetchone())

    def _column_types(self, query: str) -> dict[str, str]:
        return {column.name: column.dtype for column in self.query_columns(query)}  # type: ignore[attr-defined]

    @available.parse_none
    def note_incremental(self, target: BaseRelation) -> None:
        """Note in an Iceberg table that an incremental run is about to write to it, if a stream has, as far as its snapshots
        are there. The stream would put its rows on top of these, so it stops there."""
        table = target.render()
        rows = self._execute(f"show tblproperties {table}").fetchall()
        noted = dict(map(tuple, rows)).get(incremental_runs.NOTE, "0")
        of_streams = f"summary['{position.PREFIX}batch-id'] is not null"
        expired = f"parent_id is not null and parent_id not in (select snapshot_id from {table}.snapshots)"
        newest, streams, left = self._ask(
            f"select (select max(snapshot_id) from {table}.refs where name = 'main'), "
            f"(select count_if({of_streams} or {expired}) from {table}.snapshots), "
            f"(select count_if(snapshot_id = {noted} and not is_current_ancestor) from {table}.history)"
        )
        # The first run's note stays, but for that of one whose rows are gone, as the table was put back.
        if newest is not None and streams and (noted == "0" or left):
            self._execute(f"alter table {table} set tblproperties ('{incremental_runs.NOTE}' = '{newest}')")

    def _execute(self, statement: str) -> Any:
        cursor = self.connections.get_thread_connection().handle.cursor()
        cursor.execute(statement)
        return cursor

    @available.parse(lambda *arguments, **named: "")
    def replace_where_sql(
        self,
        target: BaseRelation,
        source: BaseRelation,
        columns: Sequence[Column],
        condition: str,
        predicates: Sequence[str] | None = None,
        divided: str | None = None,
    ) -> str:
        """The statement that replaces the rows of a table where a condition holds.

        Args:
            target: the table.
            source: the new rows.
            columns: those that both have.
            condition: over the table's columns.
            predicates: more conditions, of the user's.
            divided: a query for how many files of the table the condition divides, if that can be told.
        """
        types = _types(columns)
        if (
            divided
            and not predicates
            and list(types) == self._names_of(target)
            and self._ask(divided) == (0,)
        ):
            return replace_rows.replace_files(target.render(), source.render(), types, condition)
        return replace_rows.replace_where(
            target.render(), source.render(), types, condition, predicates or ()
        )

    def _names_of(self, relation: BaseRelation) -> list[str]:
        return [column.name for column in self.get_columns_in_relation(relation)]  # type: ignore[attr-defined]

    @available.parse(lambda *arguments, **named: "")
    def replace_keys_sql(
        self,
        target: BaseRelation,
        source: BaseRelation,
        columns: Sequence[Column],
        keys: Sequence[Column],
        predicates: Sequence[str] | None = None,
    ) -> str:
        """The statement that replaces the rows of a table that have a new row's key."""
        names = [key.name for key in keys]
        return replace_rows.replace_keys(
            target.render(), source.render(), _types(columns), names, predicates or ()
        )

    @available.parse_list
    def widening_sql(
        self, model: Mapping[str, Any], table: BaseRelation, has: Sequence[Column], wants: Sequence[Column]
    ) -> list[str]:
        """The statements that make columns of an Iceberg table as wide as those of a query, as `sync_all_columns` asks.

        Args:
            model: the model.
            table: its table.
            has: the table's columns.
            wants: the query's.

        Raises:
            CompilationError: a column can't hold what the query gives; nothing was changed.
        """
        known, wider = {column.name.lower(): column for column in has}, columns.Widening()
        for column in wants:
            was = known.get(column.name.lower())
            if was is None:
                continue
            found = columns.widening((was.name,), was.dtype, column.dtype)
            if found is None:
                raise CompilationError(
                    f"Model {model['name']}: its query gives {column.name} as {column.dtype.upper()}, and in its table "
                    f"{table.render()} it is {was.dtype.upper()}, which can't become that: INT becomes BIGINT, FLOAT "
                    "DOUBLE, a DECIMAL one of more digits, and a struct gets fields. Give it another name, convert it: "
                    f"cast(… as {was.dtype.upper()}), or build the table anew: `dbt run --full-refresh --select "
                    f"{model['name']}`."
                )
            wider |= found
        alter = f"alter table {table.render()}"
        statements = [
            f"{alter} alter column {quote_path(path)} type {kind}" for path, kind in wider.promote.items()
        ]
        for path, fields in wider.fields.items():
            for name, kind, after in fields:
                place = "first" if after is None else f"after {quote(after)}"
                statements.append(f"{alter} add column {quote_path([*path, name])} {kind} {place}")
        return statements

    @available.parse_list
    def key_columns(
        self, model: Mapping[str, Any], keys: str | Sequence[str] | None, columns: Sequence[Column]
    ) -> list[Column]:
        """The columns that a `unique_key` is made of.

        Args:
            model: the model.
            keys: the config's value.
            columns: those that the query and the table both have.

        Raises:
            CompilationError: it names something else.
        """
        return self._named(model, "unique_key", keys, columns)

    @available.parse_list
    def merge_update_columns(
        self,
        model: Mapping[str, Any],
        update: str | Sequence[str] | None,
        exclude: str | Sequence[str] | None,
        columns: Sequence[Column],
    ) -> list[Column]:
        """The columns that a MERGE updates in rows that are there.

        Args:
            model: the model.
            update: config `merge_update_columns`.
            exclude: config `merge_exclude_columns`.
            columns: those that the query and the table both have.

        Raises:
            CompilationError: both are given, or one names something else.
        """
        if update and exclude:
            raise CompilationError(
                f"Model {model['name']}: configs 'merge_update_columns' and 'merge_exclude_columns' are both given; "
                "leave one of them out."
            )
        if update:
            return self._named(model, "merge_update_columns", update, columns)
        # What isn't there isn't updated either.
        left_out = {find_name(name, _types(columns)) for name in _listed(exclude)}
        return [column for column in columns if column.name not in left_out]

    def _named(
        self,
        model: Mapping[str, Any],
        config: str,
        names: str | Sequence[str] | None,
        columns: Sequence[Column],
    ) -> list[Column]:
        by_name = {column.name: column for column in columns}
        found = {}
        for name in _listed(names):
            known = find_name(name, by_name)
            if known is None:
                raise CompilationError(
                    f"Model {model['name']}: {config} '{name}' is not a column that both its query and its table have; "
                    f"they have {', '.join(by_name)}."
                )
            found[known] = by_name[known]
        return list(found.values())

    @available.parse_none
    def check_partitions(self, model: Mapping[str, Any], columns: Sequence[Column]) -> None:
        """Passes a query that says of which partition each of its rows is.

        Raises:
            CompilationError: it lacks a column of `partition_by`, so that all its rows would be of one partition.
        """
        have = [column.name for column in columns]
        with streaming.sentences(), stream_node.named(model):
            batch.check_partitions(model["config"].get("partition_by"), have)


def _listed(names: str | Sequence[str] | None) -> list[str]:
    """Names of columns, as a config gives them."""
    return [name for name in ([names] if isinstance(names, str) else names or ()) if name]


def _types(columns: Sequence[Column]) -> dict[str, str]:
    return {column.name: column.dtype for column in columns}
