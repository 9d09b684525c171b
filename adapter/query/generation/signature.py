"""Describes everything that the state of a plan depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from sqlglot import exp

from ...sources.source_tables import without_read_digest
from ..aggregates.metric_columns import MetricColumns
from ..aggregates.model import GroupAggregateSpec, WindowAggregateSpec
from ..aggregates.partials import Partials
from ..frontend.source_text import text_to_compare, with_sorted_conjuncts
from ..normalize.conditions import has_generator
from ..plan.dataflow import Dataflow
from ..plan.operator import Operator, inputs_first
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.recompute import Recompute
from ..plan.operators.top_n import TopN
from ..plan.plan import Plan
from ..plan.state.groups import GroupChanges
from ..plan.state.ranking import BY, ORDER
from ..plan.state.window_steps import WindowBufferSpec, WindowSpec
from ..plan.upserts import needs_retractions, state_root
from ..plan.window_operator import WindowOperator
from ..program import StateNames, with_texts
from ..sql.dialect import DIALECT, sql
from ..sql.names import digest
from ..sql.nodes import copied, every
from ..state_signature import (
    AggregateState,
    BufferState,
    DistinctState,
    GroupState,
    MetricState,
    ResultTimes,
    Signature,
    TopState,
    TreeState,
    WindowOperatorState,
    WindowOutput,
    WindowState,
)
from .generator import Generator
from .results import OUTPUT, can_be_rebuilt, compares_whole_table


def state_signature(plan: Plan, made: Generator) -> Signature:
    """Returns everything that the state of a plan depends on. Plans with equal signatures can share a state. It names the
    sources but not their locations, which the checkpoint has.

    Args:
        made: the steps and the state of the plan's dataflow.
    """
    found: Signature = with_texts(_state_signature(plan, made), without_read_digest)
    return found


def _state_signature(plan: Plan, made: Generator) -> Signature:
    flow, windows = plan.dataflow, plan.dataflow.windows
    emission, names = made.emission, made.names
    window_operators = tuple(_window_operator_state(plan, each, names) for each in flow.window_operators)
    results = None
    if windows is not None and windows.specs:
        # Early firing can be switched on and off: the state has all rows until the end of allowed lateness.
        results = ResultTimes(complete=emission.complete, last=emission.last)
    elif windows is None and flow.has_windows:
        # The state also has what open windows have emitted.
        results = ResultTimes(**asdict(emission))
    return Signature(
        windows=window_operators,
        tree=_tree_state(made) if windows is None else TreeState(),
        results=results,
        event_times={
            each.relation.lower(): each.event_time.lower() for each in plan.streams if each.event_time
        },
        lookups=_lookup_table_names(plan),
        text=plan.text or None,
        clauses=tuple((kind, text) for kind, text in plan.clauses()) if plan.text else None,
        names={**names},
    )


def _window_operator_state(plan: Plan, operator: WindowOperator, names: StateNames) -> WindowOperatorState:
    """Returns the definition of a window operator."""
    spec, name = operator.spec, names.get(operator.name, operator.name)
    read = [each.spec for each in operator.inputs if isinstance(each, WindowOperator)]
    below, steps = _outputs_below(read, spec, names), operator.window_steps(names=names)
    identities = {each.name: each.identity for each in read}
    buffer = None
    if isinstance(spec, WindowBufferSpec):
        ranking = spec.top
        top = (
            None
            if ranking is None
            else TopState(ranking.function, tuple(ranking.partition), ranking.order, ranking.rows)
        )
        buffer = BufferState(f"{name}_row", top, _text_with_state_names(spec.plain, spec, names) or None)
    return WindowOperatorState(
        name=name,
        identity=spec.identity,
        streams=tuple(stream.relation for stream in plan.streams if stream.view in spec.streams),
        source=_text_with_state_names(spec.source, spec, names),
        # None if it names other window operators: comparing these takes the text.
        source_digest=None if read else digest(with_sorted_conjuncts(spec.source)),
        window=WindowState(**asdict(spec.window)),
        aggregates=_aggregate_state(steps, identities) if isinstance(steps, Partials) else None,
        buffer=buffer,
        below=below,
    )


def _lookup_table_names(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Returns view → name of each lookup table whose rows the state depends on.

    A view is named after the table without its schema, and numbered if two have that name, so a text over
    views doesn't say which table it reads.
    """
    flow = plan.dataflow
    operators = inputs_first(state_root(flow)) if flow.windows is None else flow.window_operators
    read = {name for each in operators for name in each.tables_read}
    return {
        table.view: tuple(part.name.lower() for part in exp.to_table(table.relation, dialect=DIALECT).parts)
        for table in plan.lookups
        if table.view in read
    }


def _tree_state(made: Generator) -> TreeState:
    """Returns the tree of operators, and the state tables of each."""
    flow, ttl, names = made.flow, made.ttl, made.names
    root, top = made.result_operator, state_root(flow)
    # Windows are described by `_window_operator_state`.
    operators = [each for each in inputs_first(top) if not isinstance(each, WindowOperator)]
    rankings = [each for each in operators if isinstance(each, TopN)]
    parts = made.state_tables
    groups = {
        names.get(name, name): _group_state(flow, group, names.get(name, name), ttl)
        for name, group in flow.groups.items()
    }
    is_single = root is not None and {*parts} == {top.name} and not flow.window_specs
    return TreeState(
        # For a GROUP BY that is the result, the label leaves out why its rows are buffered.
        operators={
            each.name: "GROUP BY" if isinstance(each, Recompute) and each.shown is not None else each.label
            for each in operators
        },
        inputs={
            each.name: tuple(below.name for below in each.inputs if not isinstance(below, WindowOperator))
            for each in operators
        },
        root=top.name,
        rankings={each.name: each.top.rows for each in rankings},
        append_only_rankings=tuple(
            part
            for each in rankings
            if not (each.final or each.inputs[0].relation.changes)
            for part in parts[each.name]
        ),
        single_by=_grouped_or_ranked_by(top) if is_single else None,
        can_rebuild=can_be_rebuilt(flow) and not made.emission.may_update_results,
        rebuilds_table=compares_whole_table(root),
        groups=groups,
        parts={name: tuple(listed) for name, listed in parts.items()},
        output=OUTPUT if root is None else None,
        has_ttl=ttl is not None,
    )


def _group_state(flow: Dataflow, group: GroupAggregate, name: str, ttl: int | None) -> GroupState:
    changes = GroupChanges(
        replace(group.spec, name=name),
        group.expires_after(ttl),
        group.name,
        retracts_exactly=needs_retractions(flow, group),
    )
    return GroupState(
        operator=group.name,
        aggregates=_aggregate_state(changes, {}),
        last_output=changes.emitted_part if changes.stores_output else None,
    )


def _grouped_or_ranked_by(operator: Operator) -> tuple[str, ...] | None:
    """Returns what an operator groups or ranks by; None if it does neither."""
    if isinstance(operator, GroupAggregate):
        return tuple(sorted(key.identity for key in operator.spec.keys))
    if not isinstance(operator, TopN) or operator.final:
        return None
    by = [sql(each.this) for each in operator.tree.expressions if each.alias_or_name.startswith((BY, ORDER))]
    return (*by, operator.top.function, operator.top.order)


def _text_with_state_names(text: str, spec: WindowSpec, names: StateNames) -> str:
    """Returns text of a window operator's input rows, with the state's names of the windows that it reads."""
    return text_to_compare(text, {each: names.get(each, each) for each in spec.reads}) if spec.reads else text


def _outputs_below(
    read: Sequence[WindowSpec], spec: WindowSpec, names: StateNames
) -> dict[str, WindowOutput]:
    """Returns name → how its results are computed, for the window operators `read` by another one. If that one
    aggregates, this is listed by column, so that other columns can be added and removed."""
    by_name = bool(read) and isinstance(spec, WindowAggregateSpec) and not _takes_all_columns(spec)
    return {
        names.get(each.name, each.name): _window_output(each, by_name)
        if isinstance(each, WindowAggregateSpec)
        else WindowOutput(_text_with_state_names(each.source, each, names))
        for each in read
    }


def _takes_all_columns(spec: WindowAggregateSpec) -> bool:
    """Whether a column that is added to the window operator's input may change its rows, or its other columns."""
    for star in every(spec.read, exp.Star):
        over = star.parent.parent if isinstance(star.parent, exp.Column) else star.parent
        if not isinstance(over, exp.Select | exp.Count):
            return True
    # Read from the source as written: the expanded form of a window has a generated NATURAL JOIN.
    query = spec.written
    named = any(alias.args.get("columns") for alias in every(query, exp.TableAlias))
    natural = any(join.args.get("method") for join in every(query, exp.Join))
    distinct = any(select.args.get("distinct") for select in every(query, exp.Select))
    return named or natural or distinct or query.find(exp.SetOperation, exp.Lateral) is not None


def _window_output(spec: WindowAggregateSpec, by_name: bool) -> WindowOutput:
    """Returns the results of a window aggregation. `by_name`: whether its columns may be listed one by one."""
    # A state column of one name may hold several aggregates in turn, such as `sum(v + 1)` and `sum(v - 1)`.
    meanings = {key.name: key.identity for key in spec.keys}
    meanings |= {metric.name: metric.identity for metric in spec.metrics}
    rows = copied(spec.output)
    for table in every(rows, exp.Table):
        if table.name == f"{spec.name}_windows":
            table.set("this", exp.to_identifier("windows"))
    for column in every(rows, exp.Column):
        if column.name in meanings:
            column.set("this", exp.to_identifier(meanings[column.name], quoted=True))
    if rows.args.get("distinct") or has_generator(rows):
        return WindowOutput(sql(rows))
    columns = {}
    if by_name:
        columns = {item.alias_or_name.lower(): sql(item.unalias()) for item in rows.expressions}
        rows.set("expressions", [exp.Star()])
    return WindowOutput(sql(rows), columns)


def _aggregate_state(partials: Partials, below: Mapping[str, str]) -> AggregateState:
    """Returns the state columns of each metric, distinct set and key. `below`: name → identity of the windows that are
    read."""
    spec = partials.spec
    sets = {
        each: DistinctState(part, tuple(columns))
        for each, (part, columns) in partials.distinct_set_tables().items()
    }
    enumerated = spec.enumerated
    return AggregateState(
        keys={key.name: key.identity for key in spec.keys},
        grouping_sets=spec.grouping_sets or (),
        key_order=None if spec.grouping_sets is None else tuple(key.identity for key in spec.keys),
        metrics=_metric_states(partials, below),
        distinct_sets=sets,
        enumerated=None if enumerated is None else (enumerated.keys, *enumerated.values),
        retracts=isinstance(spec, GroupAggregateSpec) and spec.has_retractions,
    )


def _metric_states(partials: Partials, below: Mapping[str, str]) -> dict[str, MetricState]:
    columns = partials.state_columns()
    by_name = {members.name: members.identity for members in partials.spec.distinct_sets}
    return {
        metric.identity: MetricState(
            sql=metric.sql,
            unqualified=metric.unqualified if metric.unqualified != metric.identity else None,
            columns=tuple(columns[metric.identity]),
            # It differs if a metric of another argument type is stored in another way.
            storage=(*MetricColumns(metric).aggregate.make, *([metric.types.sum] if metric.types else [])),
            rows=digest(text_to_compare(metric.rows, below)),
            distinct_set=by_name[metric.distinct_set] if metric.distinct_set else None,
        )
        for metric in partials.spec.metrics
    }
