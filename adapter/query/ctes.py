"""WITH written out: each name replaced by its query, so that the planner sees one tree.

A query that stands at two places is planned at both; equal stages are found again by their text.

>>> from .dialect import parse, sql
>>> sql(inline(parse("with a as (select 1 as x) select x from a")))
'SELECT x FROM (SELECT 1 AS x) AS a'
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from .dialect import remove_with, with_clause
from .errors import QueryError

Environment = Mapping[str, tuple[exp.Query, list[exp.Expr]]]


def inline(query: exp.Query, outer: Environment | None = None) -> exp.Query:
    """The query without WITH. Changes the tree it is given.

    Raises:
        QueryError: a recursive WITH.
    """
    names = dict(outer or {})
    if clause := with_clause(query):
        if clause.recursive:
            raise QueryError(
                "WITH RECURSIVE can't be kept up to date from a stream; compute it in a table model."
            )
        for cte in clause.expressions:
            columns = cte.args["alias"].args.get("columns") or []
            names[cte.alias.lower()] = (inline(cte.this, names), columns)
        remove_with(query)
    _replace(query, names)
    return query


def _replace(node: exp.Expr, names: Environment) -> None:
    for child in list(node.iter_expressions()):
        if isinstance(child, exp.Query) and with_clause(child):
            inline(child, names)
        elif isinstance(child, exp.Table) and not child.db and child.name.lower() in names:
            body, columns = names[child.name.lower()]
            alias = child.args.get("alias") or exp.TableAlias(
                this=exp.to_identifier(child.name), columns=[column.copy() for column in columns]
            )
            joins = child.args.get("joins")
            child.replace(exp.Subquery(this=body.copy(), alias=alias.copy(), joins=joins))
        else:
            _replace(child, names)
