"""Computes which ranks a condition lets through, for any form of condition.

>>> from ...sql.dialect import parse
>>> def places(condition):
...     found = bounds_of_condition(parse(f"select 1 where {condition}").args["where"].this)
...     return {name: (each.first, each.last) for (_, name), each in found.items()}
>>> places("1 + rn <= 3"), places("rn - 1 between 0 and 2L"), places("not (rn > 3 or x)")
({'rn': (None, 2)}, {'rn': (1, 3)}, {'rn': (None, 3)})
>>> places("rn <=> 1"), places("rn < 3.5"), places("rn <= 3 or x"), places("rn <= 1 or coalesce(rn = 4, false)")
({'rn': (1, 1)}, {'rn': (None, 3)}, {}, {'rn': (None, 4)})
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from sqlglot import exp

from ...sql.clauses import branches

_INVERSE: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.NEQ: exp.EQ,
}
_WHOLE: Mapping[exp.DType, int] = {
    exp.DType.TINYINT: 2**7,
    exp.DType.SMALLINT: 2**15,
    exp.DType.INT: 2**31,
    exp.DType.BIGINT: 2**63,
}
"""Integer types and the first value that is too large."""
_LARGEST = 10**9
"""Limit for constants, so that adding a rank doesn't exceed INT."""
_SLACK = Fraction(1, 10**6)
"""Possible error of a decimal fraction as DOUBLE."""
_PLACES_OF_FRACTIONS = 2**20

Column = tuple[str, str]
"""A column: its qualifier (or "") and its name, in lower case."""


@dataclass(frozen=True)
class RankBounds:
    """Lower and upper bound of the ranks that a condition lets through (it may let through fewer). None for no bound."""

    first: int | None
    last: int | None

    def either(self, other: RankBounds) -> RankBounds:
        """Returns the ranks that at least one of two conditions lets through."""
        first = None if self.first is None or other.first is None else min(self.first, other.first)
        last = None if self.last is None or other.last is None else max(self.last, other.last)
        return RankBounds(first, last)

    def both(self, other: RankBounds) -> RankBounds:
        """Returns the ranks that both conditions let through."""
        return RankBounds(
            max((each for each in (self.first, other.first) if each is not None), default=None),
            min((each for each in (self.last, other.last) if each is not None), default=None),
        )


_Found = dict[Column, RankBounds] | None
"""Bounds of columns where a condition holds. None if it never holds."""


def bounds_of_condition(condition: exp.Expr) -> dict[Column, RankBounds]:
    """Returns the columns that a condition bounds. Where it is TRUE, they aren't NULL and are within these bounds."""
    return _bounds_where(condition, True) or {}


def _bounds_where(condition: exp.Expr, holds: bool) -> _Found:
    """Returns the bounds where a condition is TRUE, or FALSE. (Where it is NULL, it is neither.)"""
    condition = condition.unnest()
    if (meant := _unwrap(condition)) is not None:
        inner, value = meant
        return _bounds_where(inner, value) if holds else {}
    match condition:
        case exp.Boolean():
            return {} if bool(condition.this) == holds else None
        case exp.Null():
            return None
        case exp.Not():
            return _bounds_where(condition.this, not holds)
        case exp.And() | exp.Or():
            sides = [_bounds_where(side, holds) for side in condition.flatten()]
            return _bounds_of_and(sides) if isinstance(condition, exp.And) == holds else _bounds_of_or(sides)
        case exp.Coalesce():
            given = (condition.this, *condition.expressions)
            return _bounds_of_or([_bounds_where(each, holds) for each in given])
        case exp.Case() | exp.If():
            return _bounds_of_or(_branch_bounds(condition, holds))
        case exp.Between():
            limits = ((exp.GTE, condition.args["low"]), (exp.LTE, condition.args["high"]))
            sides = [_bounds_of_comparison(kind, condition.this, limit, holds) for kind, limit in limits]
            return _bounds_of_and(sides) if holds else _bounds_of_or(sides)
        case exp.In() if holds and condition.expressions:
            values = condition.expressions
            return _bounds_of_or([_bounds_of_sides(exp.EQ, condition.this, each) for each in values])
        case exp.EQ() | exp.NullSafeEQ():
            return _bounds_of_comparison(exp.EQ, condition.this, condition.expression, holds)
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.NEQ():
            return _bounds_of_comparison(type(condition), condition.this, condition.expression, holds)
    return {}


def _bounds_of_comparison(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, holds: bool) -> _Found:
    found = kind if holds else _INVERSE.get(kind)
    return {} if found is None else _bounds_of_sides(found, left, right)


def _unwrap(condition: exp.Expr) -> tuple[exp.Expr, bool] | None:
    """Returns the condition that another one wraps, and the value it requires: `(rn < 3) IS TRUE`, `true = (rn < 3)`."""
    if not isinstance(condition, exp.Is | exp.EQ | exp.NullSafeEQ):
        return None
    sides = (condition.this.unnest(), condition.expression.unnest())
    for value, inner in (sides, sides[::-1]):
        if isinstance(value, exp.Boolean):
            return inner, bool(value.this)
    return None


def _branch_bounds(case: exp.Case | exp.If, holds: bool) -> list[_Found]:
    """Returns the bounds in each branch of a CASE or IF with this value. Earlier branches that aren't TRUE imply
    nothing, because they may be NULL."""
    tests, default = branches(case)
    value = case.this if isinstance(case, exp.Case) else None
    found = []
    for branch in tests:
        test = {} if value is not None else _bounds_where(branch.this, True)
        found.append(_bounds_of_and([test, _bounds_where(branch.args["true"], holds)]))
    return [*found, None if default is None else _bounds_where(default, holds)]


def _bounds_of_and(sides: Sequence[_Found]) -> _Found:
    found: dict[Column, RankBounds] = {}
    for side in sides:
        if side is None:
            return None
        for column, places in side.items():
            found[column] = places.both(found.get(column, RankBounds(None, None)))
    return found


def _bounds_of_or(sides: Sequence[_Found]) -> _Found:
    possible = [side for side in sides if side is not None]
    if not possible:
        return None
    return {
        column: reduce(RankBounds.either, (side[column] for side in possible))
        for column in set.intersection(*map(set, possible))
    }


@dataclass(frozen=True)
class _Sum:
    """A column times -1, 0 or 1, plus a number."""

    column: Column | None
    times: int
    number: Fraction
    exact: bool = True
    """Whether SQL computes exactly this number with any types."""


def _bounds_of_sides(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> _Found:
    one, other = _parse_sum(left), _parse_sum(right)
    difference = None if one is None or other is None else _add_sums(one, other, -1, checked=False)
    if difference is None or difference.column is None or kind is exp.NEQ:
        return {}
    limit, exact = -difference.number * difference.times, difference.exact
    strict = kind in (exp.LT, exp.GT)
    first, last = _first_rank(limit, exact, strict), _last_rank(limit, exact, strict)
    if kind is exp.EQ:
        return {difference.column: RankBounds(first, last)}
    is_last = (kind in (exp.LT, exp.LTE)) == (difference.times > 0)
    return {difference.column: RankBounds(None, last) if is_last else RankBounds(first, None)}


def _last_rank(limit: Fraction, exact: bool, strict: bool) -> int:
    last = math.ceil(limit) - 1 if exact and strict else math.floor(limit if exact else limit + _SLACK)
    return max(last, 0)


def _first_rank(limit: Fraction, exact: bool, strict: bool) -> int:
    return math.floor(limit) + 1 if exact and strict else math.ceil(limit if exact else limit - _SLACK)


def _parse_sum(node: exp.Expr) -> _Sum | None:
    node = node.unnest()
    if isinstance(node, exp.Column):
        if node.name == "*" or len(node.parts) > 2:
            return None  # the third part is a field of a struct
        return _Sum((node.table.lower(), node.name.lower()), 1, Fraction(0))
    if isinstance(node, exp.Literal):
        return _literal_value(node)
    if isinstance(node, exp.Neg | exp.Negative):
        value = _parse_sum(node.this)
        return None if value is None else _add_sums(_Sum(None, 0, Fraction(0)), value, -1)
    if isinstance(node, exp.Add | exp.Sub):
        left, right = _parse_sum(node.this), _parse_sum(node.expression)
        if left is None or right is None:
            return None
        return _add_sums(left, right, 1 if isinstance(node, exp.Add) else -1)
    return _cast_value(node) if isinstance(node, exp.Cast) else None


def _add_sums(left: _Sum, right: _Sum, times: int, checked: bool = True) -> _Sum | None:
    """Returns `left` plus `times` × `right`. None if too large; `checked`: SQL computes this sum, so its limits
    apply."""
    if left.column is not None and right.column is not None:
        return None
    number, exact = left.number + times * right.number, left.exact and right.exact
    if checked and max(abs(number), abs(left.number), abs(right.number)) > _LARGEST:
        return None
    if not exact and abs(number) > _PLACES_OF_FRACTIONS:
        return None
    return _Sum(left.column or right.column, left.times + times * right.times, number, exact)


def _literal_value(literal: exp.Expr) -> _Sum | None:
    """Returns a number. Text counts if it is a whole number, as it is converted to the type it is compared with."""
    try:
        number = Fraction(literal.name)
    except ValueError:
        return None
    if literal.is_string and not literal.name.isdecimal():
        return None
    whole = number.denominator == 1
    return _Sum(None, 0, number, whole) if whole or abs(number) < _PLACES_OF_FRACTIONS else None


def _cast_value(node: exp.Expr) -> _Sum | None:
    """Returns the value of a cast that doesn't change it, unless to NULL. A smaller type might change a rank."""
    inner, to = node.this.unnest(), node.args["to"]
    if to.this in (exp.DType.DECIMAL, exp.DType.DOUBLE):
        if isinstance(inner, exp.Literal) and inner.is_string:
            inner = exp.Literal.number(inner.name)
        value = _parse_sum(inner)
        if value is None or value.exact:
            return value
        # A fraction that doesn't fit the scale is rounded.
        scale = int(to.expressions[1].name) if len(to.expressions) > 1 else 0
        fits = to.this == exp.DType.DOUBLE or (value.number * 10**scale).denominator == 1
        return value if fits and value.column is None else None
    value = _parse_sum(inner) if to.this in _WHOLE else None
    if value is None or not value.exact or abs(value.number) >= _WHOLE[to.this]:
        return None
    holds_ranks = to.this in (exp.DType.INT, exp.DType.BIGINT)
    return value if holds_ranks or value.column is None else None
