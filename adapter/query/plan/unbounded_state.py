"""Suggests what would bound the state of a rejected query, in the names the author uses."""

from __future__ import annotations

from sqlglot import exp

from ..normalize.conditions import is_repeatable
from ..sql import intervals
from ..sql.dialect import sql
from ..sql.finite import is_finite
from ..sql.nodes import every
from .operator import UnboundedState


def key_names(key: exp.Expr, select: exp.Select) -> tuple[str, ...]:
    """Returns a key's names in a query: its alias (empty if it has none), then the columns that it is computed from. A
    non-deterministic key has only an alias, as its columns don't bound its set of values."""
    text = sql(key).lower()
    aliases = (
        item.alias.lower()
        for item in select.expressions
        if isinstance(item, exp.Alias) and sql(item.this).lower() == text
    )
    columns = every(key, exp.Column) if is_repeatable(key) else ()
    return (next(aliases, ""), *dict.fromkeys(column.name.lower() for column in columns))


def is_bounded(key: exp.Expr, select: exp.Select) -> bool:
    """Whether a key over a SELECT's input has a bounded set of values by its expression: it has finitely many, or is
    constant."""
    is_constant = key.find(exp.Column, exp.Query) is None and is_repeatable(key)
    return is_constant or is_finite(key, select)


def constant_domain_columns(key: exp.Expr, select: exp.Select) -> set[str]:
    """Returns the columns of a key that ``constant_domains`` has to name to bound its set of values."""
    alias, *columns = key_names(key, select)
    # Spark's name of a computed column is no identifier.
    return {alias} if alias.isidentifier() else {*columns}


def unbounded_state_message(growth: UnboundedState, domains: frozenset[str]) -> str:
    """Returns the message for a query whose state is unbounded, with what would bound it, but without the final period.

    Args:
        domains: columns declared to have bounded sets of values, which the proposed list repeats, as other keys may
            need them.
    """
    missing = (growth.columns or frozenset()) - domains
    domain = (
        f"constant_domains: {sorted(missing | domains)} if the set of their values doesn't grow"
        if missing
        else ""
    )
    instead = f"{growth.instead} To have the query as it is: " if growth.instead else ""
    found = f"{instead}The state of this query grows without bound: it keeps {growth.what} that ever comes."
    if not growth.expires:
        instead_of_key = "Use keys with few values, such as a column that constant_domains can list"
        return f"{found} {f'Set {domain}' if domain else instead_of_key}{growth.or_else}"
    or_domain = f", or {domain}" if domain else ""
    ttl = intervals.format(7 * intervals.DAY)
    return f"{found} Set state_ttl (as in '{ttl}') to forget what was idle for so long{or_domain}{growth.or_else}"
