"""Inlines CTEs, so that the planner reads one tree.

A CTE that is read twice is planned twice; equal window operators are merged by their text.

>>> from ...sql.dialect import parse, sql
>>> sql(inline_ctes(parse("with a as (select 1 as x) select x from a")))
'SELECT x FROM (SELECT 1 AS x) AS a'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from ...errors import QueryError
from ...sql.dialect import from_clause, remove_with, sql, with_clause
from ...sql.functions import is_random
from ...sql.nodes import children, copied, every

_RANDOM = "random"
"""Marks an inlined CTE that isn't deterministic, with its identity."""

Environment = Mapping[str, exp.Query]


def inline_ctes(query: exp.Query, outer: Environment | None = None) -> exp.Query:
    """Inlines the CTEs of a query. Changes the tree."""
    names = dict(outer or {})
    if clause := with_clause(query):
        if clause.recursive:
            raise QueryError(
                "WITH RECURSIVE can't be kept up to date from a stream; compute it in a table model."
            )
        for cte in clause.expressions:
            columns = cte.args["alias"].args.get("columns") or []
            names[cte.alias.lower()] = _rename_columns(inline_ctes(cte.this, names), columns, cte.alias)
        remove_with(query)
    _replace_references(query, names)
    return query


def _replace_references(node: exp.Expr, names: Environment) -> None:
    for child in children(node):
        if isinstance(child, exp.Query) and with_clause(child):
            inline_ctes(child, names)
        elif isinstance(child, exp.Table) and not child.db and child.name.lower() in names:
            alias = child.args.get("alias") or exp.TableAlias(this=exp.to_identifier(child.name))
            beside = {name: child.args.get(name) for name in ("joins", "pivots", "sample", "laterals")}
            made = exp.Subquery(this=copied(names[child.name.lower()]), alias=alias.copy(), **beside)
            if any(map(is_random, every(made, exp.Func))):
                made.meta[_RANDOM] = f"{child.name.lower()} {sql(made.this)}"
            child.replace(made)
            _move_column_names_inside(made)
            # A table in brackets has the joins within them.
            for join in beside["joins"] or ():
                _replace_references(join, names)
        else:
            _replace_references(child, names)
            if isinstance(child, exp.Subquery):
                _move_column_names_inside(child)


def random_cte_error(
    tree: exp.Expr, concerned: Callable[[exp.Subquery], bool] = lambda query: True
) -> QueryError | None:
    """Returns the error about the first non-deterministic CTE that is read more than once, as both copies would have to
    return equal values; None if there is none.

    Args:
        tree: the result of `inline_ctes`.
        concerned: which inlined CTEs to check.
    """
    for identity in random_ctes_read_twice(tree, concerned):
        return QueryError(
            f"WITH {identity.partition(' ')[0]} calls a non-deterministic function and is read twice, and both reads would "
            "compute it on their own; read it once, or put it into a separate model."
        )
    return None


def random_ctes_read_twice(
    tree: exp.Expr, concerned: Callable[[exp.Subquery], bool] = lambda query: True
) -> tuple[str, ...]:
    """Returns the identities of the non-deterministic CTEs that a tree reads more than once. Arguments as in
    `random_cte_error`."""
    read: Counter[str] = Counter()
    for query in every(tree, exp.Subquery):
        if (identity := random_cte_identity(query)) is not None and concerned(query):
            read[identity] += 1
    return tuple(identity for identity, times in read.items() if times > 1)


def random_cte_identity(query: exp.Subquery) -> str | None:
    """Returns the identity of the non-deterministic CTE that a subquery was; None if it was no such CTE."""
    identity: str | None = query.meta_get(_RANDOM)
    return identity


def _move_column_names_inside(query: exp.Subquery) -> None:
    """Moves the column names of an alias, as in `(…) as t(a, b)`, into the query."""
    alias = query.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns and isinstance(query.this, exp.Query):
        query.set("this", _rename_columns(query.this, alias.columns, alias.name))
        alias.set("columns", None)


def _rename_columns(query: exp.Query, columns: Sequence[exp.Expr], name: str) -> exp.Query:
    if not columns:
        return query
    items = query.selects
    values = _unnamed_values(query)
    width = len(items) if values is None else len(values.expressions[0].expressions)
    if values is None and any(item.is_star for item in items):
        raise _column_names_error(name, columns, "that has '*'")
    if width != len(columns):
        raise _column_names_error(name, columns, f"that has {width} of them")
    if values is not None:
        alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("named"))
        alias.set("columns", [column.copy() for column in columns])
        values.set("alias", alias)
        return query
    first = query
    while not isinstance(first, exp.Select):
        first = first.this
    for place, item in enumerate(items):
        # Spark names other items by their text, sqlglot some of them by a literal or a star in them.
        if not isinstance(item, exp.Alias | exp.Aliases | exp.Column):
            first.expressions[place].replace(exp.alias_(item.copy(), f"column_{place}"))
    had = [item.alias_or_name for item in query.selects]
    if len({*map(str.lower, had)}) < len(had):
        raise _column_names_error(name, columns, "with two columns of one name")
    renamed = [
        exp.alias_(exp.column(old, quoted=True), new.name, quoted=True)
        for old, new in zip(had, columns, strict=True)
    ]
    return exp.select(*renamed).from_(query.subquery("named", copy=False))


def _unnamed_values(query: exp.Query) -> exp.Values | None:
    """Returns the VALUES that a query consists of, if its columns have no names."""
    if not isinstance(query, exp.Select) or query.expressions != [exp.Star()]:
        return None
    said = {name for name, value in query.args.items() if value} - {"expressions", "from", "from_", "kind"}
    source = from_clause(query)
    values = source.this if source is not None and not said else None
    return values if isinstance(values, exp.Values) and not values.alias_column_names else None


def _column_names_error(name: str, columns: Sequence[exp.Expr], what: str) -> QueryError:
    named = f"{name}({', '.join(map(sql, columns))})"
    return QueryError(f"'{named}' names the columns of a query {what}; name them in its select list.")
