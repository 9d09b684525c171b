"""A SELECT without FROM, whose subqueries are aggregates of all rows of a stream, as a join of these single rows.

>>> from ..text.dialect import parse, sql
>>> tree = parse("select (select count(*) from __input_0) as n, 1 + (select max(v) from __input_1) as m")
>>> join(tree)
>>> print(sql(tree))
SELECT __row_0.`__value` AS n, 1 + __row_1.`__value` AS m FROM (SELECT COUNT(*) AS `__value` FROM __input_0) AS __row_0 \
CROSS JOIN (SELECT MAX(v) AS `__value` FROM __input_1) AS __row_1
"""

from __future__ import annotations

from sqlglot import exp

from ..errors import QueryError
from ..text import hints
from ..text.clauses import relations
from ..text.dialect import sql
from . import conditions

_VALUE = "__value"


def join(select: exp.Select) -> None:
    """Puts the subqueries into FROM, if there is nothing else in it. Changes the tree.

    Raises:
        QueryError: a column of the result has no name.
    """
    queries = conditions.inner_queries(select)
    if any(True for _ in relations(select)) or select.args.get("where"):
        return
    if not queries or not all(conditions.is_one_row(query) and _is_value(query) for query in queries):
        return
    for item in select.expressions:
        if not isinstance(item, exp.Alias) and item.find(exp.Query):
            raise QueryError(f"'{sql(item)[:80]}' has no name; give it one: AS …")
    for query in queries:
        if len(query.selects) > 1:
            raise QueryError(
                f"'{hints.quoted(query)}' gives {len(query.selects)} columns where one value is asked for."
            )
    for number, query in enumerate(queries):
        alias = f"__row_{number}"
        value = exp.column(_VALUE, table=alias)
        value.this.set("quoted", True)
        assert query.parent is not None
        query.parent.replace(value)
        (item,) = query.expressions
        query.set("expressions", [exp.alias_(item.unalias(), _VALUE, quoted=True)])
        made = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))
        if number:
            select.join(made, join_type="cross", copy=False)
        else:
            select.from_(made, copy=False)


def _is_value(query: exp.Query) -> bool:
    """Whether a query stands for its one value: not in EXISTS, IN, ANY and the like."""
    place = query.parent
    return isinstance(place, exp.Subquery) and not isinstance(
        place.parent, exp.In | exp.Exists | exp.Any | exp.All
    )
