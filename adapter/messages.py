"""A Kafka message as a row: its value, taken apart as the source says it is written."""

from __future__ import annotations

from collections.abc import Mapping

from .literals import literal

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"
"""Spark's own way to Kafka, which doesn't come with Spark."""

VALUE_FORMATS = ("json",)

MESSAGE = "message"

_WHERE = ("subscribe", "subscribepattern", "assign")


def message(schema: str) -> str:
    """SQL for a message as a struct of the columns of `schema`; NULL where the value isn't readable."""
    return f"from_json(cast(value as string), {literal(schema)}) as {MESSAGE}"


def advice(problem: str) -> str:
    """What to do about a topic that can't be read."""
    if "DATA_SOURCE_NOT_FOUND" not in problem and "Failed to find" not in problem:
        return problem
    return f"Spark's connector for Kafka is missing. Name it under 'packages' in the profile: {CONNECTOR}"


def problem(options: Mapping[str, str], value_format: str | None, schema: str | None) -> str | None:
    """What is wrong with what a source says of its messages, if anything."""
    given = {name.lower() for name in options}
    if "kafka.bootstrap.servers" not in given or not given.intersection(_WHERE):
        return (
            "the format kafka needs 'kafka.bootstrap.servers' and one of 'subscribe', 'subscribePattern' and 'assign' "
            "under 'options'."
        )
    if value_format is None:
        if schema is not None:
            return (
                "'schema' says what is in a message, but not how it is written; say 'value_format: json' too, or leave "
                "both out and take the column value apart in a model."
            )
    elif value_format not in VALUE_FORMATS:
        return (
            f"'value_format' is {value_format!r}; write 'json', or leave it and 'schema' out and take the column value "
            "apart in a model."
        )
    elif schema is None:
        return "'value_format: json' needs a 'schema': the columns of a message."
    return None
