"""Finds the few values that WHERE leaves a column: from IN, from OR between equalities, and from AND with any
condition.

>>> from ..sql.dialect import parse, sql
>>> select = parse("select c, d from t where (c = 'A' or c in ('B', NULL) or c is null) and d > 3")
>>> [sql(value) for value in possible_values(select, exp.column("c"))]
["'A'", "'B'", 'NULL']
>>> possible_values(select, exp.column("d")) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ..errors import QueryError
from ..sql.dialect import canonical, sql, unambiguous_names
from ..sql.nodes import every

IsColumn = Callable[[exp.Expr], bool]
STRING = "string"


def possible_values(select: exp.Select, key: exp.Expr) -> tuple[exp.Expr, ...] | None:
    """Returns the literals that a group key can equal by WHERE, in order of appearance; None if they are unknown.

    Raises:
        QueryError: the literals have several types, which Spark compares by rules that differ.
    """
    where = select.args.get("where")
    found = None if where is None else _values_by_condition(where.this, _key_predicate(key, select))
    if found is None:
        return None
    distinct = tuple({sql(literal): literal for literal in found}.values())
    kinds = {kind for literal in distinct if (kind := _literal_type(literal))}
    if len(kinds) > 1:
        raise QueryError(
            f"The values {', '.join(map(sql, distinct))} are of several types; write all of them in one type."
        )
    return distinct


def number_of_value(key: exp.Expr, values: Sequence[exp.Expr]) -> exp.Case:
    """Returns SQL for the position of a key's value in a list of literals, from 0; NULL if the list doesn't have it.

    The SQL raises an error if the key is a string and the literals aren't.
    """
    made = exp.Case()
    if not all(is_string_literal(literal) or isinstance(literal, exp.Null) for literal in values):
        # '1' and '01' both equal 1 and are two groups.
        sentence = f"enum_distinct: {sql(key)} is a string, so write its values as strings."
        is_string = exp.Like(this=exp.func("typeof", key.copy()), expression=exp.Literal.string("string%"))
        made = made.when(is_string, exp.func("raise_error", exp.Literal.string(sentence)))
    for number, literal in enumerate(values):
        null = isinstance(literal, exp.Null)
        test = (exp.Is if null else exp.EQ)(this=key.copy(), expression=literal.copy())
        made = made.when(test, exp.Literal.number(number))
    return made


def no_values_error(keys: Sequence[exp.Expr], select: exp.Select) -> QueryError:
    """Returns the error that says why no key of a query has a list of values."""
    where = select.args.get("where")
    tests = [] if where is None else list(every(where, exp.In))
    for is_key in (_key_predicate(key, select) for key in keys):
        for test in tests:
            if is_key(test.this) and _values_of_in(test) is None:
                return QueryError(
                    f"'{sql(test)}' lists values that are not literals, so each can't be given a bit; write the "
                    "values themselves."
                )
    listed = ", ".join(map(sql, keys)) or "there is none"
    return QueryError(
        f"WHERE limits no group key ({listed}) to a list of values, and no two FILTERs count the same column, so there "
        "is nothing to enumerate. Add a filter such as channel IN ('A', 'B'), or leave enum_distinct out."
    )


def _key_predicate(key: exp.Expr, select: exp.Select) -> IsColumn:
    """Returns a predicate for expressions in WHERE that equal a group key."""
    same = unambiguous_names(select, "where")
    wanted = canonical(key, same)
    return lambda node: canonical(node, same) == wanted


def _values_by_condition(node: exp.Expr, is_column: IsColumn) -> list[exp.Expr] | None:
    """Returns the literals that a column has where a condition holds; None if it may have others."""
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        sides = [_values_by_condition(side, is_column) for side in node.flatten()]
        known = [side for side in sides if side is not None]
        if isinstance(node, exp.And):
            # Both sides hold for all rows, so one list is enough: the shorter one.
            return min(known, key=len, default=None)
        return [literal for side in known for literal in side] if len(known) == len(sides) else None
    if isinstance(node, exp.In) and is_column(node.this):
        return _values_of_in(node)
    if isinstance(node, exp.Is) and is_column(node.this) and isinstance(node.expression, exp.Null):
        return [node.expression]
    return _values_of_equals(node, is_column) if isinstance(node, exp.EQ | exp.NullSafeEQ) else None


def _values_of_equals(node: exp.EQ | exp.NullSafeEQ, is_column: IsColumn) -> list[exp.Expr] | None:
    sides = (node.this.unnest(), node.expression.unnest())
    for one, other in (sides, sides[::-1]):
        if is_column(one) and _is_literal(other):
            # `= NULL` is never true, `<=> NULL` can be.
            never = isinstance(node, exp.EQ) and isinstance(other, exp.Null)
            return [] if never else [other]
    return None


def _values_of_in(test: exp.In) -> list[exp.Expr] | None:
    listed = [item.unnest() for item in test.expressions]
    if test.args.get("query") or test.args.get("unnest") or not listed or not all(map(_is_literal, listed)):
        return None
    return [item for item in listed if not isinstance(item, exp.Null)]


def is_string_literal(literal: exp.Expr) -> bool:
    return _literal_type(literal) == STRING


def _is_literal(node: exp.Expr) -> bool:
    return isinstance(node, exp.Null) or _literal_type(node) is not None


def _literal_type(node: exp.Expr) -> str | None:
    """Returns the type of a literal; None for NULL and for anything else. Floating-point numbers don't count
    as literals, since two values of a column may equal the same one."""
    if isinstance(node, exp.Literal):
        if node.is_string:
            return STRING
        return "number" if node.name.replace(".", "", 1).isdigit() else None
    if isinstance(node, exp.Neg):
        return "number" if _literal_type(node.this) == "number" else None
    if isinstance(node, exp.Boolean):
        return "boolean"
    if isinstance(node, exp.Cast) and _literal_type(node.this) in (STRING, "number"):
        if node.to.is_type(*exp.DataType.TEXT_TYPES):
            return STRING
        return None if node.to.is_type(*exp.DataType.FLOAT_TYPES) else canonical(node.to)
    return None
