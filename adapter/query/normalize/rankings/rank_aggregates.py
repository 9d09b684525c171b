"""Finds the ranks that a GROUP BY reads of a ranking below it, if its aggregates ignore all rows after some rank.

>>> from ...sql.dialect import parse
>>> ranked = "select k, v, row_number() over (partition by k order by v) as rn from t"
>>> def places(items, group="group by k"):
...     return greatest_ranks_read(parse(f"select {items} from ({ranked}) as r {group}"))
>>> places("k, sum(v) filter (where rn = 1) as s, max(case when r.rn <= 3 then v end) as m")
{'rn': 3}
>>> places("sum(if(rn < 3, v, null)) as s", group=""), places("k, count(v) as n")
({'rn': 2}, {})
>>> places("v, count_if(rn = 1) as n", "group by v")
{}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from sqlglot import exp

from ...aggregates.grouping import grouping
from ...errors import QueryError
from ...sql.clauses import branches, columns_left_out, filters, is_over, output_column_of, relations
from ...sql.nodes import every
from . import ranks
from .rank_bounds import bounds_of_condition

_Column = TypeVar("_Column")
_PASS_OVER_NULL = (
    exp.Sum,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.Count,
    exp.Variance,
    exp.VariancePop,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.LogicalAnd,
    exp.LogicalOr,
    exp.ArrayAgg,
    exp.ArrayUniqueAgg,
    exp.PercentileCont,
    exp.Quantile,
)
"""Aggregates of one argument that ignore NULL."""
_LEAVES_OUT_ROWS = ("where", "group", "having", "distinct", "limit", "offset", "qualify", "joins", "laterals")


def greatest_ranks_read(select: exp.Select) -> dict[str, int]:
    """Returns the rank columns in the input of a grouped SELECT with the greatest rank that it reads.

    Filtering the other rows keeps all groups: each group has a row with rank 1.
    """
    read = relations(select)
    if len(read) != 1 or any(select.args.get(clause) for clause in ("joins", "laterals", "qualify")):
        return {}
    alias = read[0].alias_or_name.lower()
    asked = _ranks_read_by_all(select, alias)
    if not asked:
        return {}
    try:
        keys = _column_names(grouping(select).keys, alias)
    except QueryError:
        return {}
    if select.args.get("group"):
        if any(not _column_names([test], alias) <= keys for test in filters(select)):
            return {}  # the first row of a group may be filtered and others not
        asked = {
            name: last for name, last in asked.items() if last and _is_partitioned_within(read[0], name, keys)
        }
    return dict(list(asked.items())[:1])


def _ranks_read_by_all(select: exp.Select, alias: str) -> dict[str, int]:
    """Greatest rank that any of the aggregates reads, for the columns that all of them bound."""
    return _maximum_of_all(
        {name: last for (table, name), last in _ranks_read_by(call).items() if table in ("", alias)}
        for call in _aggregates(select)
    )


def _maximum_of_all(bounds: Iterable[dict[_Column, int]]) -> dict[_Column, int]:
    """Returns the greatest bound of each column that all mappings bound."""
    listed = list(bounds)
    in_all = [column for column in listed[0] if all(column in each for each in listed)] if listed else []
    return {column: max(each[column] for each in listed) for column in in_all}


def _aggregates(select: exp.Select) -> Iterator[exp.Expr]:
    """Yields the aggregates of a SELECT, and NULL (no bound) for a subquery or OVER, which may read other rows."""
    for clause in (*select.expressions, select.args.get("having"), select.args.get("order")):
        for node in clause.walk() if clause is not None else ():
            if isinstance(node, exp.Query | exp.Window):
                yield exp.Null()
            elif isinstance(node, exp.AggFunc) and not is_over(node):
                yield node


def _ranks_read_by(call: exp.Expr) -> dict[tuple[str, str], int]:
    """Greatest rank that one aggregate reads, by rank column."""
    found = _ranks_by_argument(call)
    if isinstance(call.parent, exp.Filter):
        for column, last in _last_ranks(call.parent.expression.this).items():
            found[column] = min(last, found.get(column, last))
    return found


def _ranks_by_argument(call: exp.Expr) -> dict[tuple[str, str], int]:
    if isinstance(call, exp.CountIf):
        return _last_ranks(call.this)
    if not isinstance(call, _PASS_OVER_NULL) or not isinstance(call.this, exp.Expr):
        return {}
    argument = call.this.unnest()
    if isinstance(argument, exp.Distinct):
        listed = argument.expressions
        return _ranks_where_not_null(listed[0]) if len(listed) == 1 else {}
    return {} if isinstance(call, exp.Count) and call.expressions else _ranks_where_not_null(argument)


def _ranks_where_not_null(value: exp.Expr) -> dict[tuple[str, str], int]:
    """Greatest ranks for which a value isn't NULL."""
    value = value.unnest()
    if isinstance(value, exp.Cast):
        return _ranks_where_not_null(value.this)
    if not isinstance(value, exp.Case | exp.If) or (isinstance(value, exp.Case) and value.this is not None):
        return {}
    tests, default = branches(value)
    if default is not None and not isinstance(default.unnest(), exp.Null):
        return {}
    return _maximum_of_all(
        _last_ranks(each.this) for each in tests if not isinstance(each.args["true"].unnest(), exp.Null)
    )


def _last_ranks(condition: exp.Expr) -> dict[tuple[str, str], int]:
    return {
        column: places.last
        for column, places in bounds_of_condition(condition).items()
        if places.last is not None
    }


def _is_partitioned_within(relation: exp.Expr, rank: str, keys: Collection[str]) -> bool:
    """Whether a relation's rank is partitioned by a subset of these columns and no row is filtered, so each
    combination of their values has a row with rank 1."""
    query = relation.unnest()
    if not isinstance(relation, exp.Subquery) or not isinstance(query, exp.Select):
        return False
    if relation.args.get("pivots") or relation.alias_column_names:
        return False
    window = ranks.rankings(query).get(rank)
    if window is not None:
        if any(query.args.get(clause) for clause in ("limit", "offset")):
            return False
        return set(keys) <= {output_column_of(query, key) for key in window.args.get("partition_by") or ()}
    if len(relations(query)) != 1 or any(query.args.get(clause) for clause in _LEAVES_OUT_ROWS):
        return False
    below = relations(query)[0]
    if len(query.expressions) == 1 and isinstance(query.expressions[0], exp.Star):
        return not columns_left_out(query.expressions[0]) and _is_partitioned_within(below, rank, keys)
    named = {
        item.alias_or_name.lower(): item.unalias().name.lower()
        for item in query.expressions
        if isinstance(item.unalias(), exp.Column) and not item.is_star
    }
    if not {rank, *keys} <= named.keys():
        return False
    return _is_partitioned_within(below, named[rank], {named[key] for key in keys})


def _column_names(nodes: Collection[exp.Expr], alias: str) -> set[str]:
    """Returns the names of the columns that expressions over a relation read. For a field of a struct it is the struct's
    name. A subquery, whose columns are unknown, adds the name ""."""
    found = {""} if any(node.find(exp.Query) for node in nodes) else set()
    for node in nodes:
        for column in every(node, exp.Column):
            first, *others = (part.name.lower() for part in column.parts)
            found.add(others[0] if others and first == alias else first)
    return found
