"""Checks the options of Kafka sources, and explains errors of Kafka's client and of formats whose connector is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .connectors import CONNECTORS

VALUE_FORMATS = ("json",)

_TOPIC_OPTIONS = ("subscribe", "subscribepattern", "assign")

_NO_TOPIC = re.compile(r"UnknownTopicOrPartitionException|does not host this topic-partition")
_NO_BROKER = re.compile(r"Timed out waiting for a node assignment|No resolvable bootstrap urls")
_LOST = re.compile(r"KAFKA_DATA_LOSS|may have been lost because they are not available in Kafka")

# The word, or -1 for a partition in Spark's JSON.
_LATEST = re.compile(r"^\s*latest\s*$|:\s*-1\b", re.IGNORECASE)


def batch_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options to read a topic as a table.

    A stream may begin with the next messages. Spark rejects that for a table, which would be empty, so it begins with
    the oldest.

    >>> batch_options({"subscribe": "bids", "startingOffsets": "latest"})
    {'subscribe': 'bids'}
    >>> batch_options({"startingOffsets": '{"bids": {"0": 23}}'})
    {'startingOffsets': '{"bids": {"0": 23}}'}
    """
    return {
        name: value
        for name, value in options.items()
        if name.lower() != "startingoffsets" or not _LATEST.search(value)
    }


def connector_advice(format: str, problem: str) -> str:
    """Returns the advice for a missing connector or schema; any other error of Spark is returned unchanged.

    >>> connector_advice("avro", "Failed to find data source: avro. Please deploy the application.")
    "Spark's connector for Avro is missing. Name it in the profile: packages: [avro]"
    >>> connector_advice("json", "Failed to find data source: json."), connector_advice("avro", "No files.")
    ('Failed to find data source: json.', 'No files.')
    """
    if _NO_COLUMNS.search(problem):
        return "no file there shows its columns. Declare them as 'schema' in the source's config.meta.stream."
    is_missing = "DATA_SOURCE_NOT_FOUND" in problem or "Failed to find" in problem
    if not is_missing or format not in CONNECTORS:
        return problem
    return f"{CONNECTORS[format].meaning} is missing. Name it in the profile: packages: [{format}]"


_NO_CLASS = re.compile(r"Class (\S+FileSystem) not found")
_NO_SCHEME = re.compile(r'No FileSystem for scheme "?([\w+.-]+)')
_NO_HOST = re.compile(r"UnknownHostException: ([\w.-]+)")
_NO_COLUMNS = re.compile(r"UNABLE_TO_INFER_SCHEMA")


def unreachable_path_message(text: str) -> str | None:
    """Explains why a path can't be reached at all; None if the error is another one.

    >>> unreachable_path_message("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found")
    "Spark's connector for S3 is missing. Name it in the profile: packages: [s3]"
    >>> unreachable_path_message("java.lang.IllegalArgumentException: java.net.UnknownHostException: nosuch")
    "there is no host 'nosuch'. Check the address, and the network."
    """
    if found := _NO_CLASS.search(text):
        if "s3a" in found[1]:
            return "Spark's connector for S3 is missing. Name it in the profile: packages: [s3]"
        return f"its path needs {found[1]}. Name the Maven coordinates that have it under 'packages' in the profile."
    if found := _NO_SCHEME.search(text):
        return (
            f"no file system is known for paths that begin with {found[1]}://. Correct the path, or name the Maven "
            "coordinates of the file system under 'packages' in the profile."
        )
    if found := _NO_HOST.search(text):
        return f"there is no host '{found[1]}'. Check the address, and the network."
    return None


_MACHINERY = re.compile(
    r"['!+:]|\s*at [\w.$/<>-]+\(|\s*Suppressed: |JVM stacktrace|Driver stacktrace|Traceback|\s*\.\.\. \d+ more"
)


def is_plan_or_stack_line(line: str) -> bool:
    """Returns whether a line of a message belongs to a query plan or a stack trace. A TAB alone doesn't
    mark a stack trace: lists use it, too.

    >>> lines = ("at java.base/java.lang.Thread.run(Thread.java:840)", "- cents: at most 2")
    >>> [is_plan_or_stack_line(f"\t{each}") for each in lines]
    [True, False]
    """
    return _MACHINERY.match(line) is not None


_RAW_RECORD = re.compile(r",? ?`?__raw_record`?:? STRING", re.IGNORECASE)
_RECORD = re.compile(r"`?\b__(?:value|line|message|text)\b`?")
_INTERNAL = re.compile(r"(?<![\w`.])`?(?:rows?|input|step|windows|[a-z_]+_[0-9a-f]{8,}(?:_\w+)?)`?\.(?=`)")


def without_internal_names(text: str) -> str:
    """Returns a message without the relation names of generated SQL before its columns.

    >>> without_internal_names("`rows`.`orderd_at` cannot be resolved. One of [`rows`.`at`, `top_04cc1f9a`.`id`]?")
    '`orderd_at` cannot be resolved. One of [`at`, `id`]?'
    >>> without_internal_names('Cannot resolve "from_json(__value)": "STRUCT<m: MAP<INT, STRING>, __raw_record: STRING>"')
    'Cannot resolve "from_json(record)": "STRUCT<m: MAP<INT, STRING>>"'
    """
    return _RECORD.sub("record", _RAW_RECORD.sub("", _INTERNAL.sub("", text)))


def exception_text(problem: BaseException) -> str:
    """Returns the text of an exception. A Java exception queries the JVM for it; if that has ended, the text says so."""
    try:
        return str(problem)
    except Exception as why:
        return f"{type(why).__name__}: {why}"


def unreachable_topic_message(text: str) -> str | None:
    """Explains why a topic can't be reached, from an error of Kafka's client; None if the error is another one.

    >>> unreachable_topic_message("No resolvable bootstrap urls given in bootstrap.servers")
    "no broker answers. Check 'kafka.bootstrap.servers' under the source's 'options', and the network."
    """
    if _NO_TOPIC.search(text):
        return "there is no such topic. Create it, or correct its name under the source's 'options'."
    if _NO_BROKER.search(text):
        return "no broker answers. Check 'kafka.bootstrap.servers' under the source's 'options', and the network."
    return None


def says_messages_are_lost(text: str) -> bool:
    """Returns whether an error says that messages which a stream would read next are gone."""
    return _LOST.search(text) is not None


def kafka_options_problem(
    options: Mapping[str, str], value_format: str | None, schema: str | None
) -> str | None:
    """Returns what is wrong with the options of a Kafka source; None if they are valid."""
    given = {name.lower() for name in options}
    if "kafka.bootstrap.servers" not in given or not given.intersection(_TOPIC_OPTIONS):
        return (
            "the format kafka needs 'kafka.bootstrap.servers' and one of 'subscribe', 'subscribePattern' and 'assign' "
            "under 'options'."
        )
    if value_format is None:
        if schema is not None:
            return (
                "'schema' says what is in a message, but not how it is written; say 'value_format: json' too, or leave "
                "both out and parse the column value in a model."
            )
    elif value_format not in VALUE_FORMATS:
        return (
            f"'value_format' is {value_format!r}; write 'json', or leave it and 'schema' out and parse the column value "
            "in a model."
        )
    elif schema is None:
        return "'value_format: json' needs a 'schema': the columns of a message."
    return None
