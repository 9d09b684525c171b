"""Splits a correlated ORDER BY … LIMIT query into one over all rows, ranked within the compared columns, and the
comparison with the outer row.

>>> from ...sql.dialect import parse, sql
>>> from ..compared_types import note_type
>>> tree = parse("select e.k, (select o.v from o where o.k = e.k and o.w > 1 order by o.ts desc limit 1) as last from e")
>>> for column in tree.find_all(exp.Column):
...     note_type(column, "bigint")
>>> found = split(tree.expressions[1].this.this)
>>> sql(found.below), [sql(each) for each in found.within]
('SELECT o.v AS `v`, o.k AS `__within_0` FROM o WHERE o.w > 1 ORDER BY o.ts DESC LIMIT 1', ['o.k'])
>>> print(sql(found.over(parse("select v, __within_0 from ranked"))))
SELECT MAX(__limited.`v`) FROM (SELECT v, __within_0 FROM ranked) AS __limited WHERE __limited.`__within_0` = e.k
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...sql.clauses import aggregate, filters, set_filters
from ...sql.dialect import correlated_columns
from ...sql.nodes import every, quoted_column, star_without, with_notes_of
from ..compared_types import equated_sides

_LIMITED, _WITHIN, _ITEM = "__limited", "__within_", "__item_"
_CLAUSES = {"kind", "expressions", "from_", "from", "joins", "where", "order", "limit", "offset", "hint"}


@dataclass(frozen=True)
class Correlated:
    """The parts of a correlated query with LIMIT."""

    below: exp.Select
    """The query without its correlated predicates, with the compared expressions as additional columns."""
    names: Sequence[str]
    """Names of its other columns. Empty if it has a star."""
    within: Sequence[exp.Expr]
    """The compared expressions: rows are ranked within them."""
    equal: Sequence[exp.Expr]
    """The outer expressions that they equal."""
    is_value: bool
    """Whether it is a scalar subquery."""

    def over(self, ranked: exp.Select) -> exp.Select:
        """Returns the query over the rows of `below` that remain after ranking."""
        items: list[exp.Expr] = [
            with_notes_of(quoted_column(name, _LIMITED), item)
            for name, item in zip(self.names, self.below.expressions, strict=False)
        ]
        if not items:
            items = [star_without(f"{_WITHIN}{n}" for n in range(len(self.within)))]
        if self.is_value:
            # There is one row per group, but Spark requires an aggregate.
            items = [exp.Max(this=item) for item in items]
        tests = [
            exp.EQ(this=quoted_column(f"{_WITHIN}{number}", _LIMITED), expression=each.copy())
            for number, each in enumerate(self.equal)
        ]
        made = exp.Select(expressions=items).from_(ranked.subquery(_LIMITED, copy=False), copy=False)
        return made.where(*tests, copy=False)


def split(query: exp.Select) -> Correlated | None:
    """Splits a correlated query with LIMIT. None if it is correlated by other predicates than equalities of one type,
    or groups."""
    place = query.parent
    while isinstance(place, exp.Subquery | exp.Paren):
        place = place.parent
    is_value = not isinstance(place, exp.In | exp.Exists | exp.Any | exp.All | exp.Lateral)
    if isinstance(place, exp.SetOperation | exp.From | exp.Join) or (is_value and not _is_first_row(query)):
        return None
    if {name for name, value in query.args.items() if value} - _CLAUSES or aggregate(query) is not None:
        return None
    stars = [item for item in query.expressions if item.is_star]
    if query.find(exp.Window) or (stars and is_value):
        return None
    asked = {id(column) for column in correlated_columns(query)}
    own: list[exp.Expr] = []
    within: list[exp.Expr] = []
    equal: list[exp.Expr] = []
    found = 0
    for test in filters(query):
        columns = sum(id(column) in asked for column in every(test, exp.Column))
        found += columns
        if not columns:
            own.append(test)
        elif (sides := equated_sides(test, asked)) is not None:
            within.append(sides[0])
            equal.append(sides[1])
        else:
            return None
    if found < len(asked):
        return None
    below = query.copy()
    set_filters(below, own)
    items, names = list(below.expressions), list[str]()
    for number, item in enumerate(() if stars else list(items)):
        name = item.alias_or_name
        names.append(name if name and name.lower() not in map(str.lower, names) else f"{_ITEM}{number}")
        items[number] = exp.alias_(item.unalias().copy(), names[-1], quoted=True)
    keys = [exp.alias_(each.copy(), f"{_WITHIN}{number}", quoted=True) for number, each in enumerate(within)]
    below.set("expressions", [*items, *keys])
    return Correlated(below, names, within, equal, is_value)


def _is_first_row(query: exp.Select) -> bool:
    limit = query.args.get("limit")
    count = None if limit is None else limit.expression
    return isinstance(count, exp.Literal) and count.name == "1" and not query.args.get("offset")
