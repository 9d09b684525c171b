"""What the conditions of a join say: which go below it, which columns are equal, what tells its rows apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from ..normalize import conditions
from ..normalize.asked_relations import tests_with_queries
from ..normalize.compared_types import is_mixed, is_of_mixed_types
from ..plan import column_origins
from ..plan.relation import Relation
from ..sql.clauses import conjuncts, filters, joined, only_asks, set_filters
from ..sql.dialect import is_of, relation_of, walk_same_query
from ..sql.nodes import every
from .from_items import FromItem, filter_below, reads_stream
from .projections import multiplies


def put_tests_of_tables_below(select: exp.Select, read: Sequence[FromItem]) -> bool:
    """Puts the conditions that ask tables that are no streams (EXISTS, IN) into a query below, where one relation alone
    stands in FROM; whether there were any. Changes the tree."""
    if len(read) != 1 or select.args.get("laterals"):
        return False
    below = [test for test in filters(select) if test.find(exp.Query) and not reads_stream(test)]
    return _put_below(select, below, read[0].node, read[0].alias)


def put_tests_below_inner(query: exp.Query) -> bool:
    """The same of a query in an expression: the conditions on its own rows alone, where it reads one stream."""
    if not isinstance(query, exp.Select):
        return False
    sides = joined(query)
    alias = sides[0][0].alias_or_name if len(sides) == 1 else ""
    if not alias or not reads_stream(sides[0][0]) or query.args.get("laterals"):
        return False
    below = [
        test
        for test in filters(query)
        if test.find(exp.Query)
        and not reads_stream(test)
        and all(
            relation_of(column) == alias.lower()
            for column in walk_same_query(test)
            if isinstance(column, exp.Column)
        )
        and all(len(column.parts) == 1 or is_of(query, column) for column in every(test, exp.Column))
    ]
    return _put_below(query, below, sides[0][0], alias)


def put_test_below(select: exp.Select, read: Sequence[FromItem]) -> bool:
    """Puts the first of several conditions that ask streams into a query below, so that each meets the rows that it is
    about; whether there were several. Changes the tree."""
    if len(read) != 1 or select.args.get("laterals"):
        return False
    tests = tests_with_queries(select)
    return len(tests) > 1 and _put_below(select, tests[:1], read[0].node, read[0].alias)


def _put_below(select: exp.Select, tests: Sequence[exp.Expr], relation: exp.Expr, alias: str) -> bool:
    """Puts some of a SELECT's conditions into a query below, in the place of one of its relations; whether there are any.
    Changes the tree."""
    if not tests:
        return False
    moved = {id(test) for test in tests}
    set_filters(select, [test for test in filters(select) if id(test) not in moved])
    filter_below(relation, alias, tests)
    return True


def equal_ends(
    equal: Sequence[Mapping[str, exp.Expr]], aliases: Sequence[str], relations: Sequence[Relation]
) -> tuple[str, ...]:
    """The columns with the windows' ends of relations, where rows meet only if these are equal."""
    for each in equal:
        ends = [relation.ends for relation in relations]
        if len(each) == len(aliases) == len(relations) and all(
            end is not None and column_origins.carried(each[alias], alias, {end: end})
            for alias, end in zip(aliases, ends, strict=True)
        ):
            return tuple(map(str, ends))
    return ()


def join_keys(
    select: exp.Select,
    streams: Sequence[FromItem],
    outputs: column_origins.Outputs,
) -> tuple[frozenset[str], ...]:
    """What tells rows of a join apart: the keys of all sides, but of those of which a row meets one at most."""
    if multiplies(select):
        return ()
    found: set[str] = set()
    met: set[str] = set()
    inner = all(conditions.is_inner(each.join) for each in streams)
    for number, each in enumerate(streams):
        assert each.operator is not None
        if each.join is not None and only_asks(each.join):
            continue
        key = each.operator.relation.key
        names = None if key is None else [outputs.of.get((each.alias.lower(), name)) for name in key]
        if names is None or None in names:
            # Of inner joins the order is no matter.
            others = {other.alias.lower() for other in (streams if inner else streams[:number])}
            others -= {each.alias.lower(), *met}
            if any(_is_equated(own, each, select, others, inner) for own in each.operator.relation.keys):
                met.add(each.alias.lower())  # a row meets one of its at most
                continue
            return ()
        found |= {name for name in names if name is not None}
    return (frozenset(found),)


def put_filters_below(select: exp.Select, read: Sequence[FromItem]) -> bool:
    """Puts conditions of an inner join on one relation's columns alone below it, so that rows which don't pass aren't kept;
    whether there were any. Changes the tree."""
    if not all(conditions.is_inner(each.join) for each in read):
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
            filter_below(each.node, each.alias, tests)
    return True


def _is_equated(
    key: frozenset[str], each: FromItem, select: exp.Select, others: Collection[str], inner: bool
) -> bool:
    """Whether all columns that tell a relation's rows apart equal something of others, so that a row meets one of its at
    most: by what its own join says, or, where all joins are inner, anything."""
    if not inner and (each.join is None or each.join.side not in ("", "LEFT")):
        return False
    joins = (select.args.get("joins") or ()) if inner else [each.join]
    tests = [test for join in joins if join is not None for test in conjuncts(join.args.get("on"))]
    tests += filters(select) if inner else []
    using = each.join.args.get("using") if each.join is not None else None
    told = {name.name.lower() for name in using or () if not is_of_mixed_types(name)}
    for test in tests:
        if not isinstance(test, exp.EQ | exp.NullSafeEQ) or is_mixed(test.this, test.expression):
            continue
        for own, other in ((test.this, test.expression), (test.expression, test.this)):
            column = own.unnest()
            of = {found.table.lower() for found in every(other, exp.Column)}
            if (
                isinstance(column, exp.Column)
                and column.table.lower() == each.alias.lower()
                and bool(of)
                and of <= {*others}
            ):
                told.add(column.name.lower())
    return key <= told
