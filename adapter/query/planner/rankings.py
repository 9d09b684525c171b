"""Plans a ranking with a limit as a `TopN`: over append-only rows, or over groups whose state has all values
that are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ...util.quoting import quote
from ..normalize import conditions
from ..normalize.rankings.ranks import Top
from ..plan import column_origins
from ..plan.hidden_items import ROW_TIME, with_weight
from ..plan.improving import is_monotonic, listed_names
from ..plan.operator import Operator
from ..plan.operators.group_aggregate import GroupAggregate
from ..plan.operators.project import row_by_row
from ..plan.operators.top_n import TopN
from ..plan.relation import WEIGHT
from ..plan.state.group_state import identity_columns
from ..plan.state.ranking import BY, ID, ORDER, ROW
from ..sql.clauses import hide_from_stars, output_column_of, over_clauses, relations
from ..sql.dialect import canonical, function_name, sql
from ..sql.names import digest
from ..sql.tie_breaking import noted_tie_breakers, tie_breaker


@dataclass(frozen=True)
class RankedSelect:
    """A SELECT with one ranking, whose first rows are used."""

    select: exp.Select
    """The query, with ties broken."""
    template: exp.Select
    """The query over its input."""
    alias: str
    """Alias of the input."""
    below: Operator
    """Its input."""
    name: str
    """Column of the ranking, in lower case."""
    last: int
    """The last rank that is used."""
    has_few_partitions: bool
    """Whether the sets of values of the partition keys don't grow."""
    final: bool = False
    """Whether a row is emitted when no other can come before it."""


@dataclass(frozen=True)
class _Ranking:
    """Parts of a SELECT with one ranking."""

    within: Sequence[exp.Expr]
    """Partition keys."""
    order: Sequence[exp.Ordered]
    """Order keys, without a tie-breaker that is the whole row."""
    function: exp.Expr
    """The ranking function, without OVER."""
    operator: TopN
    """The operator over append-only rows."""


def _split_ranking(ranked: RankedSelect, ids: Sequence[exp.Expr] = ()) -> _Ranking | None:
    """Returns the parts of a ranking; None if the position of the rank's column is unknown. `ids`: expressions that
    identify a row of groups."""
    select, template, name = ranked.select, ranked.template, ranked.name
    item = next(each for each in template.expressions if each.alias_or_name.lower() == name)
    columns = _result_columns(template)
    if columns is None and template.expressions[-1] is not item:
        return None
    (rank,) = over_clauses(template)
    order = list(rank.args["order"].expressions)
    # For a row with a MAP the tie-breaker is written out.
    is_tied = (
        isinstance(rank.this, exp.RowNumber)
        and tie_breaker(select) is not None
        and noted_tie_breakers(select) is None
    )
    if is_tied:
        order.pop()
    within = rank.args.get("partition_by") or []
    rows = template.copy()
    rows.set("expressions", [each for each in rows.expressions if each.alias_or_name.lower() != name])
    for prefix, listed in ((BY, within), (ORDER, [each.this for each in order]), (ID, ids)):
        for number, each in enumerate(listed):
            rows.append("expressions", exp.alias_(each.copy(), f"{prefix}{number}", quoted=True))
    by = []
    for number, each in enumerate(order):
        placed = each.copy()
        placed.set("this", exp.column(f"{ORDER}{number}", table=ROW, quoted=True))
        by.append(sql(placed))
    by += [ROW] if is_tied else []
    of_groups = [str(ranked.last)] if ids else []
    operator = TopN(
        name=f"top_{digest(ranked.below.name, canonical(template), *of_groups)}",
        inputs=(ranked.below,),
        rows=rows,
        label="TopN",
        top=Top(function_name(rank.this), _numbered_columns(BY, len(within)), ", ".join(by), ranked.last),
        rank=item.alias_or_name,
        query=template,
        orders=len(order),
        ids=(),
        columns=columns,
        of_groups=None,
        improves=True,
        shown=tuple(output_column_of(template, each) for each in within),
        has_few_partitions=ranked.has_few_partitions,
    )
    return _Ranking(within, order, rank.this, operator)


def top_n_of_rows(ranked: RankedSelect, is_timed: bool) -> TopN | None:
    """Returns the operator of a ranking over append-only rows; None if it needs more than the first rows.

    Args:
        ranked: the SELECT.
        is_timed: whether rows have a time, in the hidden column `ROW_TIME`.
    """
    made = _split_ranking(ranked)
    if made is None or conditions.inner_queries(ranked.template):
        return None
    if is_timed:
        rows = made.operator.rows
        hide_from_stars(rows, [(ranked.alias, ROW_TIME)])
        rows.append("expressions", exp.column(ROW_TIME, table=ranked.alias, quoted=True))
    return replace(made.operator, final=ranked.final, descends=_first_order_descends(made))


def top_n_of_groups(ranked: RankedSelect, expires: bool = False) -> TopN | None:
    """Returns the operator of a ranking over groups; None if it needs more than the groups' values.

    Args:
        ranked: the SELECT.
        expires: whether idle groups expire.
    """
    select, template, alias, below = ranked.select, ranked.template, ranked.alias, ranked.below
    path, group = row_by_row(below)
    key = below.relation.key
    if (
        not isinstance(group, GroupAggregate)
        or not key
        or not _has_emitted_rows(group)
        or noted_tie_breakers(select) is not None
        # A retracted row couldn't be computed again from a later version of the table.
        or conditions.reads_tables(template)
    ):
        return None
    ids = [exp.column(each, table=alias, quoted=True) for each in sorted(key)]
    made = _split_ranking(ranked, ids)
    if made is None:
        return None
    selects = [each.query for each in path]
    of_group = _group_columns(selects, group)
    within = _keys_among(
        group, [column_origins.value_of_column(each, alias, of_group) for each in made.within]
    )
    of_ids = tuple(of_group.get(name, "") for name in sorted(key))
    if expires and {*of_ids} != {*identity_columns(group.spec)}:
        return None
    is_filtered = any(each.args.get("where") for each in (*selects, template))
    return replace(
        made.operator,
        rows=with_weight(made.operator.rows, [(alias, WEIGHT)]),
        ids=_numbered_columns(ID, len(ids)),
        of_groups=within,
        improves=not (is_filtered or expires)
        and not group.spec.has_retractions
        and within is not None
        and is_monotonic(
            select=template,
            function=made.function,
            order=made.order,
            group=group.spec,
            group_column=lambda node: column_origins.value_of_column(node, alias, of_group),
            star_columns=listed_names(selects[-1]) if selects else None,
        ),
        # A row behind the last rank doesn't affect the ranking. This isn't used if members may expire.
        descends=None if within is None or expires else _first_order_descends(made),
        of_ids=of_ids if expires else (),
    )


def _first_order_descends(made: _Ranking) -> bool | None:
    """Returns `TopN.descends`. DENSE_RANK counts values, which the number of rows before a row doesn't bound."""
    if not made.order or isinstance(made.function, exp.DenseRank):
        return None
    return bool(made.order[0].args.get("desc"))


def _numbered_columns(prefix: str, size: int) -> tuple[str, ...]:
    return tuple(quote(f"{prefix}{number}") for number in range(size))


def _has_emitted_rows(group: GroupAggregate) -> bool:
    """Whether the state has the groups' rows as they were emitted, until they change."""
    counts_values = group.spec.has_retractions and bool(group.spec.distinct_sets)
    return not counts_values and not group.ends


def _result_columns(template: exp.Select) -> tuple[str, ...] | None:
    """Returns the columns of the result in order; None if names don't identify them."""
    names = [each.alias_or_name for each in template.expressions]
    is_told = not template.is_star and all(names) and len({name.lower() for name in names}) == len(names)
    return tuple(names) if is_told else None


def _group_columns(selects: Sequence[exp.Query], group: GroupAggregate) -> dict[str, str]:
    """Maps output columns of the topmost SELECT over a GROUP BY to the GROUP BY's columns that they pass on.

    Args:
        selects: the SELECTs over the GROUP BY, the lowest first.
    """
    spec = group.spec
    found = {name.lower(): name for name in (*identity_columns(spec), *(m.name for m in spec.metrics))}
    for select in selects:
        assert isinstance(select, exp.Select)
        found = column_origins.outputs_of_select(
            select, relations(select)[0].alias_or_name
        ).with_output_names(found)
    return found


def _keys_among(group: GroupAggregate, columns: Sequence[str | None]) -> tuple[str, ...] | None:
    """Returns the columns if all of them are keys of the groups; None otherwise."""
    keys = {key.name for key in group.spec.keys}
    found = tuple(name for name in columns if name in keys)
    return found if len(found) == len(columns) else None
