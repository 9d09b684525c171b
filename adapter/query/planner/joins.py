"""Plans joins, semi and anti joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NoReturn

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..normalize import asked_relations, conditions, correlated_aggregates, semi_joins
from ..normalize.static_sides import nest_joins, nest_subquery_join, unqualified_correlation
from ..plan import column_origins
from ..plan.hidden_items import with_weight
from ..plan.operator import Operator, UnboundedState, Until
from ..plan.operators.join import Join
from ..plan.operators.outer_interval_join import OuterIntervalJoin
from ..plan.operators.recompute import Recompute
from ..plan.relation import Relation, smallest_key, weight_column
from ..plan.relations.joined import JoinedRelations, preserved_sides
from ..plan.time_bounds import TimeBounds
from ..sql.dialect import canonical, reading_select, walk_same_query
from ..sql.names import digest
from ..sql.nodes import copied, every
from ..sql.tie_breaking import break_ties_of_extremes
from .closing import closed_inputs, count_late_rows_of_inputs
from .context import Planner
from .from_items import FromItem, event_times_by_alias
from .inputs import relations_in_from, with_numbered_inputs
from .join_conditions import (
    compared_window_ends,
    move_filters_below,
    move_first_condition_below,
    move_inner_conditions_below,
    move_table_conditions_below,
)
from .projections import plan_local, short_label
from .recomputing import (
    check_repeatable,
    plan_recomputed,
    refuse_nondeterministic,
    refuse_static_tables,
    window_ends_among_keys,
)

_BY_WINDOW = (
    "; or compare window_start and window_end of both sides in its condition, so that rows of a window meet those of the "
    "same one"
)
_TWO_BY_TWO = (
    "; or join two at a time, the outer join last: the time between rows bounds what is kept of an outer join only of two "
    "relations, as in (SELECT … FROM a JOIN b ON …) AS ab LEFT JOIN c ON …"
)
_IN_TIME = (
    "; or bound the time between them on both sides, as in a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR, by columns that "
    "carry event time (dbt's config event_time, window_end)"
)


def plan_join(
    planner: Planner, select: exp.Select, read: Sequence[FromItem], inner: Sequence[exp.Query]
) -> Operator:
    """Plans a SELECT over several relations, or one with subqueries over streams: as an interval join, a
    regular join, or recomputed.

    Args:
        planner: planner of the tree.
        select: SELECT without GROUP BY and OVER.
        read: relations in FROM.
        inner: its subqueries over streams outside FROM.

    Raises:
        QueryError: it isn't supported over streams.
    """
    if read and not any(each.operator for each in read):
        raise QueryError(
            f"'{hints.excerpt((*inner, select)[0])}' reads a stream inside an expression of a query over a table that is no "
            "stream; read that table as a stream, too."
        )
    if (found := _plan_rewritten(planner, select, read, inner)) is not None:
        return found
    template, inputs = with_numbered_inputs(planner, select, read)
    if not read:
        return _plan_without_from(planner, select, template, inputs)
    streaming = [each.operator is not None for each in read]
    if all(streaming) and not (inner or _has_subquery_in_on(select)) and conditions.reads_tables(template):
        if nest_joins(select, streaming, whole=True):
            return planner.select(select)
    check_repeatable(select, template, inputs, "joins streams")
    if move_table_conditions_below(select, read):
        return planner.select(select)
    streams = tuple(each for each in read if each.operator is not None)
    if len(streams) < len(read) or conditions.reads_tables(template):
        _refuse_tables_left(select)
    made = _JoinedSelect(
        select=select,
        template=template,
        inputs=inputs,
        streams=streams,
        inner=inner,
        equal=conditions.equal_columns(select, [e.alias for e in streams]),
    )
    if made.matches_arrive_together:
        return plan_local(planner, "JOIN", inputs, template)
    if not inner and all(conditions.is_inner_join(each.join) for each in streams):
        return _plan_inner_join(planner, made)
    until = None if inner or made.changes else _until_for_outer_join(select, streams)
    if until:
        made = replace(made, inputs=count_late_rows_of_inputs(planner, select, inputs, streams))
        if not any(each.join is not None and each.join.kind == "SEMI" for each in streams):
            return _plan_outer_interval_join(planner, made)
    partitions = conditions.partition_expressions(template, [e.alias for e in streams], len(inputs))
    if not any(partitions) and move_first_condition_below(select, read):
        return planner.select(select)
    return _plan_recomputed_join(planner, made, partitions, until)


def _has_subquery_in_on(select: exp.Select) -> bool:
    """Whether a join condition has a subquery."""
    return any((join.args.get("on") or exp.true()).find(exp.Query) for join in select.args.get("joins") or ())


def _plan_rewritten(
    planner: Planner, select: exp.Select, read: Sequence[FromItem], inner: Sequence[exp.Query]
) -> Operator | None:
    """Rewrites a join as another query and plans that, if a rewrite applies. Returns None otherwise. Changes the tree."""
    if any([_simplify_to_row_by_row(query) for query in inner]):
        return planner.select(select)
    if any(isinstance(each.node, exp.Lateral) and hints.reads_stream_or_operator(each.node) for each in read):
        return _plan_laterals(planner, select, read)
    if inner and (joins_only := semi_joins.rewrite_as_semi_joins(select)) is not None:
        asked = relations_in_from(planner, joins_only)
        if all(
            each.operator and not each.operator.relation.changes for each in asked
        ) and _until_for_outer_join(joins_only, asked):
            return plan_join(planner, joins_only, closed_inputs(planner, joins_only, asked, False), ())
    streaming = [each.operator is not None for each in read]
    asks = _has_subquery_in_on(select)
    is_beside = not all(streaming) and not asks
    if is_beside and inner and (column := unqualified_correlation(select)) is not None:
        raise QueryError(
            f"'{hints.excerpt(select)}' joins a table, and a subquery in it reads '{column.name}', without saying "
            f"whose column it is; write the relation's name before it, as in t.{column.name}."
        )
    if is_beside and nest_joins(select, streaming, whole=sum(streaming) == 1):
        return planner.select(select)
    joins_alone = all(streaming) and len(read) > 1 and not asks
    if inner and joins_alone and all(map(_is_qualified, inner)) and nest_joins(select, streaming, whole=True):
        return planner.select(select)
    if correlated_aggregates.rewrite_as_joins(select, inner):
        return planner.select(select)
    if all(streaming) and not inner and not asks and move_filters_below(select, read):
        return planner.select(select)
    return None


def _refuse_tables_left(select: exp.Select) -> NoReturn:
    """Raises `QueryError`: a SELECT joins streams and a static table, and no rewrite has moved the table into another
    query."""
    if names := _unqualified_columns(select):
        raise QueryError(
            f"'{hints.excerpt(select)}' joins streams and a table that is no stream, and doesn't say whose columns "
            f"{', '.join(names)} are: write the relation's name before each, as in t.{names[0]}."
        )
    raise QueryError(
        f"'{hints.excerpt(select)}' joins streams and a table that is no stream in one SELECT; join the table in a subquery "
        "in FROM, or in a SELECT around this one, so that it is clear which rows it belongs to."
    )


@dataclass(frozen=True)
class _JoinedSelect:
    """A SELECT that joins streams, and may read other streams in subqueries."""

    select: exp.Select
    template: exp.Select
    """The SELECT over its inputs."""
    inputs: tuple[Operator, ...]
    streams: tuple[FromItem, ...]
    """The relations in FROM."""
    inner: Sequence[exp.Query]
    """Its subqueries over streams outside FROM."""
    equal: Sequence[Mapping[str, exp.Expr]]
    """Groups of equal columns, by alias."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Returns the aliases of the relations in FROM."""
        return tuple(each.alias for each in self.streams)

    @property
    def relations(self) -> list[Relation]:
        """Returns the properties of the inputs."""
        return [each.relation for each in self.inputs]

    @property
    def changes(self) -> bool:
        """Whether rows of an input may be retracted."""
        return any(relation.changes for relation in self.relations)

    @property
    def bounded(self) -> bool:
        """Whether the number of rows is bounded."""
        return all(relation.bounded for relation in self.relations)

    @property
    def matches_arrive_together(self) -> bool:
        """Whether rows that match arrive in one micro-batch, since columns of one origin are equal."""
        if self.inner or self.changes:
            return False
        for group in self.equal:
            kinds = {
                column_origins.value_of_column(part, alias, relation.complete_by)
                for (alias, part), relation in zip(
                    [(alias, group.get(alias)) for alias in self.aliases], self.relations, strict=True
                )
                if part is not None
            }
            if len(group) == len(self.aliases) and len(kinds) == 1 and None not in kinds:
                return True
        return False

    @cached_property
    def joined_relations(self) -> JoinedRelations:
        """Properties of the join's rows, derived from the inputs' relations."""
        return JoinedRelations(self.template, self.relations)


def _plan_inner_join(planner: Planner, made: _JoinedSelect) -> Operator:
    """Plans an inner join, whose state is bounded in time, by windows, or by nothing."""
    select, streams = made.select, made.streams
    ends = compared_window_ends(made.equal, made.aliases, made.relations)
    bounds = None if made.changes else TimeBounds(select, event_times_by_alias(streams))
    if bounds is None or bounds.until_for_inner_join() is None:
        inputs, bounds = made.inputs, None
    else:
        inputs = count_late_rows_of_inputs(planner, select, made.inputs, streams)
    growth = None
    if not (made.bounded or ends or bounds):
        growth = UnboundedState("every row of both sides", None, or_else=_IN_TIME)
    weighed = [(each.alias, weight_column(number)) for number, each in enumerate(streams)]
    return planner.add(
        Join(
            name=f"join_{digest(canonical(made.template), *(each.name for each in inputs))}",
            inputs=inputs,
            query=with_weight(made.template, weighed) if made.changes else made.template,
            label=short_label(select),
            growth=growth,
            ends=ends,
            bounds=bounds,
        )
    )


def _plan_recomputed_join(
    planner: Planner,
    made: _JoinedSelect,
    partitions: tuple[tuple[exp.Expr, ...], ...],
    until: Mapping[str, Until] | None,
) -> Operator:
    """Plans an outer, semi or anti join, or one with subqueries, which is recomputed.

    Args:
        planner: planner of the tree.
        made: the join.
        partitions: per input, the expressions that limit what is recomputed.
        until: by alias, the watermark until which rows are needed; None if time doesn't bound it.
    """
    select, streams, template = made.select, made.streams, made.template
    ends = () if made.inner else compared_window_ends(made.equal, made.aliases, made.relations)
    aliases = (*made.aliases, *conditions.inner_aliases(template, len(made.aliases), len(made.inputs)))
    keys = made.joined_relations.keys
    if any(each.join is not None and each.join.side in ("RIGHT", "FULL") for each in streams):
        # Unmatched rows of either side may be distinguished by NULLs only.
        keys = ()
    by_end = window_ends_among_keys(partitions, aliases, made.relations)
    # A row that has found a match stays in the result.
    delays = (
        made.joined_relations.delays(TimeBounds(select, event_times_by_alias(streams)).delays(until))
        if until
        else {}
    )
    growth = None
    if not (made.bounded or ends or until or by_end):
        bound = _bound_advice(select, streams, made.inner, made.changes)
        growth = UnboundedState("every row of both sides", None, or_else=bound)
    _make_subqueries_deterministic(select, template, smallest_key(keys))
    return plan_recomputed(
        planner,
        select,
        Recompute(
            name="recompute",
            query=template,
            inputs=made.inputs,
            keys=partitions,
            aliases=aliases,
            label=short_label(select),
            unique=keys,
            end=made.joined_relations.window_end_column if by_end and not until else None,
            delays=delays,
            growth=growth,
            until=tuple(until[alias.lower()] for alias in made.aliases) if until else (),
            always=_always_recomputed_inputs(select, streams),
        ),
    )


def _always_recomputed_inputs(select: exp.Select, streams: Sequence[FromItem]) -> tuple[int, ...]:
    """Returns `Recompute.always` for a join of relations in FROM."""
    there = conditions.aliases_in_every_row(select)
    return tuple(number for number, each in enumerate(streams) if each.alias in there)


def _make_subqueries_deterministic(
    select: exp.Select, template: exp.Select, key: frozenset[str] | None
) -> None:
    """Makes the results of subqueries deterministic, also among equal rows. Changes the template.

    Args:
        select: the query.
        template: the query over ``__input_n``.
        key: columns that identify its rows; None if nothing does.

    Raises:
        QueryError: a subquery can't be made deterministic.
    """
    for query in conditions.inner_queries(template):
        conditions.order_lists(query)
        break_ties_of_extremes(query)
        conditions.order_windows(query)
        if query.find_ancestor(exp.Lateral) is not None:
            conditions.order_limits(query)
        refuse_nondeterministic(
            select, key, partial(conditions.why_nondeterministic, query), after=", and join that"
        )


def _plan_without_from(
    planner: Planner, select: exp.Select, template: exp.Select, inputs: tuple[Operator, ...]
) -> Operator:
    """Plans a SELECT without FROM whose subqueries read streams; it returns one row."""
    refuse_static_tables(select, template)
    check_repeatable(select, template, inputs, "reads streams in subqueries")
    _make_subqueries_deterministic(select, template, frozenset())
    keys = ((),) * len(inputs)
    aliases = conditions.inner_aliases(template, 0, len(inputs))
    return plan_recomputed(
        planner,
        select,
        Recompute(
            name="recompute",
            query=template,
            inputs=inputs,
            keys=keys,
            aliases=aliases,
            label=short_label(select),
            unique=(frozenset(),),
        ),
    )


def _plan_laterals(planner: Planner, select: exp.Select, read: Sequence[FromItem]) -> Operator:
    """Plans a SELECT with LATERAL over a stream that can't be written as a join (`lateral_joins`): recomputed
    for the rows with the affected keys."""
    laterals = [each.node for each in read if each.operator is None]
    for node in laterals:
        conditions.check_limits(node)
    template, inputs = with_numbered_inputs(planner, select, read)
    if conditions.reads_tables(template) or not all(isinstance(node, exp.Lateral) for node in laterals):
        raise QueryError(
            f"'{hints.excerpt(select)}' queries a stream for each row in LATERAL, next to a table that isn't a stream; "
            "join that table in a subquery in FROM, or in a SELECT around this one."
        )
    check_repeatable(select, template, inputs, "reads streams in subqueries")
    _make_subqueries_deterministic(select, template, None)
    aliases = [each.alias for each in read if each.operator is not None]
    all_aliases = (*aliases, *conditions.inner_aliases(template, len(aliases), len(inputs)))
    partitions = conditions.partition_expressions(template, aliases, len(inputs))
    bounded = all(each.relation.bounded for each in inputs)
    growth = None if bounded else UnboundedState("every row of both sides", None)
    return plan_recomputed(
        planner,
        select,
        Recompute(
            name="recompute",
            query=template,
            inputs=inputs,
            keys=partitions,
            aliases=all_aliases,
            label=short_label(select),
            growth=growth,
            always=_always_recomputed_inputs(select, [each for each in read if each.operator is not None]),
        ),
    )


def _simplify_to_row_by_row(query: exp.Query) -> bool:
    """Rewrites a subquery so that it reads one relation row by row, if possible; returns whether it changed.
    Changes the tree."""
    return (
        nest_subquery_join(query) or asked_relations.move_to_from(query) or move_inner_conditions_below(query)
    )


def _is_qualified(query: exp.Query) -> bool:
    """Whether each column in a subquery has the name of a relation, in the subquery or around it, as its
    prefix."""
    return all(reading_select(column) is not None for column in every(query, exp.Column))


def _bound_advice(
    select: exp.Select, streams: Sequence[FromItem], inner: Sequence[exp.Query], changes: bool
) -> str:
    """Returns the end of a sentence on what would bound the state of an outer, semi or anti join.

    Args:
        select: the query.
        streams: relations that it joins.
        inner: its subqueries over streams outside FROM.
        changes: whether a relation is an updating table.
    """
    nodes = [*(each.node for each in streams), *inner]
    if all(next(hints.windows_under(node), None) is not None for node in nodes):
        return _BY_WINDOW
    is_timed = (
        not inner
        and not changes
        and TimeBounds(select, event_times_by_alias(streams)).until_for_inner_join() is not None
    )
    return _TWO_BY_TWO if is_timed and len(streams) > 2 else ""


def _plan_outer_interval_join(planner: Planner, made: _JoinedSelect) -> Operator:
    """Plans an outer or anti interval join of two relations; its result is append-only."""
    return planner.add(
        OuterIntervalJoin(
            name=f"join_{digest(canonical(made.template), *(each.name for each in made.inputs))}",
            inputs=made.inputs,
            query=made.template,
            label=short_label(made.select),
            bounds=_time_bounds_of_matches(made.select, made.streams),
        )
    )


def _until_for_outer_join(select: exp.Select, streams: Sequence[FromItem]) -> dict[str, Until] | None:
    """Returns by alias the watermark until which rows of an outer, semi or anti join of two relations are
    needed; None if time doesn't bound it."""
    if len(streams) != 2 or streams[1].join is None:
        return None
    return _time_bounds_of_matches(select, streams).until_for_outer_join(preserved_sides(select))


def _time_bounds_of_matches(select: exp.Select, streams: Sequence[FromItem]) -> TimeBounds:
    """Returns the time bounds of matching rows. WHERE is left out, as it also applies to unmatched rows."""
    met = copied(select)
    met.set("where", None)
    return TimeBounds(met, event_times_by_alias(streams))


def _unqualified_columns(select: exp.Select) -> list[str]:
    """Returns the columns that a SELECT reads without a relation's name, except those of USING."""
    joins = select.args.get("joins") or ()
    using = {each.name.lower() for join in joins for each in join.args.get("using") or ()}
    columns = (each for each in walk_same_query(select) if isinstance(each, exp.Column) and not each.is_star)
    names = (each.name for each in columns if not each.table and each.name.lower() not in using)
    return list(dict.fromkeys(names))
