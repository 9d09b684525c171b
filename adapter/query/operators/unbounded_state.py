"""What would bound a state that can grow for ever, in the author's words."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ..plan import Key
from ..text import intervals
from ..text.dialect import DIALECT, sql
from .base import UnboundedState

OWN_ALIAS = "__from_"
"""What aliases begin with that the author didn't give."""


def names_of(key: Key, select: exp.Select) -> tuple[str, ...]:
    """What a query calls a key: its alias, if it has one, and after that the columns it is computed from."""
    node: exp.Expr = exp.maybe_parse(key.sql, dialect=DIALECT)
    aliases = [
        item.alias.lower()
        for item in select.expressions
        if isinstance(item, exp.Alias) and sql(item.this).lower() == sql(node).lower()
    ]
    columns = list(dict.fromkeys(column.name.lower() for column in node.find_all(exp.Column)))
    return ((aliases or [""])[0], *columns)


def with_predicate(select: exp.Select, time: str | None, relations: Mapping[str, str]) -> str:
    """A query with a predicate on time that would bound its state, as its author would write it."""
    query = select.copy()
    for subquery in list(query.find_all(exp.Subquery)):
        inner = subquery.this
        table = next(subquery.find_all(exp.Table), None)
        if isinstance(inner, exp.Select) and inner.is_star and table is not None and table.name in relations:
            alias = "" if subquery.alias.startswith(OWN_ALIAS) else subquery.alias
            name = relations[table.name]
            subquery.replace(exp.to_table(name, dialect=DIALECT, alias=alias or None))
        elif subquery.alias.startswith(OWN_ALIAS):
            subquery.set("alias", None)
    column = time or "event_time"
    return sql(query.where(f"{column} >= current_timestamp() - interval '7' day", dialect=DIALECT))


def refusal_of(growth: UnboundedState, domains: frozenset[str]) -> str:
    """Why a query is refused whose state grows for ever, and what would bound it.

    Args:
        growth: of an operator.
        domains: columns whose sets of values don't grow.
    """
    missing = sorted((growth.columns or frozenset()) - domains)
    domain = f", or constant_domains: {missing} if the set of their values doesn't grow" if missing else ""
    by_time = f"; or bound it by time: {growth.bounded}" if growth.bounded else "."
    or_else = f"{domain}{growth.or_else}{by_time}"
    instead = f"{growth.instead} To have the query as it is: " if growth.instead else ""
    return (
        f"{instead}The state of this query grows for ever: it keeps {growth.what} that ever comes. Set state_ttl "
        f"(as in '{intervals.format(7 * intervals.DAY)}') to forget what was idle for so long{or_else}"
    )
