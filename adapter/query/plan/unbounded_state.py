"""What would bound a state that can grow for ever, in the author's words."""

from __future__ import annotations

from sqlglot import exp

from ..aggregates.model import Key
from ..sql import intervals
from ..sql.dialect import DIALECT, sql
from ..sql.nodes import every
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
    columns = list(dict.fromkeys(column.name.lower() for column in every(node, exp.Column)))
    return ((aliases or [""])[0], *columns)


def called(key: Key, select: exp.Select) -> set[str]:
    """What has to be named to say that the set of a key's values doesn't grow."""
    alias, *columns = names_of(key, select)
    # What Spark calls a computed column is hardly a name.
    return {alias} if alias.isidentifier() or not columns else {*columns}


def refusal_of(growth: UnboundedState, domains: frozenset[str]) -> str:
    """Why a query is refused whose state grows for ever, and what would bound it: a sentence whose end is open.

    Args:
        growth: of an operator.
        domains: columns of which it is said that their sets of values don't grow. The list that is proposed has them, too:
            other keys may need them.
    """
    missing = (growth.columns or frozenset()) - domains
    domain = (
        f", or constant_domains: {sorted(missing | domains)} if the set of their values doesn't grow"
        if missing
        else ""
    )
    instead = f"{growth.instead} To have the query as it is: " if growth.instead else ""
    return (
        f"{instead}The state of this query grows for ever: it keeps {growth.what} that ever comes. Set state_ttl "
        f"(as in '{intervals.format(7 * intervals.DAY)}') to forget what was idle for so long{domain}{growth.or_else}"
    )
