"""Notes Spark's types of compared expressions: equal values of two types may be different keys.

The strings '1' and '01' both equal the number 1, but are two key values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from sqlglot import exp

from ..aggregates.types import types_query
from ..errors import QueryError
from ..sql.clauses import conjuncts, filters, first_aggregate, relations, relations_with_joins
from ..sql.dialect import qualifier_of, relation_names, select_over_same_relations, sql
from ..sql.functions import QueryRunner
from ..sql.nodes import every
from .names.qualified import select_around
from .names.stars import column_types_of

_TYPE, _MIXED = "type_of_compared", "of_mixed_types"
_EXACT = re.compile(r"(?:TINYINT|SMALLINT|INT|BIGINT|DECIMAL\b.*)")
_TEXT = re.compile(r"(?:STRING|VARCHAR|CHAR)\b.*")


def note_compared_types(selects: Iterable[exp.Select], ask: QueryRunner | None) -> tuple[str, ...]:
    """Notes the types of expressions that SELECTs equate. Changes no text.

    Args:
        selects: SELECTs with qualified columns (`qualified`).

    Returns:
        Columns whose type matters and is unknown because there is no session.
    """
    session = None if ask is None else _SessionTypes(ask)
    unknown: dict[str, None] = {}
    for select in selects:
        if session is None:
            is_one = first_aggregate(select) is not None or select.args.get("limit")
            if is_one and select_around(select) is not None:
                nodes = (node for node, _ in _compared_expressions(select))
                unknown |= dict.fromkeys(each.name for node in nodes for each in every(node, exp.Column))
            continue
        for node, scope in _compared_expressions(select):
            note_type(node, session.type_of(node, scope))
        for asked in every(select, exp.In):
            _mark_mixed_branches(asked)
        for name, sides in _using_names(select):
            kinds = [session.column_type(side, name.name) for side in sides]
            name.meta[_MIXED] = len({_is_text_type(kind) for kind in kinds if kind is not None}) > 1
    return tuple(unknown)


def note_type(node: exp.Expr, kind: str | None) -> None:
    """Notes the type of an expression. None if it is unknown."""
    for each in {id(node): node, id(node.unnest()): node.unnest()}.values():
        each.meta[_TYPE] = kind


def have_same_type(one: exp.Expr, other: exp.Expr, unasked: bool = False) -> bool:
    """Whether two expressions have one type, so that equal values are the same key. Exact numbers are one type.

    Args:
        unasked: the result without a session (such a plan is only displayed).

    >>> one, other = exp.column("a"), exp.column("b")
    >>> note_type(one, "INT")
    >>> note_type(other, "BIGINT")
    >>> have_same_type(one, other)
    True
    >>> note_type(other, "DOUBLE")
    >>> have_same_type(one, other)
    False
    """
    if _TYPE not in one.meta and _TYPE not in other.meta:
        return unasked
    kinds = [each.meta.get(_TYPE) for each in (one, other)]
    return (
        None not in kinds and len({"exact" if _EXACT.fullmatch(str(each)) else each for each in kinds}) == 1
    )


def equated_sides(test: exp.Expr, around: Collection[int]) -> tuple[exp.Expr, exp.Expr] | None:
    """Returns the two sides of an equality between the query's own rows and the outer row, if they have one type.
    None for other tests.

    Args:
        around: identities of the outer row's columns.
    """
    if not isinstance(test, exp.EQ) or not have_same_type(test.this, test.expression, unasked=True):
        return None
    for own, other in ((test.this, test.expression), (test.expression, test.this)):
        columns = [{id(column) in around for column in every(side, exp.Column)} for side in (own, other)]
        if columns == [{False}, {True}]:
            return own, other
    return None


def split_correlation(
    query: exp.Select, around: Collection[int]
) -> tuple[list[exp.Expr], list[tuple[exp.Expr, exp.Expr]]] | None:
    """Splits the WHERE of a correlated query into the conditions on its own rows and the sides of those that equate its
    rows with the outer row (`equated_sides`). None if it is correlated in another way.

    Args:
        around: identities of the outer row's columns.
    """
    own: list[exp.Expr] = []
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    found = 0
    for test in filters(query):
        columns = sum(id(column) in around for column in every(test, exp.Column))
        found += columns
        if not columns:
            own.append(test)
        elif (sides := equated_sides(test, around)) is not None:
            pairs.append(sides)
        else:
            return None
    return (own, pairs) if found == len(around) else None


def have_mixed_types(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether one of two expressions is text, or of unknown type, and the other has another type. Then values that Spark
    finds equal may be different keys. False without a session."""
    kinds = [each.meta.get(_TYPE, "") for each in (one, other)]
    return "" not in kinds and (None in kinds or _is_text_type(kinds[0]) != _is_text_type(kinds[1]))


def compares_mixed_types(query: exp.Expr) -> bool:
    """Whether a query compares text with another type."""
    pairs = [(test.this, test.expression) for test in every(query, exp.EQ, exp.NullSafeEQ)]
    for asked in every(query, exp.In):
        inner = asked.args["query"].unnest() if asked.args.get("query") is not None else None
        if isinstance(inner, exp.Select) and inner.expressions:
            pairs.append((asked.this, inner.expressions[0].unalias()))
    names = (name for join in every(query, exp.Join) for name in join.args.get("using") or ())
    return any(have_mixed_types(one, other) for one, other in pairs) or any(map(has_mixed_types, names))


def has_mixed_types(name: exp.Expr) -> bool:
    """Whether a column in USING has text on one side and another type on the other."""
    return bool(name.meta.get(_MIXED))


def _is_text_type(kind: object) -> bool:
    return _TEXT.fullmatch(str(kind)) is not None


class _SessionTypes:
    """Types of relations' columns, from a session."""

    def __init__(self, ask: QueryRunner) -> None:
        self._ask = ask
        self._columns: dict[int, dict[str, str | None]] = {}

    def type_of(self, node: exp.Expr, select: exp.Select) -> str | None:
        """Returns the type of an expression over one relation of a SELECT, or of one around it. None if unknown."""
        if node.find(exp.AggFunc, exp.Window):
            return None  # depends on many rows
        relation = _only_relation(node, select)
        if relation is None:
            return self._type_over_several_relations(node, select)
        if isinstance(node, exp.Column) and len(node.parts) <= 2:
            return self.column_type(relation, node.name)
        return self._type_over_rows(node, exp.Select().from_(relation.copy(), copy=False))

    def column_type(self, relation: exp.Expr, column: str) -> str | None:
        """Returns the type of a column. None if unknown."""
        if id(relation) not in self._columns:
            try:
                found = column_types_of(relation, self._ask) or {}
            except QueryError:
                found = {}  # planning reports what is wrong with it
            self._columns[id(relation)] = {name.lower(): _type_to_note(kind) for name, kind in found.items()}
        return self._columns[id(relation)].get(column.lower())

    def _type_over_several_relations(self, node: exp.Expr, select: exp.Select) -> str | None:
        names = {qualifier_of(column) for column in every(node, exp.Column)}
        scope = next((each for each in _scopes(select) if names <= relation_names(each)), None)
        return (
            None
            if scope is None or node.find(exp.Query)
            else self._type_over_rows(node, select_over_same_relations(scope))
        )

    def _type_over_rows(self, node: exp.Expr, rows: exp.Select) -> str | None:
        try:
            (kind,) = self._ask(types_query(rows, [f"any_value({sql(node)})"]))
        except QueryError:
            return None
        return _type_to_note(str(kind))


def _type_to_note(kind: str) -> str | None:
    """Returns a type's text for notes. None for types whose equal values may differ: void, and collated strings."""
    return None if kind == "void" or " collate " in kind else kind.upper()


def _compared_expressions(select: exp.Select) -> Iterator[tuple[exp.Expr, exp.Select]]:
    """Yields the expressions of different relations that a SELECT equates, each with the SELECT it is in."""
    tests = filters(select)
    for join in select.args.get("joins") or ():
        tests += conjuncts(join.args.get("on"))
    for test in tests:
        if isinstance(test, exp.EQ | exp.NullSafeEQ):
            sides = (test.this, test.expression)
            of = [{qualifier_of(column) for column in every(side, exp.Column)} for side in sides]
            if all(of) and of[0] != of[1] and not test.find(exp.Query):
                yield from ((side, select) for side in sides)
    for asked in every(select, exp.In):
        if asked.args.get("query") is not None and asked.find_ancestor(exp.Select) is select:
            branches = _branches(asked.args["query"])
            if all(len(each.expressions) == 1 for each in branches):
                yield asked.this, select
                # Set operations take their names from the first branch.
                yield from ((each.expressions[0].unalias(), each) for each in reversed(branches))


def _mark_mixed_branches(membership: exp.In) -> None:
    """Marks the first branch of a set operation in IN as having an unknown type if a branch is text and another
    isn't."""
    selects = _branches(membership.args["query"]) if membership.args.get("query") else []
    items = [each.expressions[0].unalias() for each in selects]
    kinds = [each.meta[_TYPE] for each in items if _TYPE in each.meta]
    if len({None if kind is None else _is_text_type(kind) for kind in kinds}) > 1:
        note_type(items[0], None)


def _branches(query: exp.Expr) -> list[exp.Select]:
    """The SELECTs of a query and its set operations."""
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        return [*_branches(query.this), *_branches(query.expression)]
    return [query] if isinstance(query, exp.Select) else []


def _using_names(select: exp.Select) -> Iterator[tuple[exp.Expr, list[exp.Expr]]]:
    """Yields the names in USING, each with the relations up to that join."""
    sides = relations_with_joins(select)
    for place, (node, join) in enumerate(sides):
        for name in (join.args.get("using") or ()) if join is not None else ():
            yield name, [*(each for each, _ in sides[:place]), node]


def _only_relation(node: exp.Expr, select: exp.Select) -> exp.Expr | None:
    """Returns the relation that all columns of an expression belong to. None if there are several or none."""
    names = {qualifier_of(column) for column in every(node, exp.Column)}
    if len(names) != 1 or node.find(exp.Query):
        return None
    (name,) = names
    if not name:
        sides = relations(select)
        return sides[0] if len(sides) == 1 else None
    around = (each for scope in _scopes(select) for each in relations(scope))
    return next((each for each in around if each.alias_or_name.lower() == name), None)


def _scopes(select: exp.Select) -> Iterator[exp.Select]:
    """Yields a SELECT and those whose columns its expressions may read, innermost first."""
    scope: exp.Select | None = select
    while scope is not None:
        yield scope
        scope = select_around(scope)
