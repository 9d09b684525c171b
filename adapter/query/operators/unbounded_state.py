"""What would bound a state that can grow for ever, in the author's words."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ..dialect import DIALECT, sql
from ..plan import Key

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
