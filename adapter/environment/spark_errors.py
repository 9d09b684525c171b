"""Turns Spark's errors into readable messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..sources.file_types import explain_file_error
from ..sources.messages import (
    exception_text,
    is_plan_or_stack_line,
    unreachable_path_message,
    unreachable_topic_message,
    without_internal_names,
)
from ..sources.stream_source import with_declared_names
from ..sources.unreadable import refusal_text
from ..util.redaction import without_secrets
from .memory import out_of_memory_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CAUSE = re.compile(r"^\s*Caused by: (?:[\w.$]+(?:Exception|Error): )?(.+)$", re.M)
_CLASS = re.compile(r"^(?:An error occurred while calling [\w.]+\.?\s*:?\s*)?(?:[a-z]\w*\.)+(?:[\w$]+): ")

_POSITION = re.compile(r"; line \d+ pos \d+(?=;|\s*$)", re.M)
"""A position in generated SQL, which means nothing to the author of the query."""

_NO_TABLE = re.compile(
    r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (\S+) cannot be found\..*?(?=SQLSTATE|\Z)", re.S
)

_GENERATED = re.compile(
    r"(?: \(line \d+, pos \d+\))?\n+== SQL ==\n[^\0]*?(?:explain extended |/\*\+ STREAM \*/)[^\0]*"
)
"""The position of a syntax error in generated SQL, followed by that SQL."""
_JOB = re.compile(r"^Job aborted due to stage failure\b[^\0]*")
"""The message on a failed job, which names machines and tasks. Its cause follows."""

_NOT_PARTITIONED = re.compile(r"Couldn't find column (?P<column>\S+) in:\s*root(?P<columns>(?:\s*\|-- .*)+)")
_PARTITION_DROPPED = re.compile(r"Cannot find source column for partition field: \d+: (?P<field>[^:]+): ")
_NO_TRANSFORM = re.compile(r"Transform is not supported: (?P<transform>.+)")
_COLUMN = re.compile(r"^\s*\|-- (.+?): ", re.M)

_NOT_UNIQUE = (
    "The unique_key isn't unique: several rows of the query have the same key, and each would change the same row of "
    "the table. Add the columns in which they differ to unique_key, or keep one row per key in the query."
)


def spark_exceptions() -> tuple[type[Exception], ...]:
    """Returns the exceptions of PySpark and py4j for an ``except`` clause, so that PySpark is only imported on an error."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException


def can_parse(spark: SparkSession, statement: str) -> bool:
    """Returns whether a session's parser, with its extensions, can parse a statement."""
    try:
        spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    except spark_exceptions():
        return False
    return True


def readable_error(problem: BaseException) -> str:
    """Returns the message of an exception and its cause, without plans, stack traces and secrets."""
    return without_internal_names(with_declared_names(without_secrets(_unredacted_message(problem))))


def _unredacted_message(problem: BaseException) -> str:
    whole = exception_text(problem)
    text = _java_message(problem) or whole
    both = f"{text}\n{whole}"
    lines = []
    for line in text.splitlines():
        if is_plan_or_stack_line(line):
            break
        lines.append(line)
        # The statement's plan follows.
        if line.endswith(";") and "[USER_RAISED_EXCEPTION]" not in text:
            break
    if "MERGE_CARDINALITY_VIOLATION" in text:
        return _NOT_UNIQUE
    if other := explain_file_error(both):
        return f"{other[0].upper()}{other[1:]}"
    if unread := refusal_text(both):
        return unread
    if why := out_of_memory_message(both):
        return why
    if why := unreachable_topic_message(both):
        return f"A source can't be read from Kafka: {why}"
    if why := unreachable_path_message(both) or _partitioning_message(text):
        return f"{why[0].upper()}{why[1:]}"
    message = (
        _POSITION.sub("", _CLASS.sub("", "\n".join(lines))).strip().rstrip(";") or type(problem).__name__
    )
    message = _GENERATED.sub("", _NO_TABLE.sub(_missing_table_message, message))
    causes = [cause.strip() for cause in _CAUSE.findall(whole)]
    if causes and causes[-1] not in message:
        message = causes[-1] if _JOB.match(message) else f"{message}\n{causes[-1]}"
    return message


def _partitioning_message(text: str) -> str | None:
    """Returns the message on a `partition_by` that Iceberg can't carry out; None if the error is another one.

    >>> _partitioning_message("Couldn't find column day in:\\nroot\\n |-- page: string (nullable = true)\\n |-- n: int")
    "config 'partition_by' names day, which isn't a column of the query; its columns are page, n."
    """
    if found := _NOT_PARTITIONED.search(text):
        columns = ", ".join(_COLUMN.findall(found["columns"]))
        named = found["column"]
        return f"config 'partition_by' names {named}, which isn't a column of the query; its columns are {columns}."
    if found := _PARTITION_DROPPED.search(text):
        return (
            f"the table is partitioned by {found['field']}, whose column the query no longer gives, and Iceberg can't drop "
            "it. Keep the column in the query, set on_schema_change to 'append_new_columns', or rebuild the table with "
            "--full-refresh."
        )
    if found := _NO_TRANSFORM.search(text):
        return (
            f"config 'partition_by' has {found['transform'].strip()}, which is no transform of Iceberg; there are years, "
            "months, days, hours, bucket and truncate."
        )
    return None


def _missing_table_message(found: re.Match[str]) -> str:
    """Returns Spark's message about a table that isn't there with advice for an author of models."""
    advice = "no CTE above has this name; a model is read by ref('…')"
    if "`.`" in found[1]:
        advice = (
            "a model or seed has to be built first; a source whose rows are files or messages says so in its YAML: "
            "config: {meta: {stream: {format: …, path: …}}}"
        )
    return f"[TABLE_OR_VIEW_NOT_FOUND] There is no table or view {found[1]}: {advice}. "


def _java_message(problem: BaseException) -> str | None:
    """Returns the message of a Java exception without its stack trace, or None."""
    java = getattr(problem, "java_exception", None)
    try:
        return str(java.toString()) if java is not None and java.getMessage() else None
    except Exception:
        return None  # the JVM has ended, which the whole text also says
