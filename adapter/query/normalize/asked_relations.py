"""Moves a subquery of a condition that groups, or is a set operation, to FROM of a plain subquery. It is then kept up
to date like other relations in FROM, and looked up by the compared values.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select e.v from e where e.k in (select o.k from o group by o.k having sum(o.v) > 3)")
>>> move_to_from(tree.find(exp.In).args["query"].this)
True
>>> print(sql(tree))
SELECT e.v FROM e WHERE e.k IN (SELECT __asked.`k` FROM (SELECT o.k FROM o GROUP BY o.k HAVING SUM(o.v) > 3) AS __asked)
"""

from __future__ import annotations

from sqlglot import exp

from ..frontend.select_kind import is_grouped
from ..sql.clauses import conjuncts, filters, over_clauses
from ..sql.dialect import is_read_within
from ..sql.nodes import every, quoted_column, with_metadata_of
from . import conditions

_ALIAS, _COLUMN = "__asked", "__asked_column_"


def move_to_from(query: exp.Query) -> bool:
    """Moves an uncorrelated query to the FROM of a row-by-row query that replaces it. Changes the tree.

    Returns:
        Whether it did. Not for queries that are row by row already or return one row of aggregates.
    """
    several = isinstance(query, exp.SetOperation) or (
        isinstance(query, exp.Select)
        and (
            is_grouped(query)
            or query.args.get("distinct")
            or any(over_clauses(query))
            or any(conditions.inner_queries(query))
        )
    )
    if not several or conditions.returns_one_row(query) or _may_be_correlated(query):
        return False
    items = query.selects
    if any(item.is_star for item in items):
        return False
    if isinstance(query, exp.Select):
        for number, item in enumerate(items):
            if not isinstance(item, exp.Alias | exp.Column):
                item.replace(exp.alias_(item.copy(), f"{_COLUMN}{number}", quoted=True))
    names = [item.alias_or_name for item in query.selects]
    if not all(names) or len({*map(str.lower, names)}) < len(names):
        return False
    columns = [
        with_metadata_of(quoted_column(name, _ALIAS), item)
        for name, item in zip(names, query.selects, strict=True)
    ]
    query.replace(exp.Select(expressions=columns).from_(query.subquery(_ALIAS), copy=False))
    return True


def rewrite_exists_as_count(query: exp.Query) -> None:
    """Rewrites an uncorrelated EXISTS as a count of rows, so only the count is kept as state. Changes the tree.

    >>> from ..sql.dialect import parse, sql
    >>> tree = parse("select exists (select o.k from o where o.v > 3) as e from s")
    >>> rewrite_exists_as_count(tree.find(exp.Exists).this)
    >>> sql(tree.expressions[0])
    '((SELECT COUNT(*) AS `__asked_column_0` FROM o WHERE o.v > 3) > 0) AS e'
    """
    place = query.parent
    if not isinstance(place, exp.Exists) or _may_be_correlated(query):
        return
    if any(query.args.get(clause) for clause in ("limit", "offset", "fetch")):
        return
    count = exp.alias_(exp.Count(this=exp.Star()), f"{_COLUMN}0", quoted=True)
    is_plain = isinstance(query, exp.Select) and not (
        is_grouped(query) or query.args.get("distinct") or conditions.has_generator(query)
    )
    if is_plain:
        counted = query.copy()
        counted.set("expressions", [count])
        counted.set("order", None)
    else:
        counted = exp.Select(expressions=[count]).from_(query.subquery(_ALIAS), copy=False)
    place.replace(
        exp.paren(exp.GT(this=exp.Subquery(this=counted), expression=exp.Literal.number(0)), copy=False)
    )


def _may_be_correlated(query: exp.Query) -> bool:
    """Whether a query may be correlated. An unqualified name counts as correlated if it is compared with another."""
    # A qualifier that no relation in here has may be an outer struct column.
    if any(
        len(column.parts) > 1 and not is_read_within(query, column) for column in every(query, exp.Column)
    ):
        return True
    clauses = (each.args.get(name) for each in every(query, exp.Select) for name in ("where", "having"))
    for test in (test for clause in clauses if clause is not None for test in conjuncts(clause.this)):
        names = {column.name.lower() for column in every(test, exp.Column)}
        if len(names) > 1 and not all(column.table for column in every(test, exp.Column)):
            return True
    return False


def conditions_with_stream_queries(select: exp.Select) -> list[exp.Expr]:
    """Returns the conjuncts of WHERE with subqueries over streams. Empty if other clauses have such subqueries, too."""
    tests = filters(select)
    inner = {id(each) for each in conditions.inner_queries(select)}
    found = [test for test in tests if any(id(query) in inner for query in every(test, exp.Query))]
    asked = {id(query) for test in found for query in every(test, exp.Query)}
    return found if inner <= asked else []
