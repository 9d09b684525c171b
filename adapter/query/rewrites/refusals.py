"""Checks for queries that a rewrite can't reproduce exactly, made before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from ..errors import QueryError
from ..frontend import hints
from ..sql.dialect import from_clause, sql, with_clause
from ..sql.functions import is_random
from ..sql.nodes import every
from ..windows.windows import Window


def check_repeatable(select: exp.Select) -> None:
    """Raises unless all expressions of a SELECT are deterministic.

    Raises:
        QueryError: it has a random function or TABLESAMPLE.

    >>> from ..sql.dialect import parse
    >>> check_repeatable(parse("select k, max(v) from t group by k"))
    >>> try:
    ...     check_repeatable(parse("select uuid() as id from t"))
    ... except QueryError as refusal:
    ...     print(str(refusal).partition(",")[0])
    'UUID()' is non-deterministic
    """
    for call in every(select, exp.Func):
        if is_random(call):
            raise QueryError(
                f"'{sql(call)}' is non-deterministic, so a rewritten query could give other "
                "rows; compute it in a separate model."
            )
    for sample in every(select, exp.TableSample):
        raise QueryError(
            f"'{sql(sample).strip()}' takes other rows each time it is read, so a rewritten query could give other "
            "rows; store the sample in a separate model."
        )


def check_read_twice(select: exp.Select) -> None:
    """Raises unless a SELECT's relations return the same rows when they are read twice.

    Raises:
        QueryError: one has a LIMIT.
    """
    for node in _relations_and_ctes(select):
        for below in every(node, exp.Limit, exp.Fetch):
            if isinstance(below, exp.Limit) and below.expression.name == "0":
                continue  # `dbt run --empty`
            raise QueryError(
                f"'{sql(below).strip()}' under FROM may keep other rows each time it is read, and the rewritten query "
                "reads it twice; put it into a separate model."
            )


def windows_read(select: exp.Select) -> list[Window]:
    """Returns the windowing table functions whose rows a SELECT reads, except those below another GROUP BY.

    >>> from ..sql.dialect import parse
    >>> window = "(select /*+ TUMBLE(ts, '1 hour', '0 seconds') */ * from t)"
    >>> list(map(str, windows_read(parse(f"select * from {window}"))))
    ['tumble(ts, 1 hour)']
    >>> windows_read(parse(f"select * from (select k, count(*) from {window} group by k)"))
    []
    """
    return [
        window
        for node in _relations_and_ctes(select)
        for found in hints.windows_under(node)
        if (window := hints.window_of(found)) and not _is_grouped_between(found, node)
    ]


def check_steps(windows: list[Window]) -> None:
    """Raises unless windows have a row at every step.

    Raises:
        QueryError: one has emit='on_change', which only the planner supports: steps in which a key has no new
            rows are left out.
    """
    for window in windows:
        if window.emit == "on_change":
            raise QueryError(
                f"{window.kind}() with emit='on_change' leaves out steps without new rows, and a rewritten query can't "
                "identify these; leave emit out."
            )


def _relations_and_ctes(select: exp.Select) -> Iterator[exp.Expr]:
    """Yields FROM and joins, and the CTEs that they read."""
    source = from_clause(select)
    waiting: list[exp.Expr] = [*([source] if source else []), *(select.args.get("joins") or ())]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        yield node
        for table in every(node, exp.Table):
            body = _named_query(table)
            if body is not None and id(body) not in seen:
                seen.add(id(body))
                waiting.append(body)


def _named_query(table: exp.Table) -> exp.Expr | None:
    """Returns the body of the CTE that a table names; None if it names none."""
    query = None if table.db else table.find_ancestor(exp.Query)
    while query is not None:
        clause = with_clause(query)
        for cte in clause.expressions if clause else ():
            if cte.alias.lower() == table.name.lower() and table.find_ancestor(exp.CTE) is not cte:
                body: exp.Expr = cte.this
                return body
        query = query.find_ancestor(exp.Query)
    return None


def _is_grouped_between(below: exp.Expr, relation: exp.Expr) -> bool:
    """Whether there is a GROUP BY between a SELECT and the relation that contains it."""
    above = below.parent
    while above is not None and above is not relation.parent:
        if isinstance(above, exp.Select) and above.args.get("group"):
            return True
        above = above.parent
    return False
