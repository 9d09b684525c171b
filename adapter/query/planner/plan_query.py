"""Plans a model's text: parses it and calls the planner that applies."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ...sources.messages import without_internal_names
from ...util.quoting import is_path
from ..aggregates.grouping import grouping
from ..diagnostics import bounded_queries, column_names
from ..errors import (
    EVENT_TIME_IN_YAML,
    NotWithinWindows,
    QueryError,
    UnboundedStateError,
    UnintendedQueryError,
)
from ..frontend import hints
from ..frontend.streams import RelationInfo, Streams
from ..normalize import conditions, event_clock, model_text
from ..normalize.names import ctes, own_names
from ..plan.dataflow import Dataflow
from ..plan.operator import inputs_first
from ..plan.operators.window_buffer import WindowBuffer
from ..plan.operators.window_close import WindowClose
from ..plan.plain_batch_text import plain_batch_text
from ..plan.plan import Plan
from ..plan.upsert_keys import why_rows_cant_be_replaced
from ..sql import functions
from ..sql.clauses import over_clauses
from ..sql.dialect import parse, sql
from ..sql.functions import QueryRunner
from ..sql.nodes import every
from ..windows.emission import FINAL, PASSED_ON, Emission
from ..windows.sparks_windows import is_spark_window, macro_for
from . import lookups
from .context import PlannerSettings
from .planner import dataflow
from .read_text import ReadText, parse_text, read_text

_UNKNOWN_COLUMN = re.compile(r"\[(?:UNRESOLVED_COLUMN|FIELD_NOT_FOUND)\b.*?SQLSTATE: \w+", re.DOTALL)


def plan(
    text: str,
    known: Mapping[str, RelationInfo] | None = None,
    ttl: int | None = None,
    domains: Collection[str] = (),
    ask: QueryRunner | None = None,
    emission: Emission = FINAL,
    may_grow: bool = False,
) -> Plan:
    """Returns the plan of a model's compiled text.

    Args:
        text: one SELECT.
        known: properties of relations that the project declares, by their names in the text.
        ttl: microseconds until an idle key of a query without windows expires.
        domains: columns whose sets of values don't grow.
        ask: runs a query in a session, for functions that aren't built into Spark and for types of sums. None
            without a session: the plan is only displayed.
        emission: when results of windows are emitted.
        may_grow: whether unbounded state is accepted.

    Raises:
        QueryError: the text doesn't parse, reads no stream, isn't supported over streams, or its state is
            unbounded (`UnboundedStateError`). A column that isn't there is reported first.
    """
    made = partial(_plan_parsed, settings=PlannerSettings(ttl, emission, may_grow))

    def fits(text: str, known: Mapping[str, RelationInfo]) -> bool:
        try:
            return plan_with_separate_names(text, known, domains, ask, made) is not None
        except QueryError:
            return False

    try:
        return plan_with_separate_names(text, known or {}, domains, ask, made)
    except UnboundedStateError as problem:
        if ask is not None and (unknown := _unknown_column_message(text, ask)):
            raise QueryError(unknown) from problem
        if misspelt := column_names.unknown_names(domains, text, known or {}):
            # They match no column, and so bound nothing.
            rest, listed = [name for name in domains if name not in misspelt], ", ".join(map(repr, misspelt))
            try:
                plan(text, known, ttl, rest, ask=ask, emission=emission)
            except UnboundedStateError as unbounded:
                raise UnboundedStateError(
                    f"config 'constant_domains' names {listed}, and no column of this query is called so. {unbounded}"
                ) from unbounded
        if ask is not None and (
            missing := functions.missing_functions(parse(text), functions.session_functions(ask))
        ):
            called = " and ".join(f"{name}()" for name in missing)
            raise UnboundedStateError(
                f"There is no function {called}, which may be a misspelt aggregate. {problem}"
            ) from problem
        if (window := _spark_window(text)) is not None:
            raise UnboundedStateError(
                f"The groups of {sql(window)} have no end that a stream knows, so their state grows without bound. Read the "
                f"stream through a macro, FROM {{{{ {macro_for(window)} }}}} … GROUP BY window_start, window_end, whose "
                "windows the watermark closes."
            ) from problem
        by_time = bounded_queries.propose_time_filter(text, known or {}, fits) or _struct_field_advice(
            text, known or {}
        )
        raise UnboundedStateError(f"{problem}{by_time or '.'}") from problem


def _unknown_column_message(text: str, ask: QueryRunner) -> str | None:
    """Returns Spark's message on a column or field that isn't there; None if it finds all."""
    found = _UNKNOWN_COLUMN.search(str(ask(f"explain extended {sql(parse(text))}")[0]))
    return without_internal_names(found[0]) if found else None


def _spark_window(text: str) -> exp.Expr | None:
    """Returns Spark's ``window()`` that a GROUP BY over a stream has as a key. None if there is none."""
    tree = parse(text)
    hints.mark_streams(tree)
    for select in every(tree, exp.Select):
        if select.args.get("group") is not None and hints.reads_stream(select):
            if (window := next(filter(is_spark_window, grouping(select).keys), None)) is not None:
                return window
    return None


def _struct_field_advice(text: str, known: Mapping[str, RelationInfo]) -> str | None:
    """Returns the end of a sentence that says what to do if the event time of a stream is a field of a
    struct; None if it isn't."""
    streams = {name.lower() for name in model_text.stream_relations(text)}
    for relation, what in known.items():
        if what.event_time is not None and is_path(what.event_time) and relation.lower() in streams:
            return f"; or bound it by time: {event_clock.column_advice(relation, what.event_time)}."
    return None


def plan_windows(text: str, batch: bool = False, ask: QueryRunner | None = None) -> Plan:
    """Returns the plan of a text that stays within windows.

    Args:
        text: one SELECT.
        batch: whether it is for batch, where the current time is the machine's.
        ask: see `plan`.

    Raises:
        QueryError: see `plan`; or the text has something other than windows.
    """

    def made(text: str, tree: exp.Query, *_: object, ask: QueryRunner | None) -> Plan:
        read = read_text(text, tree, {}, ask, watermark=not batch)
        if next(hints.windows_under(read.tree), None) is None:
            raise QueryError(
                "The query has no windowing table function; put a windowing macro around its stream."
            )
        found = _plan_windows_only(read, FINAL, batch)
        if isinstance(found, QueryError):
            raise found
        return found

    return plan_with_separate_names(text, {}, (), ask, made)


def plan_with_separate_names(
    text: str,
    known: Mapping[str, RelationInfo],
    domains: Collection[str],
    ask: QueryRunner | None,
    made: Callable[..., Plan],
) -> Plan:
    """Returns a plan in which the author's names are distinguished from those of generated SQL (`own_names`).

    Args:
        text: text of a model.
        known: properties of relations.
        domains: columns whose sets of values don't grow.
        ask: runs a query in a session.
        made: returns the plan of a text and its tree, from the other arguments.

    Raises:
        QueryError: see `plan`.
    """
    try:
        tree = parse_text(text)
        known = _without_names_in_other_case(known, tree)
        taken = own_names.names_taken_by_author(
            tree, [name for what in known.values() for name in what.columns]
        )
        if not taken:
            found = made(text, tree, known, domains, ask=ask)
        else:
            own_names.mark_names(tree)
            domains = [own_names.marked_column(name) for name in domains]
            with own_names.unmark_errors():
                asked = own_names.query_runner_of_marked_tree(ask, taken)
                found = made(text, tree, own_names.with_marked_columns(known), domains, ask=asked)
    except SqlglotError as problem:
        # sqlglot accepts syntax that Spark doesn't, as in min_by(a, b ORDER BY c): what it prints doesn't parse.
        message = str(problem).partition("\n")[0]
        raise QueryError(f"The query has something that isn't Spark's SQL: {message}") from problem
    dropped = tuple(each.with_author_names() for each in found.dropped)
    return replace(
        found, taken=taken, dropped=dropped, batch=partial(plain_batch_text, text, ask, known, dropped)
    )


def _without_names_in_other_case(
    known: Mapping[str, RelationInfo], tree: exp.Query
) -> Mapping[str, RelationInfo]:
    """Leaves out properties that are declared for a name with other upper and lower case than in the text, if the name
    as in the text has properties too."""
    read = {hints.relation_name(table) for table in every(tree, exp.Table)} & known.keys()
    others = {name.lower() for name in read}
    return {name: what for name, what in known.items() if name in read or name.lower() not in others}


def _plan_parsed(
    text: str,
    parsed: exp.Query,
    known: Mapping[str, RelationInfo],
    domains: Collection[str],
    ask: QueryRunner | None,
    settings: PlannerSettings,
) -> Plan:
    """Returns the plan of a parsed text; see `plan`. Changes the tree."""
    read = read_text(text, parsed, known, ask)
    left: QueryError | None = None
    if next(hints.windows_under(read.tree), None) is not None:
        found = _plan_windows_only(read, settings.emission)
        if isinstance(found, Plan):
            return found
        left = found
    try:
        return plan_as_operators(read, domains, settings)
    except QueryError as problem:
        reported = _error_to_report(problem, left)
        if reported is problem:
            raise
        raise reported from problem


def _error_to_report(problem: QueryError, left: QueryError | None) -> QueryError:
    """Returns the error for the author of a query that can't be planned.

    Args:
        problem: why operators can't compute it.
        left: why it doesn't stay within its windows; None without windows.
    """
    if left is None:
        return problem
    if isinstance(problem, UnboundedStateError):
        return UnboundedStateError(f"{left} To have the query as it is: {problem}")
    return (
        problem if isinstance(left, NotWithinWindows) or isinstance(problem, UnintendedQueryError) else left
    )


def _plan_windows_only(read: ReadText, emission: Emission, batch: bool = False) -> Plan | QueryError:
    """Returns the plan of a text that stays within windows and whose results are emitted as `emission` says; or the reason
    why it leaves its windows. `batch`: see `plan_windows`."""
    left = ctes.random_cte_error(read.tree) or _why_updating_tables(read.tree, read.streams)
    if left is not None:
        return left
    if not batch:
        _refuse_random_rankings(read.tree)
    # Only windows say which columns are event times, whatever the project declares.
    streams = read.streams.copy(declared=False)
    root = read.within.plan(read.tree, streams)
    if isinstance(root, QueryError):
        return root
    root = replace(root, query=read.rewrites.split_rankings_of_output(root.query))
    flow = Dataflow(root, None, tuple(inputs_first(root)))
    if (left := read.rewrites.no_effect_error(flow.names)) is not None:
        return left
    if root.specs:
        read.check_stars()
        read.check_names()
    elif emission != FINAL:
        raise UnintendedQueryError(emission.needs_windows_message(PASSED_ON))
    if emission.may_update_results:
        steps = [each.window_steps(emission) for each in root.windows]
        if (left := why_rows_cant_be_replaced(root, steps, emission)) is not None:
            return left
    keeps_whole_rows = not root.specs or any(isinstance(each, WindowBuffer) for each in root.windows)
    return read.plan(streams.read(keeps_whole_rows), flow, root.ranks)


def _refuse_random_rankings(tree: exp.Query) -> None:
    """Raises unless rankings within windows are deterministic.

    Raises:
        UnintendedQueryError: one isn't.
    """
    for select in every(tree, exp.Select):
        for over in over_clauses(select):
            if (order := over.args.get("order")) is not None and not conditions.is_repeatable(order):
                raise UnintendedQueryError(
                    f"'{sql(over)}' ranks by a non-deterministic function; compute it in a subquery in FROM."
                )


def plan_as_operators(read: ReadText, domains: Collection[str], settings: PlannerSettings) -> Plan:
    """Returns the plan of a text as a tree of operators. Changes the text's tree."""
    read.check_stars()
    # Equal queries over a stream are one operator.
    problem = ctes.random_cte_error(read.tree, lambda query: not hints.reads_stream(query))
    if problem is not None:
        raise problem
    flow, streams, ended, dropped = dataflow(
        tree=read.tree,
        streams=read.streams,
        domains=domains,
        within=read.within,
        settings=settings,
    )
    if (problem := read.rewrites.no_effect_error(flow.names, in_operators=True)) is not None:
        raise problem
    if not flow.is_stateless:
        read.check_names()
    inputs = streams.read(True)
    unmeasured = [stream.relation for stream in inputs if stream.event_time is None]
    if unmeasured and any(isinstance(each, WindowClose) for each in flow.operators):
        raise QueryError(
            f"Windows close by event time, and nothing says which column of {', '.join(unmeasured)} that is; give it "
            f"{EVENT_TIME_IN_YAML}."
        )
    is_measured = settings.ttl is not None or any(each.depends_on_watermark for each in flow.operators)
    if unmeasured and len(inputs) > 1 and is_measured:
        raise QueryError(
            f"The progress of {', '.join(unmeasured)} is unknown, since nothing says which column is its event time; "
            f"give it {EVENT_TIME_IN_YAML}."
        )
    lookups.check_lookup_operators(flow, read.lookup_tables)
    return read.plan(inputs, flow, ended, dropped)


def _why_updating_tables(tree: exp.Query, streams: Streams) -> QueryError | None:
    """Returns the error about windows that read an updating table, which Flink refuses too; None if none does."""
    for table in filter(hints.is_stream, every(tree, exp.Table)):
        what = streams.known(table.name)
        if what.replaces:
            how = (
                "rows of that model change"
                if what.changes
                else "its unique_key says that rows replace each other"
            )
            return NotWithinWindows(
                f"A windowing table function over {streams.relation(table.name)}: {how}, so closed windows would change. "
                "Put the windows over the stream it is made from, or group it without windows."
            )
    return None
