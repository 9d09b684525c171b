"""Input relations of a SELECT, and the SELECT over them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..normalize import conditions
from ..plan.operator import Operator, input_name
from ..sql.clauses import relations, relations_with_joins
from ..sql.dialect import correlated_columns, sql
from ..sql.nodes import copied, every, temporarily_replaced
from .closing import hold_back_open_windows
from .context import Planner
from .from_items import FromItem, check_relation, table_with_alias

_GENERATED_ALIAS = "__from_"
"""Prefix of the aliases of relations that the author gave none."""


def relations_in_from(planner: Planner, select: exp.Select) -> list[FromItem]:
    """Returns the relations that a SELECT reads. Relations without an alias get one in the tree.

    Raises:
        QueryError: a stream in FROM has a clause that isn't supported.
    """
    found = []
    for number, (node, join) in enumerate(relations_with_joins(select)):
        operator = planner.visit(node)
        alias = node.alias_or_name
        if operator is not None:
            check_relation(node, join, operator.relation.changes)
            if node.alias_column_names:
                raise QueryError(
                    f"'{sql(node)[-60:]}' renames the columns of a stream in FROM; name them in its select list."
                )
            if not alias:
                alias = f"{_GENERATED_ALIAS}{number}"
                node.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        found.append(FromItem(alias, node, join, operator))
    return found


def with_numbered_inputs(
    planner: Planner, select: exp.Select, read: Sequence[FromItem]
) -> tuple[exp.Select, tuple[Operator, ...]]:
    """Returns a SELECT that reads ``__input_n`` in place of its operators, and these operators."""
    inputs: list[Operator] = []
    tables: list[tuple[exp.Expr, exp.Expr]] = []
    for each, node in zip(read, relations(select), strict=True):
        if each.operator is not None:
            table = table_with_alias(input_name(len(inputs)), each.alias)
            for name in ("pivots", "sample"):
                table.set(name, deepcopy(node.args.get(name)))
            tables.append((node, table))
            inputs.append(each.operator)
    # Subtrees are planned already and may be most of the text, so they aren't copied.
    with temporarily_replaced(tables):
        made = copied(select)
    for query in conditions.inner_queries(made):
        if conditions.returns_one_row(query):
            # Its single row is stored, not all rows that it aggregates.
            operator = planner.visit(exp.Subquery(this=query.copy()))
            assert operator is not None
            query.replace(
                exp.Select(expressions=[exp.Star()]).from_(
                    table_with_alias(input_name(len(inputs)), "one_row")
                )
            )
            inputs.append(hold_back_open_windows(planner, operator))
            continue
        for part in every(query, exp.Select):
            for node in relations(part):
                below = node.unnest()
                if isinstance(below, exp.Query) and correlated_columns(below):
                    continue  # correlated: the relations that it reads are stored
                operator = planner.visit(node)
                if operator is not None:
                    operator = hold_back_open_windows(planner, operator)
                    check_relation(node, None)
                    alias = node.alias_or_name
                    node.replace(table_with_alias(input_name(len(inputs)), alias or input_name(len(inputs))))
                    inputs.append(operator)
    for table in every(made, exp.Table):
        if hints.is_stream(table):
            lateral = table.find_ancestor(exp.Lateral)
            if lateral is not None:
                raise QueryError(
                    f"'{hints.excerpt(lateral)}' reads a stream for each row; write it as a join with its conditions "
                    "in ON; if only its first rows are wanted, rank them by ROW_NUMBER() and filter on that."
                )
            raise QueryError(
                f"'{hints.excerpt(select)}' reads a stream in a place where its rows can't be distinguished from "
                "earlier ones; put it into FROM or JOIN."
            )
    return made, tuple(inputs)
