"""Whether the state of a query without windows can grow for ever, and what would bound it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sqlglot import exp

from .. import intervals
from ..dialect import DIALECT, sql
from ..errors import QueryError
from ..plan import GroupStage, JoinStage, Key, KeyedStage, Plan, Stage, TopStage, UnboundedState

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
    return (*(aliases or [""]), *columns)


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


def unbounded(
    plan: Plan, ttl: int | None, domains: Collection[str]
) -> Iterator[tuple[Stage, UnboundedState]]:
    """The stages of a plan whose state can grow for ever. Arguments as of `check`."""
    known = {name.lower() for name in domains}
    for stage in plan.stages if ttl is None else ():
        grown: UnboundedState | None = getattr(stage, "growth", None)
        if grown is not None and not _is_bounded(grown, known):
            yield stage, grown


def check(plan: Plan, ttl: int | None, domains: Collection[str]) -> None:
    """Passes a plan whose state is bounded.

    Args:
        plan: of a query without windows.
        ttl: microseconds after which an idle key is forgotten.
        domains: columns whose set of values does not grow.

    Raises:
        QueryError: it isn't; with the query that would be.
    """
    known = {name.lower() for name in domains}
    for stage, grown in unbounded(plan, ttl, domains):
        if isinstance(stage, KeyedStage):
            raise QueryError(
                f"The state of this query grows for ever: it keeps the last row of every {', '.join(stage.key)}. Say "
                f"constant_domains: {sorted(stage.key)} if the set of their values doesn't grow."
            )
        keys = [key.sql for key in stage.keys] if isinstance(stage, GroupStage | TopStage) else []
        kept = f"for every value of {', '.join(keys)}" if keys else "for every row"
        domain = (
            ""
            if isinstance(stage, JoinStage) or not keys
            else (
                f", or constant_domains: {sorted(_missing(grown, known))} if the set of their values doesn't grow"
            )
        )
        raise QueryError(
            f"The state of this query grows for ever: it keeps something {kept} that ever comes. Set state_ttl "
            f"(as in '{intervals.format(7 * intervals.DAY)}') to forget what was idle for so long{domain}; or bound "
            f"it by time: {grown.bounded}"
        )


def _is_bounded(growth: UnboundedState, domains: Collection[str]) -> bool:
    return all(is_covered(names, domains) for names in growth.by)


def is_covered(names: tuple[str, ...], domains: Collection[str]) -> bool:
    alias, *columns = names or ("",)
    if not names:
        return False  # every row
    return alias in domains or all(column in domains for column in columns)


def _missing(growth: UnboundedState, domains: Collection[str]) -> set[str]:
    return {
        names[0] or next(iter(names[1:]), "")
        for names in growth.by
        if names and not is_covered(names, domains)
    }
