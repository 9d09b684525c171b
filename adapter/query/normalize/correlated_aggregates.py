"""Rewrites correlated scalar aggregates as joins with groups. An aggregate per group is updated incrementally; a
correlated subquery would be recomputed from its rows.

>>> from ..sql.dialect import parse, sql
>>> from .compared_types import note_type
>>> def told(text):
...     tree = parse(text)
...     for column in tree.find_all(exp.Column):
...         note_type(column, "bigint")
...     return tree
>>> tree = told("select e.k from e where e.v > (select 2 * avg(o.v) from o where o.k = e.k and o.w > 1)")
>>> rewrite_as_joins(tree, list(tree.find_all(exp.Select))[1:])
True
>>> print(sql(tree))
SELECT e.k FROM e JOIN (SELECT o.k AS `k_2`, AVG(o.v) AS `avg_v` FROM o WHERE o.w > 1 GROUP BY o.k) AS groups_of_o \
ON groups_of_o.`k_2` = e.k WHERE e.v > (2 * groups_of_o.`avg_v`)
>>> tree = told("select e.k, (select count(*) from o where o.k = e.k) as n from e")
>>> rewrite_as_joins(tree, list(tree.find_all(exp.Select))[1:])
True
>>> print(sql(tree))
SELECT e.k, (COALESCE(groups_of_o.`count`, 0)) AS n FROM e LEFT JOIN (SELECT o.k AS `k_2`, COUNT(*) AS `count` FROM o \
GROUP BY o.k) AS groups_of_o ON groups_of_o.`k_2` = e.k
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ..sql.clauses import filters, is_semi_or_anti, relations_with_joins, set_filters
from ..sql.dialect import correlated_columns, qualifier_of, sql, walk_same_query
from ..sql.nodes import every, quoted_column
from .compared_types import have_same_type, split_correlation

_CLAUSES = {"kind", "expressions", "from_", "from", "where", "hint"}
AGGREGATES = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count)
"""Aggregates that are NULL over no rows, or 0 (COUNT)."""
_ARITHMETIC = (exp.Mul, exp.Add, exp.Sub, exp.Div, exp.Neg)
_STRICT = (*_ARITHMETIC, exp.Paren, exp.Subquery, exp.Cast, exp.Literal, exp.Column)
"""Expressions that are NULL if an operand is."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


@dataclass(frozen=True)
class _Correlated:
    """The parts of a correlated scalar aggregate."""

    keys: Sequence[exp.Expr]
    """Expressions over its rows that conditions equate with expressions over the outer row."""
    equal: Sequence[exp.Expr]
    """The expression over the outer row for each of `keys`."""
    own: Sequence[exp.Expr]
    """Its other conditions, on its own rows."""
    aggregates: Sequence[exp.Expr]


def rewrite_as_joins(select: exp.Select, inner: Sequence[exp.Query]) -> bool:
    """Rewrites correlated scalar aggregates as joins. Changes the tree.

    Args:
        select: a SELECT without groups and ranks.
        inner: queries in its expressions.

    Returns:
        Whether one was rewritten.
    """
    around = {node.alias_or_name.lower() for node, _ in relations_with_joins(select)}
    names = {each.name.lower() for each in every(select, exp.Identifier)}
    found = [
        (query, parts)
        for query in inner
        if not _is_in_join(query, select) and (parts := _split_aggregate(query, around)) is not None
    ]
    if not found or not _qualify_stars(select):
        return False
    for query, parts in found:
        assert isinstance(query, exp.Select)
        _join_groups(select, query, parts, names)
    return True


def _qualify_stars(select: exp.Select) -> bool:
    """Qualifies the stars of a SELECT, so that they don't include the columns of a new join. Returns whether that is
    possible. Changes the tree."""
    stars = [item for item in select.expressions if isinstance(item, exp.Star)]
    calls = (item for item in select.expressions if not isinstance(item, exp.Column))
    inside = any(
        isinstance(node, exp.Star) and node is not call for call in calls for node in walk_same_query(call)
    )
    if not stars and not inside:
        return True
    sides = relations_with_joins(select)
    joins = select.args.get("joins") or ()
    merges = any(join.args.get("using") or join.args.get("method") for join in joins)
    names = [node.alias_or_name for node, join in sides if join is None or not is_semi_or_anti(join)]
    hides = len(names) > 1 and any(star != exp.Star() for star in stars)
    if inside or merges or hides or not all(names) or select.args.get("laterals"):
        return False
    for star in stars:
        star.replace([exp.Column(this=star.copy(), table=exp.to_identifier(name)) for name in names])
    return True


def _new_name(name: str, taken: set[str]) -> str:
    """Returns a name that isn't taken, and adds it to the taken ones."""
    names = (name, *(f"{name}_{number}" for number in range(2, 1000)))
    found = next(each for each in names if each.lower() not in taken)
    taken.add(found.lower())
    return found


def _is_in_join(query: exp.Query, select: exp.Select) -> bool:
    join = query.find_ancestor(exp.Join)
    return join is not None and join.find_ancestor(exp.Select) is select


def _split_aggregate(query: exp.Query, around: set[str]) -> _Correlated | None:
    """Splits a correlated scalar aggregate. Returns None if it has another form, or an unqualified column."""
    place = query.parent
    if not isinstance(query, exp.Select) or not isinstance(place, exp.Subquery):
        return None
    if isinstance(place.parent, exp.In | exp.Exists | exp.Any | exp.All | exp.From | exp.Join | exp.Lateral):
        return None
    if {name for name, value in query.args.items() if value} - _CLAUSES or len(query.expressions) != 1:
        return None
    read = relations_with_joins(query)
    alias = read[0][0].alias_or_name.lower() if len(read) == 1 else ""
    if not alias or alias in around:
        return None
    below = read[0][0].unnest()
    if isinstance(below, exp.Query) and correlated_columns(below):
        return None
    item = query.expressions[0].unalias()
    aggregates = [each for each in every(item, exp.AggFunc) if each.find_ancestor(exp.AggFunc) is None]
    in_aggregates = {id(column) for each in aggregates for column in every(each, exp.Column)}
    columns = list(every(item, exp.Column))
    if (
        not aggregates
        or not all(type(each) in AGGREGATES for each in aggregates)
        or item.find(exp.Query, exp.Window, exp.Filter, exp.WithinGroup)
        or not all(id(column) in in_aggregates and qualifier_of(column) == alias for column in columns)
    ):
        return None
    tests = filters(query)
    owners = {qualifier_of(column) for test in tests for column in every(test, exp.Column)}
    split = split_correlation(query, {id(column) for column in correlated_columns(query)})
    if split is None or not owners <= {alias, *around} or any(test.find(exp.Query) for test in tests):
        return None
    own, pairs = split
    # With different types, several groups may equal one value.
    if not pairs or not all(have_same_type(*pair) for pair in pairs):
        return None
    return _Correlated([key for key, _ in pairs], [other for _, other in pairs], own, aggregates)


def _join_groups(select: exp.Select, query: exp.Select, found: _Correlated, taken: set[str]) -> None:
    """Replaces a correlated scalar aggregate by a join with groups. Changes the tree.

    Args:
        select: the SELECT around it.
        query: the aggregate's query.
        found: its parts.
        taken: names that are used; those of the join are added.
    """
    alias = _new_name(f"groups_of_{relations_with_joins(query)[0][0].alias_or_name}", taken)
    # An unqualified name could be a select alias, or a USING column.
    kept = [*found.keys, *found.aggregates]
    names = [_new_name(_column_name(each), taken) for each in kept]
    groups = query.copy()
    items = [exp.alias_(each.copy(), name, quoted=True) for each, name in zip(kept, names, strict=True)]
    groups.set("expressions", items)
    set_filters(groups, found.own)
    groups.set("group", exp.Group(expressions=[key.copy() for key in found.keys]))
    is_needed = _drops_rows_without_group(select, query, found)

    on = [
        exp.EQ(this=quoted_column(name, alias), expression=each.copy())
        for name, each in zip(names, found.equal, strict=False)
    ]
    for name, each in zip(names[len(found.keys) :], found.aggregates, strict=True):
        value: exp.Expr = quoted_column(name, alias)
        if isinstance(each, exp.Count):
            value = exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])
        each.replace(value)
    assert query.parent is not None
    query.parent.replace(exp.paren(query.expressions[0].unalias()))
    relation = groups.subquery(alias, copy=False)
    join = exp.Join(this=relation, side="" if is_needed else "LEFT", on=exp.and_(*on, copy=False))
    select.append("joins", join)


def _column_name(node: exp.Expr) -> str:
    """Makes a column name from a key or an aggregate.

    >>> from ..sql.dialect import parse
    >>> [_column_name(each) for each in parse("select o.k, count(*), sum(distinct o.v * 2)").expressions]
    ['k', 'count', 'sum_distinct_v_2']
    """
    copy = node.copy()
    for column in every(copy, exp.Column):
        column.set("table", None)
    return re.sub(r"\W+", "_", sql(copy)).strip("_").lower()[:40]


def _drops_rows_without_group(select: exp.Select, query: exp.Select, found: _Correlated) -> bool:
    """Whether WHERE drops rows without a group: a comparison in it is NULL for them."""
    if any(isinstance(each, exp.Count) for each in found.aggregates):
        return False
    for test in filters(select):
        if any(each is query for each in every(test, exp.Query)):
            node = query.expressions[0].unalias()
            inside = (each for each in node.walk(prune=lambda each: isinstance(each, exp.AggFunc)))
            above, strict = query.parent, all(isinstance(each, (*_STRICT, exp.AggFunc)) for each in inside)
            while above is not test and above is not None:
                strict = strict and isinstance(above, _STRICT)
                above = above.parent
            return strict and isinstance(test, _COMPARISONS)
    return False
