"""Analyses the conditions of a join: which can move below it, and which columns are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from ..frontend import hints
from ..normalize import conditions
from ..normalize.asked_relations import conditions_with_stream_queries
from ..plan import column_origins
from ..plan.relation import Relation
from ..sql.clauses import filters, relations_with_joins, set_filters
from ..sql.dialect import is_read_within, qualifier_of, walk_same_query
from ..sql.nodes import every
from .from_items import FromItem, filter_relation


def move_table_conditions_below(select: exp.Select, read: Sequence[FromItem]) -> bool:
    """Moves conditions with subqueries (EXISTS, IN) over static tables into a query below, if FROM has a
    single relation; returns whether there were any. Changes the tree."""
    if len(read) != 1 or select.args.get("laterals"):
        return False
    below = [
        test for test in filters(select) if test.find(exp.Query) and not hints.reads_stream_or_operator(test)
    ]
    return _move_below(select, below, read[0].node, read[0].alias)


def move_inner_conditions_below(query: exp.Query) -> bool:
    """Moves conditions of an inner query over one stream into a query below it: those that have a subquery over a
    static table and read no rows of the outer query. Returns whether there were any. Changes the tree."""
    if not isinstance(query, exp.Select):
        return False
    sides = relations_with_joins(query)
    alias = sides[0][0].alias_or_name if len(sides) == 1 else ""
    if not alias or not hints.reads_stream_or_operator(sides[0][0]) or query.args.get("laterals"):
        return False
    below = [
        test
        for test in filters(query)
        if test.find(exp.Query)
        and not hints.reads_stream_or_operator(test)
        and all(
            qualifier_of(column) == alias.lower()
            for column in walk_same_query(test)
            if isinstance(column, exp.Column)
        )
        and all(len(column.parts) == 1 or is_read_within(query, column) for column in every(test, exp.Column))
    ]
    return _move_below(query, below, sides[0][0], alias)


def move_first_condition_below(select: exp.Select, read: Sequence[FromItem]) -> bool:
    """Moves the first of several conditions with subqueries over streams into a query below, so that each is
    a join with the rows it tests; returns whether there were several. Changes the tree."""
    if len(read) != 1 or select.args.get("laterals"):
        return False
    tests = conditions_with_stream_queries(select)
    return len(tests) > 1 and _move_below(select, tests[:1], read[0].node, read[0].alias)


def _move_below(select: exp.Select, tests: Sequence[exp.Expr], relation: exp.Expr, alias: str) -> bool:
    """Replaces a relation of a SELECT by a query with some of the SELECT's conditions; returns whether there
    are any. Changes the tree."""
    if not tests:
        return False
    moved = {id(test) for test in tests}
    set_filters(select, [test for test in filters(select) if id(test) not in moved])
    filter_relation(relation, alias, tests)
    return True


def compared_window_ends(
    equal: Sequence[Mapping[str, exp.Expr]], aliases: Sequence[str], relations: Sequence[Relation]
) -> tuple[str, ...]:
    """Returns the window end column of each relation if the join compares these columns for equality. Empty otherwise."""
    for each in equal:
        ends = [relation.ends for relation in relations]
        if len(each) == len(aliases) == len(relations) and all(
            end is not None and column_origins.value_of_column(each[alias], alias, {end: end})
            for alias, end in zip(aliases, ends, strict=True)
        ):
            return tuple(map(str, ends))
    return ()


def move_filters_below(select: exp.Select, read: Sequence[FromItem]) -> bool:
    """Moves conditions of an inner join that read one relation's columns below the join, so that rows that
    fail them aren't stored; returns whether there were any. Changes the tree."""
    if not all(conditions.is_inner_join(each.join) for each in read):
        return False
    aliases = {each.alias.lower() for each in read}
    found: dict[str, list[exp.Expr]] = {}

    above: list[exp.Expr] = []
    for test in filters(select):
        of = {column.table.lower() for column in every(test, exp.Column)}
        if len(of) == 1 and of <= aliases and conditions.is_repeatable(test) and not test.find(exp.Query):
            found.setdefault(of.pop(), []).append(test)
        else:
            above.append(test)
    if not found:
        return False
    set_filters(select, above)
    for each in read:
        if tests := found.get(each.alias.lower()):
            filter_relation(each.node, each.alias, tests)
    return True
