"""Writes a correlated ORDER BY … LIMIT query as one over all rows, ranked within the compared columns, and the comparison
with the outer row.

>>> from ...sql.dialect import parse, sql
>>> from ..compared_types import note_type
>>> tree = parse("select e.k, (select o.v from o where o.k = e.k and o.w > 1 order by o.ts desc limit 1) as last from e")
>>> for column in tree.find_all(exp.Column):
...     note_type(column, "bigint")
>>> def shown(below, within):
...     print(sql(below), [sql(each) for each in within])
...     return parse("select v, __within_0 from ranked")
>>> print(sql(rank_within_compared(tree.expressions[1].this.this, shown)))
SELECT o.v AS `v`, o.k AS `__within_0` FROM o WHERE o.w > 1 ORDER BY o.ts DESC LIMIT 1 ['o.k']
SELECT MAX(__limited.`v`) FROM (SELECT v, __within_0 FROM ranked) AS __limited WHERE __limited.`__within_0` = e.k
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ...sql.clauses import filters, first_aggregate, set_filters
from ...sql.dialect import correlated_columns
from ...sql.nodes import every, quoted_column, star_without, with_notes_of
from ..compared_types import equated_sides

_LIMITED, _WITHIN, _ITEM = "__limited", "__within_", "__item_"
_CLAUSES = {"kind", "expressions", "from_", "from", "joins", "where", "order", "limit", "offset", "hint"}


def rank_within_compared(
    query: exp.Select, rank: Callable[[exp.Select, Sequence[exp.Expr]], exp.Select]
) -> exp.Select | None:
    """Returns a query with the same rows that isn't correlated below its comparison with the outer row. None if it is
    correlated by other predicates than equalities of one type, or groups.

    Args:
        query: a correlated query with LIMIT.
        rank: returns the first rows of a SELECT within expressions of it: those that equal ones of the outer row.
    """
    place = query.parent
    while isinstance(place, exp.Subquery | exp.Paren):
        place = place.parent
    is_value = not isinstance(place, exp.In | exp.Exists | exp.Any | exp.All | exp.Lateral)
    if isinstance(place, exp.SetOperation | exp.From | exp.Join) or (is_value and not _is_first_row(query)):
        return None
    if {name for name, value in query.args.items() if value} - _CLAUSES or first_aggregate(query) is not None:
        return None
    stars = [item for item in query.expressions if item.is_star]
    if query.find(exp.Window) or (stars and is_value):
        return None
    asked = {id(column) for column in correlated_columns(query)}
    own: list[exp.Expr] = []
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    found = 0
    for test in filters(query):
        columns = sum(id(column) in asked for column in every(test, exp.Column))
        found += columns
        if not columns:
            own.append(test)
        elif (sides := equated_sides(test, asked)) is not None:
            pairs.append(sides)
        else:
            return None
    if found < len(asked):
        return None
    below = query.copy()
    set_filters(below, own)
    hidden = [f"{_WITHIN}{number}" for number in range(len(pairs))]
    listed = list(below.expressions)
    items: list[exp.Expr] = [star_without(hidden)] if stars else []
    names: list[str] = []
    for number, item in enumerate(() if stars else list(listed)):
        name = item.alias_or_name
        names.append(name if name and name.lower() not in map(str.lower, names) else f"{_ITEM}{number}")
        listed[number] = exp.alias_(item.unalias().copy(), names[-1], quoted=True)
        items.append(with_notes_of(quoted_column(names[-1], _LIMITED), listed[number]))
    keys = [exp.alias_(each.copy(), name, quoted=True) for (each, _), name in zip(pairs, hidden, strict=True)]
    below.set("expressions", [*listed, *keys])
    ranked = rank(below, [each.copy() for each, _ in pairs])
    if is_value:
        # There is one row per group, but Spark requires an aggregate.
        items = [exp.Max(this=item) for item in items]
    tests = [
        exp.EQ(this=quoted_column(name, _LIMITED), expression=other.copy())
        for (_, other), name in zip(pairs, hidden, strict=True)
    ]
    made = exp.Select(expressions=items).from_(ranked.subquery(_LIMITED, copy=False), copy=False)
    return made.where(*tests, copy=False)


def _is_first_row(query: exp.Select) -> bool:
    limit = query.args.get("limit")
    count = None if limit is None else limit.expression
    return isinstance(count, exp.Literal) and count.name == "1" and not query.args.get("offset")
