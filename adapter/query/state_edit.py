"""``state edit``: rewrites a statement over the rows of a state as a query for the rows after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from .errors import QueryError
from .sql.dialect import DIALECT, sql

STATE = "state"
"""Name of the state in the statement."""
_FORMS = (
    "Write DELETE FROM state WHERE …, UPDATE state SET … WHERE …, INSERT INTO state (…) SELECT …, or a SELECT that gives "
    "all rows that the state is to have."
)


@dataclass(frozen=True)
class StateEdit:
    """The state that a statement leaves."""

    rows: str
    """Query for the rows, with all columns of the state, except those of `more`."""
    more: str | None = None
    """Query for rows to insert; columns that it lacks are NULL."""


def parse_state_edit(text: str) -> StateEdit:
    """Returns the state that a statement leaves.

    Raises:
        QueryError: the statement isn't a supported DELETE, UPDATE, INSERT or SELECT.

    >>> parse_state_edit("delete from state where k = 'a'").rows
    "SELECT state.* FROM state WHERE NOT COALESCE((k = 'a'), FALSE)"
    >>> parse_state_edit("update state set n = n + 1 where k = 'a'").rows
    "SELECT state.* EXCEPT (n), CASE WHEN k = 'a' THEN n + 1 ELSE n END AS n FROM state"
    >>> parse_state_edit("insert into state (part, k) values ('p', 'a')").more
    "SELECT * FROM VALUES ('p', 'a') AS new(part, k)"
    """
    tree = _parse_statement(text)
    if isinstance(tree, exp.Query):
        return StateEdit(sql(tree))
    if isinstance(tree, exp.Delete):
        if not isinstance(tree.this, exp.Expr):
            raise QueryError(f"--sql has a DELETE without FROM. {_FORMS}")
        name = _alias_of_state(tree.this)
        _refuse_clauses(tree, "using returning limit order tables cluster".split())
        where = tree.args.get("where")
        if where is None:
            raise QueryError(
                "DELETE without WHERE would leave no state. To build the model from the beginning: `dbt-stream reset`."
            )
        return StateEdit(
            f"SELECT {name}.* FROM {sql(tree.this)} WHERE NOT COALESCE(({sql(where.this)}), FALSE)"
        )
    if isinstance(tree, exp.Update):
        return StateEdit(_query_of_update(tree))
    if isinstance(tree, exp.Insert):
        return StateEdit(f"SELECT * FROM {STATE}", _query_of_insert(tree))
    raise QueryError(f"--sql is a {tree.key.upper()}. {_FORMS}")


def _parse_statement(text: str) -> exp.Expr:
    try:
        trees = [tree for tree in sqlglot.parse(text, read=DIALECT) if tree is not None]
    except SqlglotError as error:
        raise QueryError(f"--sql doesn't parse: {str(error).splitlines()[0]} {_FORMS}") from error
    if len(trees) != 1:
        raise QueryError(f"--sql has {len(trees)} statements, and takes one. {_FORMS}")
    tree: exp.Expr = trees[0]
    if not isinstance(tree, exp.Query):
        # Ignoring a clause would make the statement do something else than it says.
        _refuse_clauses(tree, "with_ with".split())
        for table in (tree.this, getattr(tree.this, "this", None)):
            if isinstance(table, exp.Table):
                _refuse_clauses(table, "joins sample laterals pivots partition version when".split())
    return tree


def _query_of_update(tree: exp.Update) -> str:
    name = _alias_of_state(tree.this)
    _refuse_clauses(tree, "from_ from returning limit order".split())
    where = tree.args.get("where")
    sets, listed = [], []
    for each in tree.expressions:
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise QueryError(f"'{sql(each)}' sets no column. {_FORMS}")
        column = sql(each.this.this)
        value = sql(each.expression)
        listed.append(column)
        made = f"CASE WHEN {sql(where.this)} THEN {value} ELSE {sql(each.this)} END" if where else value
        sets.append(f"{made} AS {column}")
    return f"SELECT {name}.* EXCEPT ({', '.join(listed)}), {', '.join(sets)} FROM {sql(tree.this)}"


def _query_of_insert(tree: exp.Insert) -> str:
    into, rows = tree.this, tree.expression
    columns: tuple[str, ...] = ()
    if isinstance(into, exp.Schema):
        columns, into = tuple(sql(each) for each in into.expressions), into.this
    _alias_of_state(into)
    _refuse_clauses(tree, "where partition returning by_name conflict exists stored settings".split())
    if tree.args.get("overwrite"):
        raise QueryError(f"INSERT OVERWRITE would leave nothing else of the state. {_FORMS}")
    if not isinstance(rows, exp.Values | exp.Query):
        raise QueryError(f"INSERT takes VALUES or a query. {_FORMS}")
    if isinstance(rows, exp.Values):
        if not columns:
            raise QueryError("Name the columns of the values: INSERT INTO state (part, …) VALUES (…).")
        rows.set("alias", None)
        return f"SELECT * FROM {sql(rows)} AS new({', '.join(columns)})"
    return f"SELECT * FROM ({sql(rows)}) AS new({', '.join(columns)})" if columns else sql(rows)


def _alias_of_state(table: exp.Expr) -> str:
    """Returns the alias of the state in a statement. Raises unless the table is the state."""
    if not isinstance(table, exp.Table) or table.name.lower() != STATE or table.db:
        raise QueryError(f"--sql changes {sql(table)}; the state is called {STATE} here. {_FORMS}")
    return str(table.alias_or_name)


def _refuse_clauses(tree: exp.Expr, clauses: Sequence[str]) -> None:
    for each in clauses:
        if found := tree.args.get(each):
            raise QueryError(
                f"'{sql(found) if isinstance(found, exp.Expr) else each}' isn't taken here. {_FORMS}"
            )
