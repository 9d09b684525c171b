"""Plans GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from sqlglot import exp

from ..aggregates.aggregate_builder import AggregateBuilder
from ..aggregates.grouping import Grouping, grouping
from ..aggregates.model import GroupAggregateSpec, Key
from ..frontend import hints
from ..normalize import above_groups, conditions, event_clock, subqueries_below
from ..plan import column_origins, unbounded_state
from ..plan.operator import Operator, UnboundedState, ttl_of_stored_rows
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.recompute import Recompute
from ..plan.relations.grouped import GroupedRows
from ..sql.clauses import output_column_of, over_clauses
from ..sql.dialect import canonical, parse, sql, unambiguous_names
from ..sql.names import digest
from ..sql.nodes import every
from ..sql.tie_breaking import break_ties, break_ties_of_extremes
from ..windows.window_columns import FromRelation as From
from . import results
from .closing import hold_back_open_windows
from .context import Planner
from .from_items import FromItem
from .inputs import with_numbered_inputs
from .projections import plan_local
from .recomputing import (
    check_repeatable,
    is_repeatable,
    plan_recomputed,
    refuse_nondeterministic,
    refuse_static_tables,
)
from .results import is_result

_GROUPING_ID = canonical(parse("select grouping_id()").selects[0])


def plan_group(planner: Planner, select: exp.Select, source: FromItem) -> Operator:
    """Plans a GROUP BY: within closed windows, as partial aggregates, or recomputed.

    Args:
        planner: planner of the tree.
        select: SELECT that reads one relation.
        source: that relation.

    Raises:
        QueryError: it has a non-deterministic function that would be evaluated more than once per row.
    """
    below = source.stream_operator
    relation = below.relation
    template, inputs = with_numbered_inputs(planner, select, [source])
    repeatable = is_repeatable(template, inputs)
    found = grouping(select)
    in_all = [
        key
        for index, key in enumerate(found.keys)
        if found.sets is None or all(index in members for members in found.sets)
    ]
    key_columns = None if conditions.has_generator(select) else _key_columns(select, found)
    complete_by = any(
        column_origins.value_of_column(key, source.alias, relation.complete_by) for key in in_all
    )
    if repeatable and complete_by and not relation.changes:
        if over_clauses(select):
            return plan_over_groups(planner, select)
        break_ties(template)
        break_ties_of_extremes(template)
        return plan_local(planner, "GROUP BY", inputs, template, (key_columns,) if key_columns else ())
    end = relation.open_until
    if end is not None and not any(
        column_origins.value_of_column(key, source.alias, {end: end}) for key in in_all
    ):
        below = hold_back_open_windows(planner, below)
    reason = ""
    # Append-only rows are evaluated once.
    if repeatable or not (relation.changes or over_clauses(select)):
        made = _plan_partial_aggregates(planner, select, template, source, below)
        if isinstance(made, Operator):
            return made
        reason = made
    check_repeatable(select, template, inputs, "groups")
    if over_clauses(select) or _has_group_subqueries(select):
        return plan_over_groups(planner, select)
    if below.relation.open_for is not None:
        return plan_group(planner, select, replace(source, operator=hold_back_open_windows(planner, below)))
    source = replace(source, operator=hold_back_open_windows(planner, below))
    return _plan_recomputed_groups(planner, select, source, in_all, key_columns=key_columns, reason=reason)


def _plan_recomputed_groups(
    planner: Planner,
    select: exp.Select,
    source: FromItem,
    in_all: Sequence[exp.Expr],
    key_columns: frozenset[str] | None,
    reason: str,
) -> Operator:
    """Plans a GROUP BY that is recomputed from the rows of each group.

    Args:
        planner: planner of the tree.
        select: SELECT that reads one relation.
        source: that relation.
        in_all: keys that are in all grouping sets.
        key_columns: output columns that identify a group; None if not all are selected.
        reason: why it isn't kept as partial aggregates.
    """
    relation = source.stream_operator.relation
    conditions.order_lists(select)
    break_ties_of_extremes(select)
    template, inputs = with_numbered_inputs(planner, select, [source])
    shown = [output_column_of(template, key) for key in in_all]
    is_replaced = is_result(select) and key_columns is not None and None not in shown
    if relation.changes or not is_replaced:
        # Otherwise a group's row is replaced by its key, whatever it was, and depends on inserted rows only.
        why = partial(conditions.why_nondeterministic, select)
        listed = ", ".join(map(hints.excerpt, in_all))
        lacks_keys = is_result(select) and not relation.changes and key_columns is None and listed
        after = f"; or select {listed}, too, to identify a group's row" if lacks_keys else ""
        refuse_nondeterministic(select, key_columns, why, f"{reason}, and ", after)
        refuse_static_tables(select, template)
    keys = tuple(key.copy() for key in in_all)
    growth = None
    if not all(each.relation.bounded for each in inputs):
        growth = UnboundedState("every row", None)
    groups = plan_recomputed(
        planner,
        select,
        Recompute(
            name="recompute",
            query=template,
            inputs=inputs,
            keys=(keys,),
            aliases=(source.alias,),
            label=reason,
            unique=() if key_columns is None else (key_columns,),
            end=column_origins.passed_window_end(select, source.alias, relation, in_all),
            has_few_rows=relation.bounded or planner.have_few_values(in_all, select),
            growth=growth,
        ),
    )
    if is_replaced and isinstance(groups, Recompute) and not groups.ends:
        # The state has the rows by key, independent of the aggregates.
        name = f"groups_{digest(groups.inputs[0].name, *map(sql, keys))}"
        return planner.add(replace(groups, name=name, shown=tuple(map(str, shown))))
    return groups


def _has_group_subqueries(select: exp.Select) -> bool:
    """Whether a select list or HAVING has subqueries, all of them outside aggregates: they are evaluated per
    group."""
    clauses = [*select.expressions, *filter(None, [select.args.get("having")])]
    queries = [query for clause in clauses for query in every(clause, exp.Query)]
    aggregates = [each for clause in clauses for each in every(clause, exp.AggFunc)]
    return bool(queries) and not any(
        each.find_ancestor(exp.Select) is select and each.find(exp.Query) for each in aggregates
    )


def plan_over_groups(planner: Planner, select: exp.Select) -> Operator:
    """Splits a GROUP BY from expressions over its groups, which move into a SELECT above it: OVER, rewritten
    LIMIT and QUALIFY, and subqueries."""
    gives_result = results.unmark_result(select)
    above = above_groups.select_over_groups(select)
    if gives_result:
        results.mark_result(above)
    if select.parent is not None:
        select.replace(above)
    return planner.select(above)


def _key_columns(select: exp.Select, by: Grouping) -> frozenset[str] | None:
    """Returns the output columns that identify a group, including the number of the grouping set; None if not
    all are selected."""
    same = unambiguous_names(select)
    by_text = {canonical(item.unalias(), same): item.alias_or_name.lower() for item in select.expressions}
    found = [by_text.get(canonical(key, same)) for key in by.keys]
    if by.sets is not None:
        if len(set(map(frozenset, by.sets))) < len(by.sets):
            return None
        found.append(by_text.get(_GROUPING_ID))
    names = frozenset(name for name in found if name is not None)
    return None if None in found else names


def _plan_partial_aggregates(
    planner: Planner, select: exp.Select, template: exp.Select, source: FromItem, below: Operator
) -> Operator | str:
    """Plans partial aggregates per key; for groups of open windows, the result is held back until these have
    closed. Returns the reason if an aggregate can't be computed from partial aggregates."""
    has_retractions = below.relation.changes
    builder = AggregateBuilder(template, [From(source.alias, source.node, "rows", {})], None, has_retractions)
    if builder.why_rows_are_stored is not None:
        return builder.why_rows_are_stored
    keys = tuple(builder.keys)
    grouped = GroupedRows(keys, builder.grouping_sets, source.alias, below.relation)
    expires_in_time = grouped.relation.ends is not None
    # A global aggregate has no key that could be idle.
    is_timed = (bool(keys) and ttl_of_stored_rows(below, planner.ttl) is not None) or expires_in_time
    # GROUP BY b, a GROUPING SETS (…) numbers the sets by another order of keys than the sets do.
    names, in_sets = [key.name for key in keys], chain.from_iterable(builder.grouping_sets or ())
    identity = digest(
        below.name,
        conditions.input_rows_text(template),
        *sorted(key.sql for key in keys),
        builder.grouping_sets,
        *(names if builder.grouping_sets and names != [*dict.fromkeys(in_sets)] else ()),
    )
    groups = f"group_{identity}"
    name = f"{groups}_{digest(*(m.sql for m in builder.metrics.values()))}"
    enumerated = planner.rewrites.enumerated_keys(
        select, groups, builder, ttl_of_stored_rows(below, planner.ttl)
    )
    planner.rewrites.record_split_distinct(select, groups, builder)
    hidden = [*(["row_time"] if is_timed else []), *(["sign"] if has_retractions else [])]
    spec = GroupAggregateSpec(
        name=name,
        rows=sql(builder.rows_query(hidden)),
        keys=keys,
        grouping_sets=builder.grouping_sets,
        metrics=tuple(builder.metrics.values()),
        distinct_sets=builder.distinct_sets,
        has_retractions=has_retractions,
        filters_on_arrival=event_clock.filters_on_arrival(template),
        enumerated=enumerated,
        written=builder.text.written,
    )
    grows_with = _growth_of_groups(planner, select, keys, expires=enumerated is None)
    by = select.args.get("group")
    group = planner.add(
        GroupAggregate(
            name=name,
            inputs=(below,),
            spec=spec,
            alias=source.alias,
            label="all rows" if by is None else sql(by).strip(),
            growth=None if below.relation.bounded or expires_in_time else grows_with,
            groups=groups,
            ends=(str(grouped.window_end_column),) if expires_in_time else (),
            has_few_groups=grows_with is None,
        )
    )
    group = hold_back_open_windows(planner, group)
    above = builder.output_over(planner.placeholder_for(group, "groups"))
    if is_result(select):
        results.mark_result(above)
    if select.parent is not None:
        select.replace(above)  # the filter around the group limits its ranking
    return planner.select(above)


def _growth_of_groups(
    planner: Planner, select: exp.Select, keys: Sequence[Key], expires: bool
) -> UnboundedState | None:
    """Returns what the number of groups grows with; None if their keys have few values.

    Args:
        expires: whether a TTL bounds it.
    """
    with_moved_queries = partial(subqueries_below.with_moved_queries, select=select)
    written = with_moved_queries(select)
    assert isinstance(written, exp.Select)
    expressions = [with_moved_queries(key.expression) for key in keys]
    growing = [key for key in expressions if not unbounded_state.is_bounded(key, select)]
    if all(planner.is_covered(unbounded_state.key_names(key, written)) for key in growing):
        return None
    return UnboundedState(
        f"something for every value of {', '.join(map(sql, growing))}",
        frozenset().union(*(unbounded_state.constant_domain_columns(key, written) for key in growing)),
        expires=expires,
    )
