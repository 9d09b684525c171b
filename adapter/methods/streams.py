"""Methods of the adapter for streaming models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dbt.adapters.base import available
from dbt.adapters.base.meta import AdapterMeta
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError
from jinja2 import Undefined

from ..project.cleaned_sources import check_cleaned_sources
from ..project.model_names import versioned_name
from ..query.errors import QueryError
from ..stream.common.identifiers import joined_name, parts
from ..util.lazy_import import import_lazily
from ..util.quoting import literal, quote, text_literal
from ..util.settings import FLAG
from ..util.types import column_types
from .column import SparkStreamingColumn

if TYPE_CHECKING:
    from dbt.adapters.base import BaseRelation

    from ..environment import Environment
    from ..project import as_of, model_configs, partitioning, stream_node, streaming
    from ..query.batch import whole_query
    from ..query.normalize.rankings import ranks
    from ..query.plan.plan import Plan
    from ..query.program import Program
    from ..query.sql import semicolons
    from ..query.sql.functions import QueryRunner
    from ..query.windows import expansion, window_arguments
    from ..service import health, preparation
    from ..stream.common.model import StreamModel
    from ..stream.evolution import output_schema as columns
    from ..stream.iceberg import owner, ownership
    from ..stream.iceberg import table as iceberg
    from ..stream.run import runner
    from ..stream.sink import constraints
    from ..stream.sources import bootstrap as bootstrapping
    from ..stream.sources import changed_files, upstream
    from ..stream.storage import deployments, savepoints
else:
    import_lazily(
        globals(),
        {
            "project": ["as_of", "model_configs", "partitioning", "stream_node", "streaming"],
            "query.batch": ["whole_query"],
            "query.normalize.rankings": ["ranks"],
            "query.sql": ["semicolons"],
            "query.windows": ["expansion", "window_arguments"],
            "service": ["health", "preparation"],
            "stream.evolution": ["output_schema as columns"],
            "stream.iceberg": ["owner", "ownership", "table as iceberg"],
            "stream.run": ["runner"],
            "stream.sink": ["constraints"],
            "stream.sources": ["bootstrap as bootstrapping", "changed_files", "upstream"],
            "stream.storage": ["deployments", "savepoints"],
        },
    )


logger = AdapterLogger("Spark")


@dataclass(frozen=True)
class RunOptions:
    """Options of a run of a model."""

    flush: bool = False
    """Whether to close all windows afterwards."""
    at_once: bool = False
    """Whether to read everything in one micro-batch, regardless of the sources' limits."""
    keep_state: bool = False
    """Whether to keep the state although its sources have other rows now than when it was built."""
    bootstrap: Mapping[str, str] | None = None
    """The table whose rows replace the source's history, by name of the model."""


class StreamingMethods(metaclass=AdapterMeta):
    """Methods of the adapter that macros/windows and macros/materializations call."""

    environment: Environment
    connections: Any

    @available.parse(lambda *arguments, **named: "")
    def expand_window(
        self,
        kind: str,
        relation: object,
        time_col: str,
        lengths: Sequence[object],
        **options: Any,
    ) -> str:
        """Returns the subquery of a window macro (tumble, hop, cumulate, session).

        Args:
            options: `offset`, `emit`, `partition_by` and `time_zone`, where the macro has them.
        """
        with streaming.raising_dbt_errors():
            if isinstance(relation, Undefined):
                name = relation._undefined_name
                raise QueryError(
                    f"{kind}(): {name} is not known in Jinja. Write ref('…') or source('…', '…'), or the name of a CTE in "
                    f"quotes: '{name}'."
                )
            for each in (time_col, *lengths):
                if isinstance(each, Undefined) and each._undefined_name not in window_arguments.PARAMETERS:
                    name = each._undefined_name
                    raise QueryError(
                        f"{kind}(): {name} is not known in Jinja. If it is a column, write it in quotes: '{name}'."
                    )
            given = [None if isinstance(each, Undefined) else each for each in lengths]
            time = None if isinstance(time_col, Undefined) else time_col
            window = window_arguments.make_window(kind, time, *given, **options)
            return expansion.expand_window(str(relation), window)

    @available.parse(lambda *arguments, **named: "")
    def expand_stream(self, relation: object) -> str:
        """Returns the subquery of the macro ``stream()``."""
        return expansion.expand_stream(str(relation))

    @available.parse(lambda *arguments, **named: "")
    def expand_as_of(
        self, relation: object, time: object, key: object = None, graph: Any = None, model: Any = None
    ) -> str:
        """Returns the subquery of the macro ``as_of()``: versions of rows at a time.

        Args:
            time: column of a relation before it in FROM.
            key: columns that identify what a row is a version of; None for the source's unique_key.

        Raises:
            CompilationError: an argument is wrong, or the project doesn't say what the versions are.
        """
        with streaming.raising_dbt_errors():
            # The graph of a unit test lacks what the project declares of its sources.
            project_graph = getattr(getattr(self, "_macro_resolver", None), "flat_graph", None) or graph
            name = as_of.name_of_versions(relation)
            declared = as_of.declared_relation(name, project_graph)
            known = streaming.known_relations(graph if declared == name else project_graph, node=model)
            versions = as_of.as_of_arguments(name, time, key, known.get(declared))
            return expansion.expand_as_of(*versions)

    @available.parse(lambda *arguments, **named: "")
    def batch_text(self, sql: str, graph: Any = None, model: Any = None) -> str:
        """Returns a model's text for batch, with windows computed from slices. Its columns keep the
        types of `sql`."""
        return self._planned_text(whole_query.batch_text, sql, graph, model)

    @available.parse(lambda *arguments, **named: "")
    def whole_input_text(self, sql: str, graph: Any = None, model: Any = None) -> str:
        """Returns the text of a view or a test, which runs over whole inputs. It omits the steps that `emit='on_change'`
        omits, and the rows that a stream drops because of their event time."""
        return self._planned_text(whole_query.whole_input_text, sql, graph, model)

    def _planned_text(self, make_text: Callable[..., str], sql: str, graph: Any, model: Any) -> str:
        sql = semicolons.without_semicolons(sql)
        with streaming.raising_dbt_errors():
            known = streaming.known_relations_in_batch(sql, graph, model, self.environment)
            planned = make_text(sql, self._query_runner(), known)
        return self.with_types_of_text(planned, sql)

    @available.parse(lambda *arguments, **named: "")
    def dbt_show_text(self, sql: str, graph: Any = None, model: Any = None) -> str:
        """Returns the `whole_input_text` for `dbt show`, and notes where a model's table may have other rows."""
        config = (model or {}).get("config") or {}
        if config.get("materialized") in model_configs.MATERIALIZATIONS:
            name = model["name"]
            logger.info(
                f"Model {name}: dbt show runs its query in batch, so it also has the windows that are still open. For the "
                f"rows of its table: dbt show --inline \"select * from {{{{ ref('{name}') }}}}\""
            )
        return self.whole_input_text(sql, graph, model)

    @available.parse_none
    def log_clone_notice(self, model: Mapping[str, Any], original: BaseRelation) -> None:
        """Logs that `dbt clone` of a streaming model copies neither its table nor its state."""
        if model["config"]["materialized"] in model_configs.MATERIALIZATIONS:
            name = model["name"]
            logger.info(
                f"Model {name}: the clone is a view on {original.render()}. The next `dbt run` replaces it by a table that "
                "reads the sources from their beginning. To copy the table with its state instead: "
                f"`dbt-stream state clone {name} --from-target TARGET`."
            )

    @available.parse(lambda *arguments, **named: "")
    def view_text(self, sql: str, graph: Any = None, model: Any = None) -> str:
        """Returns the `whole_input_text` of a view with named windows inlined: Spark can't resolve them in a view."""
        with streaming.raising_dbt_errors():
            return ranks.inline_named_windows_in_text(self.whole_input_text(sql, graph, model))

    def _query_runner(self) -> QueryRunner:
        return streaming.query_runner(self.environment)

    def with_types_of_text(self, planned: str, sql: str) -> str:
        """Returns a planned text with its columns cast to the types of the model's text."""
        if planned == sql:
            return sql
        types = {column.name: column.dtype for column in self.query_columns(sql)}
        names = [quote(name) for name in types]
        listed = ", ".join(
            f"cast({name} as {kind}) as {name}" for name, kind in zip(names, types.values(), strict=True)
        )
        # Columns are renamed, because Spark derives the name of an unnamed column from its text, which planning changes.
        return f"select {listed} from (\n{planned}\n) as planned ({', '.join(names)})"

    @available.parse_list
    def query_columns(self, sql: str, order: Sequence[str] | None = None) -> list[SparkStreamingColumn]:
        """Returns the columns of a query.

        Args:
            order: names of the columns to return, in this order; all in the query's order by default.

        Raises:
            DbtRuntimeError: the query fails, or two of its columns have one name.
        """
        handle = self.connections.get_thread_connection().handle
        try:
            handle.execute(sql)
            found = handle.description
        except DbtRuntimeError:
            # Spark refuses some queries that the planner accepts, such as grouping_id() with names.
            with streaming.raising_dbt_errors():
                planned = whole_query.batch_text(sql, self._query_runner())
            if planned == sql:
                raise
            handle.execute(planned)
            found = handle.description
        made: dict[str, SparkStreamingColumn] = {}
        for name, kind, *_ in found:
            if name.lower() in made:
                raise DbtRuntimeError(
                    f"The query has two columns called '{name}'. Give one of the two another name with AS, or leave it out: "
                    "select * except (…), or the columns' names in place of a '*' over several relations."
                )
            made[name.lower()] = SparkStreamingColumn(column=name, dtype=kind)
        return [made[name.lower()] for name in order] if order else list(made.values())

    @available.parse_none
    def check_stream(
        self,
        model: Mapping[str, Any],
        sql: str,
        graph: Any = None,
        is_new: bool = False,
        bootstrap: Mapping[str, str] | None = None,
    ) -> None:
        """Raises unless the configs and the text of a streaming model are valid. Changes nothing.

        Args:
            is_new: whether this run starts the stream, which then reads its sources from their beginning.
            bootstrap: the table to bootstrap each model from, by name of the model.

        Raises:
            CompilationError: a config or the text is invalid.
            DbtRuntimeError: a source can't be read from its beginning.
        """
        with self._publishing_failure(model), streaming.raising_dbt_errors():
            stream_node.stream_settings(model)
            described = stream_node.stream_model(model, self.environment)
            owner.check_owner(self.environment.session(), described)
            deployments.check_no_interrupted_swap(described)
            if self._is_empty_run():
                return
            if getattr(self.config.args, "SAMPLE", None) is not None:  # type: ignore[attr-defined]
                raise DbtRuntimeError(
                    f"Model {model['name']}: --sample would leave rows out of it for good, for a stream reads each row "
                    f"once. Run it without --sample, or leave it out: --exclude {model['name']}."
                )
            found = self._plan(model, sql, graph)
            program = streaming.model_program(model, found)
            described = stream_node.stream_model(model, self.environment, program)
            if is_new:
                described = _with_bootstrap_table(described, bootstrap, graph)
            check_cleaned_sources(described, model, graph, is_new)
            named = stream_node.stream_model(model, self.environment, program, graph)
            ownership.check_no_foreign_tables(self.environment.session(), named, program.keeps_state)
            if is_new:
                session = self.environment.session()
                if bootstrapping.check_bootstrap(session, described, program.inputs) is None:
                    upstream.check_beginnings(session, described)
                    changed_files.warn_of_gone(session, described, program.inputs)
            times = whole_query.event_times_sql(found)
            if times is not None:
                handle = self.connections.get_thread_connection().handle
                handle.execute(times)
                streaming.check_event_times(model, handle.description)

    @available.parse_none
    def check_columns(
        self, model: Mapping[str, Any], sql: str, graph: Any = None, is_new: bool = False
    ) -> dict[str, str] | None:
        """Raises unless the table of a streaming model can store the columns of its query. Changes nothing.

        Returns:
            The types of the query's columns by name, or None for `--empty`.

        Raises:
            DbtRuntimeError: Spark refuses the query, or the table can't store a column.
        """
        if self._is_empty_run():
            return None
        with self._publishing_failure(model), streaming.raising_dbt_errors():
            program = streaming.model_program(model, self._plan(model, sql, graph))
            described = stream_node.stream_model(model, self.environment, program, graph)
            gives = {column.name: column.dtype for column in self.query_columns(sql)}
            has = None
            if is_new:
                with stream_node.errors_with_model_name(model):
                    partitioning.check_partition_columns(model["config"].get("partition_by"), list(gives))
            else:
                has = column_types(self.environment.session().table(described.target).schema)
            columns.check_columns(described, program, gives, has)
            if has is not None:
                there = {name.lower() for name in has}
                comes = {name: kind for name, kind in gives.items() if name.lower() not in there}
                constraints.check_existing_rows(self.environment.session(), described, comes)
            return gives

    @available.parse(lambda *arguments, **named: False)
    def has_stream_table(self, model: Mapping[str, Any]) -> bool:
        """Returns whether the table of a streaming model exists now, without dbt's cache."""
        with streaming.raising_dbt_errors():
            described = stream_node.stream_model(model, self.environment)
            return iceberg.find_table(self.environment.session(), described.target) is not None

    @available.parse(lambda *arguments, **named: "")
    def stream_tblproperties(
        self, model: Mapping[str, Any], properties: Mapping[str, object] | None = None
    ) -> str:
        """Returns the TBLPROPERTIES clause of a streaming model's table: its config's, and the marks of ownership."""
        with streaming.raising_dbt_errors():
            described = stream_node.stream_model(model, self.environment)
        made_as = ownership.ownership_properties(savepoints.TABLE, described.target)
        given = {str(name): value for name, value in (properties or {}).items() if value is not None}
        listed = given | made_as
        return f"tblproperties ({', '.join(f'{literal(k)} = {text_literal(v)}' for k, v in listed.items())})"

    @available.parse(lambda *arguments, **named: False)
    def has_state_of_earlier_table(self, model: Mapping[str, Any]) -> bool:
        """Returns whether a model's state and checkpoint belong to an earlier table of its name, because a run was
        interrupted after it created the table, before it deleted them. The stream then starts from the beginning."""
        with streaming.raising_dbt_errors():
            return owner.is_left_by_dropped_table(
                self.environment.session(), stream_node.stream_model(model, self.environment)
            )

    @available.parse_none
    def reset_stream(self, model: Mapping[str, Any]) -> None:
        """Deletes checkpoint and state of a streaming model."""
        with streaming.raising_dbt_errors():
            runner.reset(self.environment.session(), stream_node.stream_model(model, self.environment))

    @available.parse(lambda *arguments, **named: streaming.StreamResponse("STREAM"))
    def run_stream(
        self,
        model: Mapping[str, Any],
        sql: str,
        graph: Any = None,
        gives: Mapping[str, str] | None = None,
        **options: Any,
    ) -> streaming.StreamResponse:
        """Runs a model's stream until it has read all available input, and returns dbt's response.

        Inside `preparation.preparing` the stream is handed over instead of run.

        Args:
            gives: the types of the query's columns by name, to which the table is adapted. None leaves it unchanged.
        """
        if self._is_empty_run():
            return streaming.StreamResponse("STREAM (--empty: no rows)", code="STREAM")
        run = RunOptions(**options)

        def described(gives: Mapping[str, str] | None) -> tuple[StreamModel, Program]:
            program = streaming.model_program(model, self._plan(model, sql, graph))
            found = stream_node.stream_model(model, self.environment, program, graph)
            found = replace(found, keep_state=run.keep_state, columns=gives)
            found = _with_bootstrap_table(found, run.bootstrap, graph)
            return found.without_source_limits() if run.at_once else found, program

        def replan() -> tuple[StreamModel, Program]:
            self.environment.declared.forget_tables_named_in(sql)
            return described(None if gives is None else self.check_columns(model, sql, graph))

        with self._publishing_failure(model), streaming.raising_dbt_errors():
            streamed, program = described(gives)
            trigger = streaming.micro_batch_interval(stream_node.stream_settings(model), program)
            prepared = preparation.Prepared(streamed, program, trigger)
            if preparation.hand_over(model["unique_id"], prepared):
                self.environment.declared.create_tables_named_in(sql)
                return streaming.StreamResponse("STREAM (ready)", code="STREAM")
        with health.publishing_health(streamed):
            return self._run_and_flush(sql, streamed, program, run.flush, replan)

    def _run_and_flush(
        self,
        sql: str,
        streamed: StreamModel,
        program: Program,
        flush: bool,
        replan: Callable[[], tuple[StreamModel, Program]],
    ) -> streaming.StreamResponse:
        handle = self.connections.get_thread_connection().handle
        # In a job group that dbt can cancel.
        with handle.raising_dbt_errors(), streaming.raising_dbt_errors():
            handle.prepare_thread(sql)
            session = self.environment.session()
            plans = [(streamed, program)]

            def replan_for_flush() -> tuple[StreamModel, Program]:
                plans.append(replan())
                return plans[-1]

            result = runner.run_stream(session, streamed, program, replan_for_flush)
        with handle.raising_dbt_errors(), streaming.raising_dbt_errors():
            # A stopped stream has unread input, so its windows stay open.
            if flush and not result.stopped:
                result = result.followed_by(runner.flush(session, *plans[-1]))
        if (note := streaming.no_results_note(streamed, program.inputs, result)) is not None:
            logger.info(note)
        return streaming.dbt_response(result)

    def _publishing_failure(self, model: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Returns a context that publishes a failure of the model; none in the service, which does so itself."""
        if preparation.is_preparing():
            return nullcontext()
        return health.publishing_failure(stream_node.model_without_configs(model, self.environment))

    @available.parse(lambda *arguments, **named: False)
    def boolean_variable(self, name: str, value: object) -> bool:
        """Returns the value of a variable of dbt that is true or false; None counts as false.

        Raises:
            CompilationError: it has another value. The text 'false' would be true in Jinja.
        """
        with streaming.raising_dbt_errors():
            if problem := FLAG.problem(value):
                raise QueryError(f"The variable {name} {problem}, as in --vars '{{{name}: true}}'.")
        return bool(value)

    @available.parse_none
    def skip_response(self, model: Mapping[str, Any], has_own_task: bool) -> streaming.StreamResponse | None:
        """Returns the response for a model that is skipped because ``dbt-stream run`` in another process runs it, else None.

        Args:
            has_own_task: whether this run has a task that the other process doesn't do, such as a full refresh.
        """
        if has_own_task or preparation.is_preparing():
            return None
        with streaming.raising_dbt_errors():
            if stream_node.stream_settings(model).on_running != model_configs.SKIP:
                return None
            found = health.health_in_other_process(stream_node.stream_model(model, self.environment))
        if found is None:
            return None
        checksum = (model.get("checksum") or {}).get("checksum")
        change = (
            "; its query has been edited since, which takes effect when that process is started again"
            if found.text and checksum and found.text != checksum
            else ""
        )
        return streaming.StreamResponse(
            f"STREAM (skipped: process {found.pid} on {found.host}, `{found.by}`, keeps it up to date and is "
            f"{found.state}{change})",
            code="STREAM",
        )

    def _plan(self, model: Mapping[str, Any], sql: str, graph: Any) -> Plan:
        return streaming.plan_with_existing_changelogs(model, sql, self.environment, graph)

    def _is_empty_run(self) -> bool:
        return bool(getattr(self.config.args, "EMPTY", False) or getattr(self.config.args, "empty", False))  # type: ignore[attr-defined]


def _with_bootstrap_table(model: StreamModel, tables: Mapping[str, str] | None, graph: Any) -> StreamModel:
    """Returns the model with the table that it is bootstrapped from, if the variable names one. Raises `DbtRuntimeError`
    unless that is a mapping from models to tables."""
    if tables is not None and not isinstance(tables, Mapping):
        raise DbtRuntimeError(
            f"The variable bootstrap is '{tables}'; write the table of each model, as in {{my_model: history}}."
        )
    models = (
        {versioned_name(node) for node in graph["nodes"].values() if node["resource_type"] == "model"}
        if graph
        else None
    )
    for each, table in (tables or {}).items():
        if models is not None and each not in models:
            raise DbtRuntimeError(f"The variable bootstrap names '{each}', and there is no such model.")
        if not isinstance(table, str):
            raise DbtRuntimeError(
                f"The variable bootstrap says '{table}' for {each}, which is no table's name."
            )
    name = (tables or {}).get(model.name)
    if name is None:
        return model
    # A missing schema or catalog is that of the model's own table.
    named, own = parts(name), parts(model.target)
    return replace(model, bootstrap=joined_name([*own[: len(own) - len(named)], *named]))
