"""Moves scalar aggregates over streams from expressions to FROM, as cross joins with single rows. A LEFT JOIN ON TRUE
with such a row becomes a cross join, too.

>>> from ..sql.dialect import parse, sql
>>> tree = parse("select (select count(*) from __input_0) as n, 1 + (select max(v) from __input_1) as m")
>>> join_single_rows(tree)
>>> print(sql(tree))
SELECT __row_0.`__value` AS n, 1 + __row_1.`__value` AS m FROM (SELECT COUNT(*) AS `__value` FROM __input_0) AS __row_0 \
CROSS JOIN (SELECT MAX(v) AS `__value` FROM __input_1) AS __row_1
>>> tree = parse("select t.x, s.n from t left join (select count(*) as n from __input_0) as s on true")
>>> join_single_rows(tree)
>>> print(sql(tree))
SELECT t.x, s.n FROM t CROSS JOIN (SELECT COUNT(*) AS n FROM __input_0) AS s
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..frontend.select_kind import is_grouped
from ..sql.clauses import over_clauses, relations, relations_with_joins
from ..sql.dialect import from_clause, sql, walk_same_query
from ..sql.nodes import quoted_column
from . import conditions

_VALUE = "__value"


def join_single_rows(select: exp.Select) -> None:
    """Moves scalar aggregates over streams to FROM if FROM reads only tables. Changes the tree.

    Raises:
        QueryError: a column of the result has no name.
    """
    _cross_single_rows(select)
    queries = conditions.inner_queries(select)
    if not queries or not all(
        conditions.returns_one_row(query) and _is_scalar_subquery(query) for query in queries
    ):
        return
    if any(map(conditions.reads_input, relations(select))) or not _can_join_single_rows(select, queries):
        return
    for item in select.expressions:
        if not isinstance(item, exp.Alias) and item.find(exp.Query):
            raise QueryError(f"'{sql(item)[:80]}' has no name; give it one: AS …")
    for query in queries:
        if len(query.selects) > 1:
            raise QueryError(
                f"'{hints.excerpt(query)}' gives {len(query.selects)} columns where one value is needed."
            )
    if len(beside := relations(select)) == 1:
        # A name that isn't the table's may be an alias of an item before it.
        aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
        for each in walk_same_query(select):
            if isinstance(each, exp.Column) and not each.table and each.name.lower() not in aliases:
                each.set("table", exp.to_identifier(beside[0].alias_or_name, quoted=True))
    for number, query in enumerate(queries):
        alias = f"__row_{number}"
        assert query.parent is not None
        query.parent.replace(quoted_column(_VALUE, alias))
        (item,) = query.expressions
        query.set("expressions", [exp.alias_(item.unalias(), _VALUE, quoted=True)])
        made = query.subquery(alias, copy=False)
        if from_clause(select):
            select.join(made, join_type="cross", copy=False)
        else:
            select.from_(made, copy=False)


def _cross_single_rows(select: exp.Select) -> None:
    """Turns each LEFT JOIN ON TRUE of a table with a stream's single row into CROSS JOIN, because every row has a
    match."""
    for place, (node, each) in enumerate(read := relations_with_joins(select)):
        if (
            each is None
            or each.side != "LEFT"
            or each.args.get("using")
            or not isinstance(node, exp.Subquery)
        ):
            continue
        is_of_tables = not any(conditions.reads_input(other) for other, _ in read[:place])
        is_row = conditions.reads_input(node) and conditions.returns_one_row(node.this)
        if is_of_tables and _is_true(each.args.get("on")) and is_row:
            each.set("side", None)
            each.set("kind", "CROSS")
            each.set("on", None)


def _is_true(condition: exp.Expr | None) -> bool:
    if isinstance(condition, exp.EQ) and isinstance(condition.this, exp.Literal):
        return bool(condition.this == condition.expression)
    return condition is None or condition == exp.true()


def _can_join_single_rows(select: exp.Select, queries: Sequence[exp.Query]) -> bool:
    """Whether the SELECT's clauses keep their meaning when single rows are joined in FROM."""
    if not relations(select):
        return not select.args.get("where")
    stars = any(item.is_star for item in select.expressions if not isinstance(item, exp.Column))
    if stars or is_grouped(select) or any(over_clauses(select)) or select.args.get("laterals"):
        return False
    # A join condition can't refer to relations that follow in FROM.
    return not any(isinstance(query.find_ancestor(exp.Join, exp.Select), exp.Join) for query in queries)


def _is_scalar_subquery(query: exp.Query) -> bool:
    """Whether a query is a scalar subquery (not in EXISTS, IN, ANY or the like)."""
    place = query.parent
    return isinstance(place, exp.Subquery) and not isinstance(
        place.parent, exp.In | exp.Exists | exp.Any | exp.All
    )
