"""Checks the arguments of the macro ``as_of()``."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from dbt.adapters.base.relation import BaseRelation
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..query.errors import EVENT_TIME_IN_YAML, QueryError
from ..query.frontend.streams import RelationInfo
from ..query.sql.dialect import DIALECT
from ..util.quoting import is_path, quote_path, time_name_text
from ..util.settings import is_columns

_FIXTURE = "__dbt__cte__"
"""Prefix of the name of the CTE with the rows that a dbt unit test gives for a relation."""


class VersionsInFrom(NamedTuple):
    """Arguments of `expansion.expand_as_of`."""

    relation: str
    time: str
    version_time: str
    key: tuple[str, ...]


def name_of_versions(relation: object) -> str:
    """Returns the name of a relation with versions, without the filter of a microbatch, of ``--sample`` or of ``--empty``:
    versions from before a range are valid in it."""
    return relation.render() if isinstance(relation, BaseRelation) else str(relation)


def as_of_arguments(relation: str, time: object, key: object, known: RelationInfo | None) -> VersionsInFrom:
    """Returns the arguments of an expansion of ``as_of()``.

    Args:
        time: column with the time, of a relation before this one in FROM.
        key: columns that identify what a row is a version of; None for the source's unique_key.

    >>> as_of_arguments("rates", "o.at", None, RelationInfo("changed_at", ("currency",)))
    VersionsInFrom(relation='rates', time='`o`.`at`', version_time='changed_at', key=('currency',))
    """
    known = known or RelationInfo()
    if known.event_time is None:
        raise QueryError(
            f"as_of() over {relation}: nothing says from when a row is valid; give it {EVENT_TIME_IN_YAML}."
        )
    if is_path(known.event_time):
        raise QueryError(
            f"as_of() over {relation}: its event_time {time_name_text(known.event_time)} is a field of a column; select it "
            "as a separate column in a model, and read that."
        )
    return VersionsInFrom(
        relation, _qualified_time(relation, time), known.event_time, _version_key(relation, key, known)
    )


def declared_relation(relation: str, graph: Any) -> str:
    """Returns the relation that a unit test replaces by its rows; another relation unchanged.

    >>> rates = {"source_name": "raw", "name": "rates", "relation_name": "`db`.`rates`"}
    >>> declared_relation("__dbt__cte__raw__rates", {"sources": {"source.shop.raw.rates": rates}})
    '`db`.`rates`'
    """
    name = relation.strip("`")
    if not name.startswith(_FIXTURE):
        return relation
    for group in ("sources", "nodes"):
        for node in (graph or {}).get(group, {}).values():
            names = "__".join(filter(None, (node.get("source_name"), node.get("name"))))
            if name == f"{_FIXTURE}{names}" and node.get("relation_name"):
                return str(node["relation_name"])
    return relation


def _version_key(relation: str, key: Any, known: RelationInfo) -> tuple[str, ...]:
    if key is None:
        if not known.key:
            raise QueryError(
                f"as_of() over {relation}: nothing says what a row is a version of; give the source a unique_key, or write "
                "as_of(…, key=['…'])."
            )
        return known.key
    if not is_columns(key):
        raise QueryError(f"as_of() over {relation}: key is {key!r}; write a column or a list of columns.")
    return (key,) if isinstance(key, str) else tuple(key)


def _qualified_time(relation: str, time: object) -> str:
    """Returns the quoted path of a column with its relation's name."""
    column: exp.Expr | None = None
    with suppress(SqlglotError):
        column = exp.maybe_parse(str(time), dialect=DIALECT)
    if not isinstance(column, exp.Column) or not column.table or column.args.get("db"):
        raise QueryError(
            f"as_of() over {relation}: '{time}' is not a column qualified by its relation; write the event time of the "
            "rows on the other side, as in 'o.ordered_at'."
        )
    return quote_path(part.name for part in column.parts)
