"""Plans a dbt model as a stream: from its node and compiled text to what `stream/` runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import CompilationError, DbtRuntimeError

from ..environment import Environment
from ..environment.memory import out_of_memory_message
from ..environment.spark_errors import readable_error, spark_exceptions
from ..query.batch.whole_query import batch_text
from ..query.diagnostics import column_names
from ..query.errors import QueryError, UnboundedStateError
from ..query.explain import build
from ..query.explain.tree import operators_in_order, text_in_one_line
from ..query.frontend.streams import RelationInfo
from ..query.generation import generate
from ..query.normalize import model_text
from ..query.normalize.names import own_names
from ..query.plan import upsert_keys
from ..query.plan.explanation import Context, Explanation
from ..query.plan.operators.recompute import Recompute
from ..query.plan.plan import Plan
from ..query.planner import plan_query
from ..query.program import NEW_STATE, OperatorNames, Program, StateNames, StreamInput, with_texts
from ..query.rewrites import rewrite_configs, rewriting
from ..query.sql import instants, intervals
from ..query.sql.functions import QueryRunner
from ..query.sql.names import digest, remove_marks
from ..query.windows import emission, expansion, ranges
from ..query.windows.emission import FINAL, NO_WINDOWS, PASSED_ON
from ..sources.messages import exception_text
from ..sources.stream_source import stream_source, with_declared_names
from ..stream.common.errors import StreamError
from ..stream.progress import unreadable_rows
from ..stream.progress.result import COUNTS
from ..util.macro_stack import AuthorsMacros
from ..util.redaction import redacted_cause, without_secrets
from ..util.text import counted, listed, verb_form
from . import changelogs, project_relations, stream_config
from .stream_node import errors_with_model_name, name_with_catalog, stream_settings

if TYPE_CHECKING:
    # Running streams needs PySpark; planning doesn't.
    from ..stream.common.model import StreamModel
    from ..stream.progress.result import StreamResult

logger = AdapterLogger("Spark")

_REQUIRED = {
    "window_aggregate": "a GROUP BY over a windowing table function",
    "cumulate": "a GROUP BY over cumulate() or dynamic_cumulate()",
    "topn": "a filter on ROW_NUMBER(), RANK() or DENSE_RANK()",
}
"""Materialization → the query that it requires."""

_FOUND = {
    "GroupAggregate": "a GROUP BY without windows",
    "TopN": "a ranking without windows",
    "ChangelogNormalize": "the last rows of each key",
    "Join": "a join of streams",
    "OuterIntervalJoin": "a join of streams",
    "OverAggregate": "an OVER without windows",
    "TemporalFilter": "a temporal filter",
    "TemporalJoin": "a temporal join",
}
"""Operator → how a message on another query than the required one names it."""
_OF_STATE = (
    *rewrite_configs.NAMES,
    *emission.CONFIGS,
    "state_ttl",
    "constant_domains",
    "output_mode",
    "unique_key",
)
"""Configs that determine the content of a state."""
_WITHOUT_BOTH_BOUNDS = (
    "a GROUP BY over a windowing table function without both window_start and window_end among its keys"
)

_NEVER_CHANGES = (
    "config 'output_mode' is 'upsert', but this query never changes a row that it has emitted; leave output_mode "
    "out, or write 'append'."
)


@dataclass
class StreamResponse(AdapterResponse):
    """Result of a streaming run in dbt's run results."""

    batches: int = 0
    rows_in: int = 0
    late_rows: int = 0
    null_time_rows: int = 0
    unreadable_rows: int = 0
    unreadable: dict[str, Any] = field(default_factory=dict)
    rows_out: int = 0
    lookup_requests: int = 0
    lookup_keys: int = 0
    watermark: str | None = None
    windows: dict[str, Any] | None = None
    stopped: bool = False
    state: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def raising_dbt_errors() -> Iterator[None]:
    """Converts errors in its block, of a model's query, its stream or Spark, to dbt's errors."""
    try:
        yield
    except QueryError as problem:
        raised = CompilationError(without_secrets(problem))
        raised.stack = AuthorsMacros()
        raise raised from redacted_cause(problem)
    except StreamError as problem:
        raise DbtRuntimeError(str(problem)) from redacted_cause(problem)
    except spark_exceptions() as problem:
        raise DbtRuntimeError(readable_error(problem)) from redacted_cause(problem)
    except Exception as problem:
        # If the JVM has already ended, Python reports an error of its socket.
        if (ended := out_of_memory_message(exception_text(problem))) is None:
            raise
        raise DbtRuntimeError(ended) from redacted_cause(problem)


def plan_model(
    node: Mapping[str, Any],
    sql: str,
    known: Mapping[str, RelationInfo] | None = None,
    ask: QueryRunner | None = None,
) -> Plan:
    """Plans a streaming model.

    Raises:
        QueryError: the query can't be planned, or doesn't match its materialization or configs. The message names the model.
    """
    settings = stream_settings(node)
    with errors_with_model_name(node):
        text = rewriting.rewrite_by_config(sql, node["config"], streaming=True)
        materialized = node["config"]["materialized"]
        planned_with = partial(
            plan_query.plan,
            text,
            known,
            ttl=settings.state_ttl,
            domains=settings.constant_domains,
            ask=ask,
            emission=settings.emission,
        )
        try:
            planned = planned_with()
        except UnboundedStateError:
            # A bound wouldn't help a query that its materialization refuses.
            unbounded = planned_with(may_grow=True)
            if not unbounded.dataflow.has_windows:
                _check_materialization(materialized, unbounded, sql)
            raise
        _check_window_configs(planned, settings)
        if not settings.allow_recompute:
            _check_nothing_recomputed(planned)
        _check_materialization(materialized, planned, sql)
        return replace(planned, text=_text_digest(sql, node["config"]))


def _check_materialization(materialized: str, planned: Plan, sql: str) -> None:
    """Raises unless a query is what its materialization says."""
    if not planned.shape.get(materialized, True):
        raise QueryError(
            f"materialized='{materialized}' asks for {_REQUIRED[materialized]}, found {_describe_query(planned)}; "
            f"{_materialization_advice(materialized, sql)}use materialized='streaming_table'."
        )


def _materialization_advice(materialized: str, sql: str) -> str:
    """Returns advice to make a query match its materialization; empty if there is none."""
    if materialized != "topn" or not model_text.ranks_rows(sql):
        return ""
    return "its ranking has no upper bound: filter it in a query around it, as in WHERE place <= 10, or "


def _text_digest(sql: str, config: Mapping[str, Any]) -> str:
    """Returns a digest of the text and configs that determine the content of the state."""
    named = {name: config.get(name) for name in _OF_STATE if config.get(name) is not None}
    text = " ".join(sql.split()) + (json.dumps(named, sort_keys=True, default=str) if named else "")
    return digest(text, length=16)


def plan_with_existing_changelogs(
    node: Mapping[str, Any], sql: str, environment: Environment, graph: Any
) -> Plan:
    """Plans a model with the changelogs of the tables that it reads, which exist already."""
    with errors_with_model_name(node):
        read = changelogs.with_changelogs(
            environment.session(), known_relations(graph, node=node), stream_tables(sql, environment)
        )
    planned = plan_model(node, sql, read, query_runner(environment))
    if (note := unknown_domains_note(node, sql, read)) is not None:
        _warn_once(note)
    return planned


def unknown_domains_note(node: Mapping[str, Any], sql: str, known: Mapping[str, RelationInfo]) -> str | None:
    """Returns a sentence on the names in constant_domains that no column of a model's query has; None if there are none.
    It isn't an error, since a folder's models may share the config."""
    domains = stream_settings(node).constant_domains
    if not domains or not (names := column_names.unknown_names(domains, sql, known)):
        return None
    return (
        f"Model {node['name']}: config 'constant_domains' names {listed([*map(repr, names)])}, and no column of its query "
        "is called so, so it bounds nothing."
    )


@cache
def _warn_once(sentence: str) -> None:
    """Logs a warning, unless this process has logged it already."""
    logger.warning(sentence)


def plan_with_known_relations(
    node: Mapping[str, Any], sql: str, known: Mapping[str, RelationInfo], environment: Environment
) -> Plan:
    """Plans a model with given properties of the relations that it reads."""
    with errors_with_model_name(node):
        read = changelogs.with_reserved_looking_columns(
            environment.session(), known, stream_tables(sql, environment)
        )
    return plan_model(node, sql, read, query_runner(environment))


def query_runner(environment: Environment) -> QueryRunner:
    """Returns a query runner in an environment's session. It makes the sources that a query names readable."""

    def query_first_row(query: str) -> Sequence[object]:
        environment.declared.create_tables_named_in(query)
        try:
            return tuple(environment.session().sql(query).first() or ())
        except spark_exceptions() as problem:
            # Spark can't analyse a part of the query.
            raise QueryError(readable_error(problem)) from redacted_cause(problem)

    return query_first_row


def model_program(node: Mapping[str, Any], planned: Plan, names: StateNames = NEW_STATE) -> Program:
    """Returns the program of a planned model, with the model's configs.

    Args:
        names: names of state tables, groups and windows in the state.

    Raises:
        QueryError: a config is wrong, or requires what the query can't give. The message names the model.
    """
    settings = stream_settings(node)
    with errors_with_model_name(node):
        micro_batch_interval(settings, planned)
        planned = _with_unique_key(planned, settings)
        result = generate.generate_program(
            planned, settings.emission, settings.upsert, settings.state_ttl, names
        )
        result = replace(
            result,
            operators=cache(partial(_operator_names, node, planned, result, settings)),
            open_windows=tuple(
                each.window_steps(settings.emission, names).open_windows_query()
                for each in planned.dataflow.window_operators
            ),
            with_names=partial(model_program, node, planned),
        )
        if not settings.allow_recompute and result.upsert is not None and result.upsert.is_whole:
            _refuse_recompute(["its result as a whole"])
        if not settings.unique_key:
            return result
        if result.upsert is None:
            raise QueryError(
                "config 'unique_key' says which row an update replaces, and this query never changes a row that it "
                "has emitted; leave it out."
            )
        if planned.dataflow.windows is not None:
            grows = any(spec.window.grows for spec in planned.dataflow.window_specs)
            upsert_keys.check_unique_key(result.upsert, settings.unique_key, grows)
        return replace(result, upsert=replace(result.upsert, key=settings.unique_key, key_is_unique=False))


def _with_unique_key(planned: Plan, settings: stream_config.StreamConfig) -> Plan:
    """Returns the plan with the key of config unique_key, if its result is updating."""
    if not settings.unique_key or not planned.dataflow.root.relation.changes:
        return planned
    key = own_names.marked_columns(settings.unique_key, planned.taken)
    return replace(planned, dataflow=replace(planned.dataflow, key=key))


def operator_tree(
    node: Mapping[str, Any], planned: Plan, program: Program, settings: stream_config.StreamConfig
) -> Explanation:
    """Returns the operators of a model, as `dbt-stream explain` shows them."""
    context = build.Settings(
        table=str(node.get("relation_name")),
        emission=settings.emission,
        ttl=settings.state_ttl,
        domains=own_names.marked_columns(settings.constant_domains, planned.taken),
        watermark=settings.watermark,
        changelog=settings.changelog,
        names=program.signature.names,
    )
    tree = build.build_tree(_with_unique_key(planned, settings), program, context)
    shown: Explanation = with_texts(tree, lambda text: with_declared_names(remove_marks(text)))
    return shown


def _operator_names(
    node: Mapping[str, Any], planned: Plan, program: Program, settings: stream_config.StreamConfig
) -> OperatorNames:
    tree = operator_tree(node, planned, program, settings)
    of_parts = {
        state.part: (f"{each.operator} {each.description}", state.rows)
        for each in operators_in_order(tree)
        for state in each.state
    }
    return OperatorNames(of_parts, text_in_one_line(tree))


def micro_batch_interval(settings: stream_config.StreamConfig, planned: Plan | Program) -> str | None:
    """Returns the interval between micro-batches of a continuous run, in Spark's syntax; None if none is set.

    Raises:
        QueryError: the config and the query's hint differ.
    """
    latency = planned.mini_batch.latency if planned.mini_batch else None
    if latency is None:
        return None if settings.trigger is None else intervals.format(intervals.parse(settings.trigger))
    hinted = intervals.format(latency)
    if settings.trigger is not None and intervals.parse(settings.trigger) != latency:
        raise QueryError(
            f"config 'trigger' is '{settings.trigger}' and the query's hint MINI_BATCH says '{hinted}'; both are the "
            "time from one micro-batch to the next, so leave one of them out."
        )
    return hinted


def _check_nothing_recomputed(planned: Plan) -> None:
    """Raises if the query recomputes results from stored rows."""
    recomputed = [
        _recomputed_phrase(each) for each in planned.dataflow.operators if isinstance(each, Recompute)
    ]
    if recomputed:
        _refuse_recompute(recomputed)


def _recomputed_phrase(operator: Recompute) -> str:
    """Returns what is recomputed, as `explain` shows it, and why."""
    shown = operator.explain(Context())
    by = ", ".join(shown.computing.by)
    reason = f" ({operator.label})" if shown.operator == "GroupAggregate" else ""
    return f"{shown.operator} '{shown.description}'{reason} {f'for each {by} that changes' if by else 'as a whole'}"


def _refuse_recompute(recomputed: Sequence[str]) -> None:
    raise QueryError(
        f"config 'allow_recompute' is false, and this query computes {'; '.join(recomputed)} again from the rows that it "
        "keeps, at each micro-batch. Put the parts below into models of their own, or leave allow_recompute out."
    )


def _check_window_configs(planned: Plan, settings: stream_config.StreamConfig) -> None:
    """Raises unless the configs suit a query with windows, or one without."""
    flow = planned.dataflow
    if flow.is_stateless or flow.windows is not None:
        if flow.is_stateless and settings.emission != FINAL:
            raise QueryError(settings.emission.needs_windows_message(PASSED_ON))
        if flow.is_stateless and settings.output_mode == "upsert":
            raise QueryError(_NEVER_CHANGES)
        for name in ("state_ttl", "constant_domains"):
            if getattr(settings, name):
                raise QueryError(
                    f"config '{name}' is for queries without windows that keep state; this one has "
                    f"{'no state.' if flow.is_stateless else 'windows, and their state is cleared when they close.'} Leave "
                    "it out."
                )
        return
    if settings.emission != FINAL and not flow.has_windows:
        raise QueryError(settings.emission.needs_windows_message(NO_WINDOWS))
    changes = flow.root.relation.changes
    if changes and settings.output_mode == "append":
        raise QueryError(
            "config 'output_mode' is 'append', but the rows of this query change as rows come in; leave output_mode "
            "out, or write 'upsert'."
        )
    if not changes and settings.output_mode == "upsert":
        raise QueryError(_NEVER_CHANGES)


def check_event_times(node: Mapping[str, Any], columns: Iterable[Sequence[Any]]) -> None:
    """Raises unless all event times are timestamps.

    Args:
        columns: name, type (as Spark prints it) … of each event time.
    """
    for name, kind, *_ in columns:
        if kind == "void" and name.lower() in expansion.WINDOW_COLUMNS:
            # The macro of a windowing TVF gives columns that don't exist the type void.
            raise QueryError(
                f"Model {node['name']}: the relation under a windowing table function has no column {name} to be its "
                "event time. Name one that it has."
            )
        if not kind.startswith("timestamp"):
            how = instants.conversion_text(kind, name)
            raise QueryError(
                f"Model {node['name']}: the event time {name} is a {kind.upper()} and must be a TIMESTAMP. Convert "
                "it below the windowing table function: WITH timed AS (SELECT *, … AS event_time FROM …), with "
                f"{how}."
            )


def known_relations(
    graph: Any,
    upstream: Sequence[Mapping[str, Any]] = (),
    ask: QueryRunner | None = None,
    node: Mapping[str, Any] | None = None,
) -> dict[str, RelationInfo]:
    """Returns what a project declares of its relations, and the keys of updating models.

    Args:
        upstream: compiled streaming models in dependency order. Their tables may be updated.
        node: the model that reads the relations. If several sources are one table, only those that it reads count.

    Raises:
        QueryError: an upstream model can't be planned.
    """
    declared = project_relations.declarations_by_relation(graph)
    changing: dict[str, RelationInfo] = {}

    def relations_read_by(node: Mapping[str, Any] | None) -> dict[str, RelationInfo]:
        found = project_relations.known_relations(declared, graph, node)
        for relation, changes in changing.items():
            known = found.get(relation, RelationInfo())
            found[relation] = replace(known, key=changes.key, changes=True)
        return found

    for each in upstream:
        upsert = model_program(
            each, plan_model(each, each["compiled_code"], relations_read_by(each), ask)
        ).upsert
        if upsert is not None:
            changing[each["relation_name"]] = RelationInfo(key=upsert.key or ())
    return relations_read_by(node)


def known_relations_in_batch(
    sql: str, graph: Any, node: Mapping[str, Any] | None, environment: Environment
) -> Mapping[str, RelationInfo]:
    """Returns what a project declares of the relations of a batch text, with the changelogs that it reads as of a time.
    Empty for a text that reads no stream, which most models, tests and views don't.

    Raises:
        QueryError: rows of a table that is read as of a time are updated, and it has no changelog.
    """
    if not model_text.reads_streams(sql):
        return {}
    found = known_relations(graph, node=node)
    versioned = found.keys() & {*model_text.versioned_relations(sql)}
    if not versioned:
        return found
    read = _tables_of(sorted(versioned), environment)
    return changelogs.with_changelogs(environment.session(), found, read)


def _describe_query(plan: Plan) -> str:
    kinds = [
        f"{'a GROUP BY over ' if hasattr(s, 'metrics') else 'rows of '}{s.window.kind}()"
        for s in plan.dataflow.window_specs
    ]
    names = [type(each).__name__ for each in plan.dataflow.operators]
    if not kinds and {"WindowResults", "WindowRows"} & {*names}:
        # Windows that the query combines with each other or doesn't aggregate.
        grouped = "GroupAggregate" in names
        names = [name for name in names if name != "GroupAggregate"]
        kinds.append(
            _WITHOUT_BOTH_BOUNDS
            if grouped
            else "rows of a windowing table function that nothing groups or ranks"
        )
    kinds += [_FOUND[name] for name in names if name in _FOUND]
    return " and ".join(dict.fromkeys(kinds)) or "no aggregate"


def stream_tables(sql: str, environment: Environment) -> Mapping[str, str]:
    """Returns relation → full table name of the tables that a text reads as streams."""
    return _tables_of(model_text.stream_relations(sql), environment)


def _tables_of(relations: Iterable[str], environment: Environment) -> dict[str, str]:
    """Returns relation → full table name of those that are tables."""
    named = {relation: stream_source(relation) for relation in relations}
    return {
        relation: name_with_catalog(relation, environment)
        for relation, declared in named.items()
        if declared is None or declared.is_table
    }


def dbt_response(result: StreamResult) -> StreamResponse:
    """Converts the result of a run to dbt's response."""
    watermark = None
    if result.watermark is not None:
        watermark = f"{ranges.instant_text(result.watermark)}+00:00"
    dropped = [
        f"{count} {what}"
        for count, what in ((result.late_rows, "late"), (result.null_time_rows, "without a time"))
        if count
    ]
    batches = counted(result.batches, "batch", "batches")
    message = f"{counted(result.rows_in, 'row')} in, {result.rows_out:,} out, {batches}"
    if result.stopped:
        message = f"stopped before the end of its input, {message}"
    if result.windows is not None and result.windows.windows:
        message += f", {result.windows.summary_text()}"
    if result.unreadable:
        message += f", {unreadable_rows.describe(result.unreadable)}"
    if result.lookup_requests:
        message += f", {counted(result.lookup_requests, 'lookup')} of {counted(result.lookup_keys, 'key')}"
    if result.watermark is not None and result.watermark - time.time_ns() // 1000 > intervals.DAY:
        # Rows of today will be late: somebody has to find the row that pushed the watermark ahead.
        message += f", watermark {ranges.instant_text(result.watermark)} ahead of the clock"
    counts: dict[str, Any] = {name: getattr(result, name) for name in ("batches", *COUNTS)}
    return StreamResponse(
        _message=f"STREAM ({message}{', dropped ' + ' and '.join(dropped) if dropped else ''})",
        code="STREAM",
        rows_affected=result.rows_out,
        **counts,
        unreadable_rows=unreadable_rows.total_rows(result.unreadable),
        unreadable=unreadable_rows.as_json(result.unreadable),
        watermark=watermark,
        windows=None if result.windows is None else result.windows.as_json(),
        stopped=result.stopped,
        state=[each.as_dict("run") for each in result.state],
    )


def no_results_note(model: StreamModel, inputs: Sequence[StreamInput], result: StreamResult) -> str | None:
    """Returns a sentence on why a run has read rows and emitted none; None if it emitted some, or the reason isn't known."""
    if not result.rows_in or result.rows_out:
        return None
    no_results = f"Model {model.name}: {counted(result.rows_in, 'row')} in and no results, because"
    if result.windows is not None and (windows := result.windows.windows):
        are_open = "its window is" if windows == 1 else f"its {windows:,} windows are"
        return f"{no_results} {are_open} still open. {result.windows.advice(model.name)}"
    if result.late_rows + result.null_time_rows < result.rows_in:
        return None
    if not result.null_time_rows:
        return (
            f"{no_results} {verb_form(result.rows_in, 'the row is', 'all rows are')} late: the windows they belong to have "
            "closed. The config watermark says how far rows may be out of order, as in watermark: '10 minutes'."
        )
    times = listed(sorted({each.event_time for each in inputs if each.event_time}) or ["event_time"])
    by_line = any(
        each.format == "json" and "multiline" not in map(str.lower, each.options) for each in model.sources
    )
    return (
        f"{no_results} {counted(result.null_time_rows, 'row')} of {result.rows_in:,} "
        f"{verb_form(result.null_time_rows, 'has', 'have')} no event time. Check that {times} is in the source's data, with "
        "the name and type of its schema"
        + (
            ", and that each line is a JSON object; for an array set the option multiLine: true."
            if by_line
            else "."
        )
    )


def query_columns(session: Any, sql: str, ask: QueryRunner | None = None) -> dict[str, str]:
    """Returns the columns of a model's text and their types, as a session analyses them."""
    from ..util.types import column_types

    try:
        try:
            found = session.sql(sql)
        except spark_exceptions():
            # Spark rejects some texts that the planner accepts.
            found = session.sql(batch_text(sql, ask))
    except spark_exceptions() as problem:
        raise QueryError(readable_error(problem)) from redacted_cause(problem)
    return column_types(found.schema)
