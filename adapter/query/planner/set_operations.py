"""Plans UNION, INTERSECT, EXCEPT and DISTINCT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..frontend.select_kind import is_grouped
from ..normalize import conditions
from ..normalize.rankings import ranks
from ..plan import unbounded_state
from ..plan.operator import Operator, UnboundedState, input_name
from ..plan.operators.local import Local
from ..plan.operators.set_operation import SetOperation
from ..plan.operators.union_all import UnionAll
from ..plan.relation import common_window_end
from ..sql.clauses import output_names, over_clauses
from ..sql.names import digest
from .closing import hold_back_open_windows
from .context import Planner
from .row_level import why_limited

_INSTEAD = {
    "except": "Leave them out with a condition, as in SELECT DISTINCT … WHERE k IS DISTINCT FROM 1; or write",
    "intersect": "Keep them with a condition, as in SELECT DISTINCT … WHERE k IS NOT DISTINCT FROM 1; or write",
}
"""Advice for a set operation with literal rows."""


def plan_set_operation(planner: Planner, node: exp.SetOperation) -> Operator:
    """Plans UNION, INTERSECT or EXCEPT, with or without ALL.

    Raises:
        QueryError: a side reads no stream, or the sides can't be compared.
    """
    kind = node.key
    if (problem := why_limited(node)) is not None:
        raise problem
    node.set("order", None)
    if node.args.get("by_name"):
        raise QueryError(
            f"'{hints.excerpt(node)}': BY NAME over a stream is not supported; name the columns in order."
        )
    selects = _combined_selects(node.copy())  # planning a side may rewrite it
    every = isinstance(node, exp.Union) and not node.args.get("distinct")
    sides = [planner.visit(side) for side in (node.this, node.expression)]
    for side, operator in zip((node.this, node.expression), sides, strict=True):
        if operator is not None:
            continue
        if not any(isinstance(table.this, exp.Identifier) for table in side.find_all(exp.Table)):
            instead = _INSTEAD.get(kind, "Write") if node.args.get("distinct") else "Write"
            raise QueryError(
                f"{kind.upper()} puts a stream together with '{hints.excerpt(side, 60)}', whose rows come from no table. "
                f"{instead} them into a table, such as a seed, and read that as a stream: {{{{ stream(ref('…')) }}}}."
            )
        raise QueryError(
            f"{kind.upper()} puts a stream together with '{hints.excerpt(side, 60)}', which is none; read it as a "
            "stream too: {{ stream(ref('…')) }}."
        )
    left, right = (hold_back_open_windows(planner, side) for side in sides if side is not None)
    columns, others = ([*map(str.lower, output_names(side))] for side in (node.this, node.expression))
    pairs = {}
    if "*" not in (*columns, *others) and len(columns) == len(others):
        # The first of several columns of a name counts.
        pairs = dict(reversed([*zip(columns, others, strict=True)]))
    if every:
        names = [left.name, right.name]
        if columns == others and not {"*", ""} & {*columns}:
            names.sort()  # the order of the sides doesn't matter
        return planner.add(UnionAll(name=f"union_{digest(*names)}", inputs=(left, right), pairs=pairs))
    words = f"{kind}{'' if node.args.get('distinct') else ' all'}"
    end = common_window_end(left.relation, right.relation, pairs)
    return _plan_counted_rows(planner, words, (left, right), end, selects)


def _plan_counted_rows(
    planner: Planner,
    operation: str,
    inputs: tuple[Operator, ...],
    end: str | None,
    selects: Sequence[exp.Select] | None,
) -> Operator:
    """Plans an operation on counted rows.

    Args:
        planner: planner of the tree.
        operation: see `SetOperation.operation`.
        inputs: its sides.
        end: the column with the end of the window that their rows expire with; None if there is none.
        selects: the SELECTs whose rows are counted; None if their columns aren't known.

    Raises:
        QueryError: its rows can't be compared.
    """
    if all(not each.relation.repeatable for each in inputs):
        raise QueryError(
            f"{operation.upper()} of non-deterministic values, such as those of rand(); compute these in a separate model."
        )
    has_few_rows = selects is not None and all(
        planner.have_few_values([item.unalias() for item in select.expressions], select) for select in selects
    )
    bounded = has_few_rows or all(each.relation.bounded for each in inputs)
    columns = None if selects is None else _columns_to_name(selects)
    growth = None if bounded or end else UnboundedState("every different row", columns)
    return planner.add(
        SetOperation(
            name=f"set_{digest(operation, *(each.name for each in inputs))}",
            inputs=inputs,
            operation=operation,
            label=operation.upper(),
            growth=growth,
            ends=() if end is None else (end,) * len(inputs),
            has_few_rows=has_few_rows,
        )
    )


def plan_distinct(planner: Planner, select: exp.Select) -> Operator:
    """Plans SELECT DISTINCT: as its input if that has a key, as a GROUP BY of all columns, or with counted
    rows."""
    rows = select.copy()
    rows.set("distinct", None)
    if select.parent is not None:
        # A query without a parent would be the result.
        rows = exp.Subquery(this=rows).this
    if isinstance(select.args["distinct"].args.get("on"), exp.Expr):
        raise QueryError("DISTINCT ON is not Spark SQL; filter on ROW_NUMBER() = 1.")
    grouped = _as_group_by(rows)
    below = planner.visit(_limited_ranking(rows, ranks.greatest_ranks_in_outer_select(select)))
    assert below is not None
    below = hold_back_open_windows(planner, below)
    complete_by = frozenset(below.relation.complete_by)
    if complete_by and not below.relation.changes:
        # Equal rows arrive in one micro-batch.
        query = exp.Select(expressions=[exp.Star()], distinct=exp.Distinct()).from_(
            exp.to_identifier(input_name(0))
        )
        name = f"local_{digest('distinct', below.name)}"
        return planner.add(Local(name=name, inputs=(below,), query=query, label="distinct"))
    if below.relation.keys:
        return below  # no row is repeated
    if grouped is not None:
        return planner.select(grouped)
    return _plan_counted_rows(planner, "distinct", (below,), below.relation.ends, _combined_selects(rows))


def _combined_selects(node: exp.Expr) -> list[exp.Select] | None:
    """Returns the SELECTs that set operations put together, each with a list of columns; None if there are others."""
    query = node.unnest()
    if isinstance(query, exp.SetOperation):
        sides = _combined_selects(query.this), _combined_selects(query.expression)
        return None if None in sides else [each for side in sides for each in side or ()]
    return [query] if isinstance(query, exp.Select) and not query.is_star else None


def _columns_to_name(selects: Sequence[exp.Select]) -> frozenset[str]:
    """Returns the columns that constant_domains has to name, so that the set of different rows doesn't grow."""
    items = [(item, select) for select in selects for item in select.expressions]
    names = (
        unbounded_state.constant_domain_columns(item.unalias(), select)
        for item, select in items
        if not unbounded_state.is_bounded(item.unalias(), select)
    )
    return frozenset().union(*names)


def _limited_ranking(ranking: exp.Select, ended: Mapping[str, int]) -> exp.Select:
    """Returns a ranking within the filter that limits it; the ranking itself if there is no limit."""
    if not ended:
        return ranking
    tests = [exp.column(name, quoted=True) <= last for name, last in sorted(ended.items())]
    return ranks.filtered_ranking(ranking, tests)


def _as_group_by(rows: exp.Select) -> exp.Select | None:
    """Returns a SELECT DISTINCT as a GROUP BY of all its columns; None if these have no distinct names, or
    the SELECT isn't row by row."""
    items = [
        item for item in rows.expressions if isinstance(item, exp.Alias | exp.Column) and not item.is_star
    ]
    names = {item.alias_or_name.lower() for item in items}
    if (
        len(items) < len(rows.expressions)
        or len(names) < len(items)
        or is_grouped(rows)
        or conditions.may_multiply_rows(rows)
        or over_clauses(rows)
        or conditions.inner_queries(rows)
    ):
        return None
    # A number in GROUP BY would be the position of a column.
    keys = [item.unalias().copy() for item in items if not isinstance(item.unalias(), exp.Literal)]
    if not keys:
        return None
    made = rows.copy()
    made.set("group", exp.Group(expressions=keys))
    return made
