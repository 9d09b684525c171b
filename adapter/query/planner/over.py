"""Plans OVER: rankings, and frames in order of event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp

from ..normalize import conditions
from ..normalize.rankings import ranks
from ..plan import column_origins
from ..plan import running as running_values
from ..plan.frame_extent import FrameExtent, ascending_order_column, frame_extent
from ..plan.hidden_items import with_weight
from ..plan.operator import Operator, UnboundedState, ttl_of_stored_rows
from ..plan.operators.over_aggregate import GENERATION, OverAggregate
from ..plan.operators.recompute import Recompute
from ..plan.operators.top_n import TopN
from ..plan.relation import WEIGHT, arrives_in_order, smallest_key
from ..plan.relations.partitioned import PartitionedRows, rank_keys
from ..plan.state.buffered_rows import TopRows
from ..sql.clauses import hide_from_stars, over_clauses, relations
from ..sql.dialect import canonical, sql
from ..sql.names import digest
from ..sql.nodes import copied, every
from ..sql.tie_breaking import break_ties, break_ties_of_extremes, tie_breaker
from . import rankings
from .context import Planner
from .from_items import FromItem, filter_relation
from .inputs import with_numbered_inputs
from .projections import plan_local
from .rankings import RankedSelect
from .recomputing import (
    check_repeatable,
    plan_recomputed,
    refuse_nondeterministic,
    refuse_static_tables,
)
from .results import is_result


def plan_over(planner: Planner, select: exp.Select, source: FromItem) -> Operator:
    """Plans a SELECT with OVER: within closed windows, in order of event time, as a ranking, or recomputed.

    Args:
        planner: planner of the tree.
        select: SELECT that reads one relation.
        source: that relation.

    Raises:
        QueryError: it uses non-deterministic values.
    """
    below = source.stream_operator
    relation, written = below.relation, copied(select)
    break_ties(select)
    conditions.order_by_whole_rows(select, source.alias)
    template, inputs = with_numbered_inputs(planner, select, [source])
    ranked, bounds = ranks.rankings(select), ranks.greatest_ranks_in_outer_select(select)
    # Each of the first rows of append-only input is computed once.
    is_first = not relation.changes and len(over_clauses(select)) == len(inputs) == 1
    if not (is_first and ranked and ranked.keys() <= bounds.keys()):
        check_repeatable(written, template, inputs, "ranks")
    partitioned = PartitionedRows(select, source.alias, relation, bounds)
    if not relation.changes and any(
        column_origins.value_of_column(key, source.alias, relation.complete_by)
        for key in partitioned.common_keys
    ):
        return plan_local(planner, "OVER", inputs, template, rank_keys(select, bounds))
    if (in_time := _plan_over_in_time(planner, select, template, source, inputs)) is not None:
        return in_time
    for name, rank in ranked.items():
        if name in bounds:
            planner.ranks.setdefault(sql(rank))
    return _plan_ranked_or_recomputed(planner, partitioned, written, template, source, inputs=inputs)


def _plan_ranked_or_recomputed(
    planner: Planner,
    partitioned: PartitionedRows,
    written: exp.Select,
    template: exp.Select,
    source: FromItem,
    inputs: tuple[Operator, ...],
) -> Operator:
    """Plans a SELECT with OVER as the first rows of a ranking, or recomputed.

    Args:
        planner: planner of the tree.
        partitioned: the SELECT, with ties broken.
        written: the SELECT as its author wrote it.
        template: the SELECT over its inputs.
        source: the relation that it reads.
        inputs: its inputs.

    Raises:
        QueryError: it would be computed again, and has non-deterministic values.
    """
    select, common, bounds = partitioned.select, partitioned.common_keys, partitioned.bounds
    ranked, relation = ranks.rankings(select), source.stream_operator.relation
    all_are_limited = ranked.keys() <= bounds.keys()
    has_other = len(over_clauses(select)) != len(ranked)
    covered = planner.have_few_values(common, select)
    unique = partitioned.keys
    # A generator in the select list runs before OVER.
    is_one = (
        all_are_limited and len(ranked) == 1 and not has_other and not conditions.may_multiply_rows(select)
    )
    top = None
    if is_one and not relation.changes:
        (name,) = ranked
        top = _top_rows(template, bounds[name])
    growth = None
    if relation.ends is None and not relation.bounded and not (top is not None and covered):
        growth = _growth_of_rows(common, top, "" if all_are_limited else _unbounded_ranking_message(written))
    if is_one and (relation.changes or len(inputs) == 1):
        (name,) = ranked
        limited = RankedSelect(
            select=select,
            template=template,
            alias=source.alias,
            below=inputs[0],
            name=name,
            last=bounds[name],
            has_few_partitions=covered,
        )
        if (found := _plan_first_rows(planner, limited, source, growth)) is not None:
            return found
    check_repeatable(written, template, inputs, "ranks")
    break_ties_of_extremes(template)
    refuse_nondeterministic(
        select, smallest_key(unique), partial(conditions.why_over_nondeterministic, template, relation.keys)
    )
    if not (is_result(select) and unique):
        # Otherwise a row is replaced by its key, whatever it was.
        refuse_static_tables(select, template)
    return plan_recomputed(
        planner,
        select,
        Recompute(
            name="recompute",
            query=template,
            inputs=inputs,
            keys=(tuple(each.copy() for each in common),),
            aliases=(source.alias,),
            label="OVER",
            unique=unique,
            end=partitioned.window_end_column,
            has_few_rows=relation.bounded or (covered and all_are_limited and not has_other),
            top=top,
            growth=growth,
        ),
    )


def _top_rows(template: exp.Select, last: int) -> TopRows:
    """Returns the rows that a ranking needs of append-only input: the first `last` of them."""
    (placed,) = over_clauses(template)
    where = template.args.get("where")
    return TopRows(placed.copy(), last, where.this.copy() if where else None)


def _growth_of_rows(keys: Sequence[exp.Expr], top: TopRows | None, instead: str) -> UnboundedState:
    """Returns what the rows of a recomputed ranking grow with.

    Args:
        keys: partition keys.
        top: the first rows that it needs; None if it needs all.
        instead: a sentence on what may be missing in the query.
    """
    what = f"rows for every value of {', '.join(map(sql, keys))}" if top and keys else "every row"
    return UnboundedState(what, _column_names(keys) if top else None, instead)


def _unbounded_ranking_message(written: exp.Select) -> str:
    """Returns a sentence about a ranking without a limit; empty if there is none."""
    found = ranks.rankings(written).items()
    return next((ranks.unbounded_message(rank, name, "all rows that ever come") for name, rank in found), "")


def _plan_first_rows(
    planner: Planner, limited: RankedSelect, source: FromItem, growth: UnboundedState | None
) -> Operator | None:
    """Plans the first rows of a ranking as a `TopN`; None if it has to be recomputed.

    Args:
        planner: planner of the tree.
        limited: the SELECT.
        source: the relation that it reads.
        growth: what its state grows with; None if nothing.
    """
    select, relation = limited.select, source.stream_operator.relation
    is_forgotten = ttl_of_stored_rows(limited.below, planner.ttl) is not None
    if relation.changes:
        # Operators above a ranking of expiring groups depend on the generations of its rows.
        lives = not is_forgotten or is_result(select)
        found = rankings.top_n_of_groups(limited, expires=is_forgotten) if lives else None
        return None if found is None else _add_ranking(planner, replace(found, growth=growth))
    limited = replace(limited, final=_is_emitted_once(select, source, limited.last))
    (over,) = over_clauses(select)
    is_timed = (bool(over.args.get("partition_by")) and is_forgotten) or limited.final
    found = rankings.top_n_of_rows(limited, is_timed)
    if found is None:
        return None
    ranking = _add_ranking(planner, replace(found, growth=growth))
    return planner.record_dropped_rows(ranking, select) if limited.final else ranking


def _is_emitted_once(select: exp.Select, source: FromItem, last: int) -> bool:
    """Whether the result is the first row in order of event time, which is emitted when no other can come
    before it."""
    (rank,) = over_clauses(select)
    order = rank.args["order"].expressions
    time = source.stream_operator.relation.event_time
    by = 2 if tie_breaker(select) is not None else 1  # the tie-breaker is last
    return (
        is_result(select)
        and last == 1
        and isinstance(rank.this, exp.RowNumber)
        and len(order) == by
        and not order[0].args.get("desc")
        and time is not None
        and column_origins.value_of_column(order[0].this, source.alias, {time: True}) is not None
    )


def _add_ranking(planner: Planner, operator: TopN) -> Operator:
    """Adds a ranking, split into buckets if that is requested."""
    if planner.rewrites.topn_buckets is not None:
        planner.rewrites.record_split_ranking(operator.name)
        operator = replace(operator, top=replace(operator.top, buckets=planner.rewrites.topn_buckets))
    there = planner.operators.get(operator.name)
    if isinstance(there, TopN) and there.top.rows != operator.top.rows:
        operator = replace(operator, name=f"{operator.name}_{operator.top.rows}")
    return planner.add(operator)


def _plan_over_in_time(
    planner: Planner, select: exp.Select, template: exp.Select, source: FromItem, inputs: tuple[Operator, ...]
) -> Operator | None:
    """Plans OVER in order of event time, which is append-only; None for another order, or if frames have
    later rows."""
    relation = source.stream_operator.relation
    over = over_clauses(select)
    waits = relation.event_time is not None
    time = ascending_order_column(over[0], source.alias)
    if relation.changes or time is None or conditions.may_multiply_rows(select):
        return None
    in_order = relation.event_time == time if waits else arrives_in_order(relation.complete_by.get(time))
    reached = frame_extent(over, time, source.alias) if in_order else None
    if reached is None:
        return None
    if select.args.get("where"):
        # Every stored row belongs to frames, so rows are filtered before.
        return plan_over(planner, *_move_where_below(planner, select, source))
    keys = over[0].args.get("partition_by") or []
    covered = planner.have_few_values(keys, select)
    # A partition within a window expires with the window.
    timed = {column: column for column in relation.times}
    ending = filter(None, (column_origins.value_of_column(key, source.alias, timed) for key in keys))
    until = tuple((column, relation.times[column]) for column in sorted(ending))[:1]
    grows = not until and not relation.bounded and planner.ttl is None
    running = (
        running_values.with_running_values(template, source.alias) if grows and reached.everything else None
    )
    if running is not None:
        growth = None if covered else _growth_per_key("totals", keys)
    else:
        ends = bool(until) or relation.bounded
        growth = None if until else _growth_of_frames(reached, () if covered else keys, ends)
    text = canonical(template)
    made_of, values = running or (template, ())
    weighed = with_weight(made_of, [(source.alias, WEIGHT)])
    hide_from_stars(weighed, [(source.alias, each.column) for each in values])
    if planner.ttl is not None:
        _partition_by_generation(weighed, source.alias)
    (below,) = inputs
    found = planner.add(
        OverAggregate(
            name=f"{'running' if values else 'over'}_{digest(below.name, text)}",
            inputs=inputs,
            query=weighed,
            keys=tuple(map(sql, keys)),
            alias=source.alias,
            time=time,
            reach=reached,
            label="OVER",
            waits=waits,
            growth=growth,
            until=until,
            running=values,
            written=template if values else None,
        )
    )
    return planner.record_dropped_rows(found, select) if waits else found


def _growth_per_key(what: str, keys: Sequence[exp.Expr]) -> UnboundedState:
    """Returns the growth of a state that stores something for each value of keys. `what` names it, as a noun."""
    return UnboundedState(f"{what} for every value of {', '.join(map(sql, keys))}", _column_names(keys))


def _growth_of_frames(reached: FrameExtent, keys: Sequence[exp.Expr], bounded: bool) -> UnboundedState | None:
    """Returns what the rows grow with that frames of later rows have; None if their number is bounded.

    Args:
        reached: how far back frames reach.
        keys: partition keys whose sets of values may grow.
        bounded: whether the input is bounded.
    """
    if reached.everything and not bounded:
        return UnboundedState("every row", None)
    if not reached.rows or not keys:
        return None
    return _growth_per_key("the last row" if reached.rows == 1 else f"the last {reached.rows} rows", keys)


def _move_where_below(planner: Planner, select: exp.Select, source: FromItem) -> tuple[exp.Select, FromItem]:
    """Returns the SELECT with its WHERE moved into a query in FROM."""
    made = copied(select)
    (node,) = relations(made)
    filter_relation(node, source.alias, [made.args["where"].this])
    made.set("where", None)
    (node,) = relations(made)
    return made, replace(source, node=node, operator=planner.visit(node))


def _partition_by_generation(select: exp.Select, alias: str) -> None:
    """Adds a row's TTL generation to the partition keys of all OVER clauses of a SELECT. Changes the tree."""
    generation = exp.column(GENERATION, table=alias, quoted=True)
    for window in over_clauses(select):
        window.set("partition_by", [*(window.args.get("partition_by") or ()), generation.copy()])
    hide_from_stars(select, [(alias, GENERATION)])


def _column_names(nodes: Sequence[exp.Expr]) -> frozenset[str]:
    return frozenset(column.name.lower() for node in nodes for column in every(node, exp.Column))
