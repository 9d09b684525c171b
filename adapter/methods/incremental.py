"""Methods of the adapter for incremental models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dbt.adapters.base import available
from dbt.adapters.base.meta import AdapterMeta
from dbt_common.exceptions import CompilationError

from ..util.lazy_import import import_lazily
from ..util.nested_types import reorder_fields_sql, struct_fields
from ..util.quoting import find_name, quote, quote_path

if TYPE_CHECKING:
    from dbt.adapters.base import BaseRelation
    from dbt.adapters.base.column import Column

    from ..project import batch, model_configs, partitioning, stream_node, streaming
    from ..project.batch import Incremental
    from ..query.batch import replace_rows
    from ..query.windows import ranges
    from ..query.windows.ranges import TimeRange
    from ..stream.evolution import output_schema as columns
    from ..stream.progress import position
    from ..stream.sink import incremental_runs
else:
    import_lazily(
        globals(),
        {
            "project": ["batch", "model_configs", "partitioning", "stream_node", "streaming"],
            "query.batch": ["replace_rows"],
            "query.windows": ["ranges"],
            "stream.evolution": ["output_schema as columns"],
            "stream.progress": ["position"],
            "stream.sink": ["incremental_runs"],
        },
    )


class BatchMethods(metaclass=AdapterMeta):
    """Methods of the adapter that macros/incremental calls."""

    config: Any
    connections: Any

    @available.parse_none
    def get_incremental_strategy_macro(self, model_context: Any, strategy: str) -> Any:
        """Returns the macro of a strategy, as dbt finds it. Raises `CompilationError` if there is no such strategy."""
        model = model_context["model"]
        if f"get_incremental_{strategy.replace('+', '_')}_sql" not in model_context:
            with streaming.raising_dbt_errors(), stream_node.errors_with_model_name(model):
                raise batch.unknown_strategy_error(strategy)
        return super().get_incremental_strategy_macro(model_context, strategy)  # type: ignore[misc]

    @available.parse_none
    def check_incremental(self, model: Mapping[str, Any], strategy: str, file_format: str) -> None:
        """Raises unless the configs of an incremental model are consistent. Changes nothing."""
        with streaming.raising_dbt_errors(), stream_node.errors_with_model_name(model):
            batch.check_strategy(model, strategy, file_format)

    @available.parse(lambda *arguments, **named: batch.Incremental(""))
    def plan_incremental(
        self, model: Mapping[str, Any], sql: str, strategy: str, existing: BaseRelation | None
    ) -> Incremental:
        """Returns the query of a run, and the rows of the table that its result replaces.

        Args:
            existing: the model's table. None if it doesn't exist or is rebuilt.

        Raises:
            CompilationError: the range can't be recomputed.
        """
        if strategy not in (model_configs.WINDOW_OVERWRITE, model_configs.MICROBATCH):
            return batch.Incremental(sql)
        if strategy == model_configs.MICROBATCH and not model.get("batch"):
            return batch.Incremental(sql)
        if getattr(self.config.args, "EMPTY", False):
            return batch.Incremental(sql, batch.NOTHING)
        sample = getattr(self.config.args, "SAMPLE", None)
        with streaming.raising_dbt_errors(), stream_node.errors_with_model_name(model):
            table = None if existing is None else existing.render()
            if strategy == model_configs.MICROBATCH:
                found = batch.plan_microbatch(
                    model, sql, sample is None, table, self._query_row, self._column_types
                )
            else:
                found = batch.plan_window_overwrite(
                    model, sql, self._requested_range(sample), table, self._query_row, sample
                )
        return replace(found, sql=self.with_types_of_text(found.sql, sql))  # type: ignore[attr-defined]

    def _requested_range(self, sample: Any) -> TimeRange | None:
        """Returns the range of the command line or of a sample, or None."""
        start = getattr(self.config.args, "EVENT_TIME_START", None)
        end = getattr(self.config.args, "EVENT_TIME_END", None)
        if sample is not None:
            start, end = sample.start, sample.end
        if start is None and end is None:
            return None
        return ranges.TimeRange(
            None if start is None else ranges.instant_of(start),
            None if end is None else ranges.instant_of(end),
        )

    def _query_row(self, query: str) -> tuple[int | None, ...]:
        return tuple(self._execute(query).fetchone())

    def _column_types(self, query: str) -> dict[str, str]:
        return {column.name: column.dtype for column in self.query_columns(query)}  # type: ignore[attr-defined]

    @available.parse_none
    def mark_incremental_run(self, target: BaseRelation) -> None:
        """Marks an Iceberg table as written by an incremental run, if a stream may have written it.

        A stream of the model then refuses to start, because it would add its rows to those of the run. If snapshots have
        expired, a stream may have written them.
        """
        table = target.render()
        rows = self._execute(f"show tblproperties {table}").fetchall()
        noted = dict(map(tuple, rows)).get(incremental_runs.NOTE, "0")
        of_streams = f"summary['{position.PREFIX}batch-id'] is not null"
        expired = f"parent_id is not null and parent_id not in (select snapshot_id from {table}.snapshots)"
        newest, streams, left = self._query_row(
            f"select (select max(snapshot_id) from {table}.refs where name = 'main'), "
            f"(select count_if({of_streams} or {expired}) from {table}.snapshots), "
            f"(select count_if(snapshot_id = {noted} and not is_current_ancestor) from {table}.history)"
        )
        # The mark of the first run stays, unless the table was rolled back to before that run.
        if newest is not None and streams and (noted == "0" or left):
            self._execute(f"alter table {table} set tblproperties ('{incremental_runs.NOTE}' = '{newest}')")

    def _execute(self, statement: str) -> Any:
        cursor = self.connections.get_thread_connection().handle.cursor()
        cursor.execute(statement)
        return cursor

    @available.parse(lambda *arguments, **named: "")
    def rows_in_table_order_sql(
        self, model: Mapping[str, Any], source: BaseRelation, columns: Sequence[Column]
    ) -> str:
        """Returns the relation with a query's rows, or a query in brackets that orders struct fields as in the
        table: Spark inserts structs by position.

        Args:
            columns: the columns that both have, with the table's types.

        Raises:
            CompilationError: a struct has fields of other names than in the table.
        """
        given = {column.name.lower(): column for column in self.get_columns_in_relation(source)}  # type: ignore[attr-defined]
        items = {}
        for column in columns:
            own = given[column.name.lower()]
            items[column.name] = reorder_fields_sql(quote(own.name), own.dtype, column.dtype)
            had, has = (
                sorted(name.lower() for name, _ in struct_fields(each.dtype) or ()) for each in (own, column)
            )
            if has and had != has:
                raise CompilationError(
                    f"Model {model['name']}: its query gives {column.name} as {own.dtype.upper()}, and in its table it is "
                    f"{column.dtype.upper()}, with other fields. Give it the fields of the table, as in "
                    f"named_struct('{has[0]}', …) AS {column.name}; with on_schema_change='sync_all_columns' the table "
                    f"gets new ones. To rebuild the table: `dbt run --full-refresh --select {model['name']}`."
                )
        if all(value == quote(given[name.lower()].name) for name, value in items.items()):
            return str(source.render())
        listed = ", ".join(f"{value} as {quote(name)}" for name, value in items.items())
        return f"(select {listed} from {source.render()})"

    @available.parse(lambda *arguments, **named: "*")
    def select_list_in_order_of(self, table: BaseRelation, query: str) -> str:
        """Returns the select list for all columns of a table, with struct fields in the order in which a query has them:
        Spark compares and unites structs by position."""
        nested = [each for each in self.get_columns_in_relation(table) if "struct<" in each.dtype]  # type: ignore[attr-defined]
        wants = self._column_types(query) if nested else {}
        kinds = {name.lower(): kind for name, kind in wants.items()}
        values = {
            quote(each.name): reorder_fields_sql(
                quote(each.name), each.dtype, kinds.get(each.name.lower(), each.dtype)
            )
            for each in nested
        }
        changed = {name: value for name, value in values.items() if value != name}
        if not changed:
            return "*"
        return f"* except ({', '.join(changed)}), {', '.join(f'{value} as {name}' for name, value in changed.items())}"

    @available.parse(lambda *arguments, **named: "")
    def replace_where_sql(
        self,
        target: BaseRelation,
        source: str,
        columns: Sequence[Column],
        condition: str,
        predicates: Sequence[str] | None = None,
        divided_files_query: str | None = None,
    ) -> str:
        """Returns the statement that replaces the rows of a table that meet a condition.

        Args:
            source: a relation, or a query in brackets.
            divided_files_query: counts the table's files that have both rows that meet the condition and others.
        """
        types = _types_by_name(columns)
        if (
            divided_files_query
            and not predicates
            and [*types] == [*_types_by_name(self.get_columns_in_relation(target))]  # type: ignore[attr-defined]
            and self._query_row(divided_files_query) == (0,)
        ):
            return replace_rows.replace_files_sql(target.render(), source, types, condition)
        return replace_rows.replace_where_sql(target.render(), source, types, condition, predicates or ())

    @available.parse(lambda *arguments, **named: "")
    def replace_keys_sql(
        self,
        target: BaseRelation,
        source: BaseRelation,
        columns: Sequence[Column],
        keys: Sequence[Column],
        predicates: Sequence[str] | None = None,
    ) -> str:
        """Returns the statement that replaces the rows of a table that have the key of a new row."""
        names = [key.name for key in keys]
        return replace_rows.replace_keys_sql(
            target.render(), source.render(), _types_by_name(columns), names, predicates or ()
        )

    @available.parse_list
    def widening_sql(
        self, model: Mapping[str, Any], table: BaseRelation, has: Sequence[Column], wants: Sequence[Column]
    ) -> list[str]:
        """Returns the statements that widen columns of an Iceberg table to the types of a query (`sync_all_columns`).

        Raises:
            CompilationError: a column can't be widened to the query's type.
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
                    f"cast(… as {was.dtype.upper()}), or rebuild the table: `dbt run --full-refresh --select "
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
        """Returns the columns of a `unique_key`. Raises `CompilationError` if it names something else."""
        return self._find_columns(model, "unique_key", keys, columns)

    @available.parse_list
    def merge_update_columns(
        self,
        model: Mapping[str, Any],
        update: str | Sequence[str] | None,
        exclude: str | Sequence[str] | None,
        columns: Sequence[Column],
    ) -> list[Column]:
        """Returns the columns that a MERGE updates in existing rows. Raises `CompilationError` if both configs are given, or
        one names something else."""
        if update and exclude:
            raise CompilationError(
                f"Model {model['name']}: configs 'merge_update_columns' and 'merge_exclude_columns' are both given; "
                "leave one of them out."
            )
        if update:
            return self._find_columns(model, "merge_update_columns", update, columns)
        left_out = {find_name(name, _types_by_name(columns)) for name in _as_list(exclude)}
        return [column for column in columns if column.name not in left_out]

    def _find_columns(
        self,
        model: Mapping[str, Any],
        config: str,
        names: str | Sequence[str] | None,
        columns: Sequence[Column],
    ) -> list[Column]:
        by_name = {column.name: column for column in columns}
        found = {}
        for name in _as_list(names):
            known = find_name(name, by_name)
            if known is None:
                raise CompilationError(
                    f"Model {model['name']}: {config} '{name}' is not a column that both its query and its table have; "
                    f"they have {', '.join(by_name)}."
                )
            found[known] = by_name[known]
        return list(found.values())

    @available.parse_none
    def check_partitions(
        self, model: Mapping[str, Any], columns: Sequence[Column], table: BaseRelation | None
    ) -> None:
        """Raises `CompilationError` unless a query has all columns of `partition_by`, and the table is partitioned by them:
        its rows would replace other partitions than the config says."""
        have = [column.name for column in columns]
        partition_by = model["config"].get("partition_by")
        with streaming.raising_dbt_errors(), stream_node.errors_with_model_name(model):
            partitioning.check_partition_columns(partition_by, have)
            if table is not None:
                types = self._column_types(f"select * from {table.render()}.partitions limit 0")
                fields = [name for name, _ in struct_fields(types.get("partition", "")) or ()]
                partitioning.check_table_partitioning(partition_by, fields)

    @available.parse(lambda *arguments, **named: "")
    def replace_all_sql(self, target: BaseRelation, source: str, columns: Sequence[Column]) -> str:
        """Returns the statement that replaces all rows of a table by those of a query.

        Args:
            source: a relation, or a query in brackets.
            columns: the columns that both have; the others are NULL.
        """
        has = self.get_columns_in_relation(target)  # type: ignore[attr-defined]
        return replace_rows.replace_files_sql(
            target.render(), source, _types_by_name(has), "true", list(_types_by_name(columns))
        )


def _as_list(names: str | Sequence[str] | None) -> list[str]:
    """Returns the names of columns in a config, which is a name or a list of names."""
    return [name for name in ([names] if isinstance(names, str) else names or ()) if name]


def _types_by_name(columns: Sequence[Column]) -> dict[str, str]:
    return {column.name: column.dtype for column in columns}
