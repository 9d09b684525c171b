"""Finds the relations that are read through their changelog: models whose tables are updated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..query.errors import QueryError
from ..query.frontend.streams import RelationInfo
from ..query.normalize.names import own_names
from ..stream.common.identifiers import last_part
from ..stream.common.model import changelog_name
from ..stream.iceberg.table import IcebergTable, load_table
from ..stream.sink.changelog import KEY_PROPERTY, REPLACED_PROPERTY
from ..stream.sink.incremental_runs import have_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_changelogs(
    spark: SparkSession, known: Mapping[str, RelationInfo], tables: Mapping[str, str]
) -> Mapping[str, RelationInfo]:
    """Adds changelogs, keys and columns with possibly reserved names to what the project declares of relations.

    Args:
        tables: relation → full table name.

    Raises:
        QueryError: rows of a table are updated, and it has no changelog.
    """
    found = dict(known)
    for relation, table in tables.items():
        loaded = _load_iceberg_table(spark, relation, table)
        changelog = load_table(spark, changelog_name(table))
        key = changelog.property(KEY_PROPERTY) if changelog is not None else None
        if changelog is not None and key is not None:
            _check_changelog_complete(loaded, relation)
            found[relation] = replace(
                found.get(relation, RelationInfo()),
                key=tuple(json.loads(key)),
                changes=True,
                columns=_reserved_looking_names(changelog.column_names),
            )
            continue
        _add_reserved_looking_columns(found, relation, loaded)
        if loaded is not None and loaded.property(REPLACED_PROPERTY) is not None:
            if changelog is not None:
                _check_changelog_complete(loaded, relation)
                # The table has no key: each change has the complete row that is inserted or retracted.
                found[relation] = replace(found.get(relation, RelationInfo()), key=(), changes=True)
                continue
            name = last_part(table)
            raise QueryError(
                f"Rows of {relation} change, and it has no changelog yet. Run it again, `dbt run --select {name}`: it gets "
                "one, now that a streaming model reads it. If only batch models read it, set its config changelog: true "
                "first."
            )
    return found


def _check_changelog_complete(table: IcebergTable | None, relation: str) -> None:
    """Raises if a changelog is incomplete: an incremental run has written to the table since it was a streaming model."""
    if table is not None and have_written(table):
        raise QueryError(
            f"{relation} was a streaming model, and an incremental run has since added rows that aren't in its "
            "changelog. Rebuild it with its present materialization, then this model: `dbt run --full-refresh --select "
            f"{last_part(table.name)}+`."
        )


def _load_iceberg_table(spark: SparkSession, relation: str, table: str) -> IcebergTable | None:
    from pyspark.errors import IllegalArgumentException

    try:
        return load_table(spark, table)
    except IllegalArgumentException as problem:
        if "is not an Iceberg table" not in str(problem):
            raise
        raise QueryError(
            f"{relation} is a table in another format than Iceberg's, so it can't be read as a stream. Streams are Iceberg "
            "tables, folders of files, and topics of Kafka. Have an incremental model copy new rows to an Iceberg "
            "table, and read that."
        ) from problem


def with_reserved_looking_columns(
    spark: SparkSession, known: Mapping[str, RelationInfo], tables: Mapping[str, str]
) -> Mapping[str, RelationInfo]:
    """Adds columns with possibly reserved names to what the project declares of relations. Takes the arguments of
    `with_changelogs`."""
    found = dict(known)
    for relation, table in tables.items():
        _add_reserved_looking_columns(found, relation, load_table(spark, table))
    return found


def _add_reserved_looking_columns(
    found: dict[str, RelationInfo], relation: str, table: IcebergTable | None
) -> None:
    if table is not None and (columns := _reserved_looking_names(table.column_names)):
        found[relation] = replace(found.get(relation, RelationInfo()), columns=columns)


def _reserved_looking_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns whose names could be mistaken for reserved names of generated SQL.

    >>> _reserved_looking_names(["id", "window_start", "__row_time", "part"])
    ('__row_time',)
    """
    return tuple(filter(own_names.may_be_ours, columns))
