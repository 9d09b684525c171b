"""What tests ask of Spark: the rows of a table for comparisons in Python, and what a planner wants to know."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dbt.adapters.spark_streaming.environment.spark_errors import readable_error, spark_exceptions
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.sql.functions import QueryRunner
from tests.reference import to_datetime


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """The rows of a DataFrame, with instants as datetimes in UTC whatever zone this machine is in."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import TimestampType

    fields = table.schema.fields
    instants = [at for at, field in enumerate(fields) if isinstance(field.dataType, TimestampType)]
    columns = [table[f"`{field.name}`"] for field in fields]
    for at in instants:
        columns[at] = F.unix_micros(columns[at]).alias(fields[at].name)
    return [
        tuple(
            _instant(value) if at in instants and value is not None else value for at, value in enumerate(row)
        )
        for row in table.select(columns).collect()
    ]


def asks(spark: Any) -> QueryRunner:
    """Has the planner ask a session, as a run does."""

    def ask(query: str) -> tuple[object, ...]:
        try:
            return tuple(spark.sql(query).first() or ())
        except spark_exceptions() as problem:
            raise QueryError(readable_error(problem)) from problem

    return ask


def _instant(micros: int) -> datetime:
    return to_datetime(micros).replace(tzinfo=None)
