"""What a source says of Kafka's messages, and what Kafka's client says that went wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"
"""Spark's own way to Kafka, which doesn't come with Spark."""

VALUE_FORMATS = ("json",)

_WHERE = ("subscribe", "subscribepattern", "assign")

_NO_TOPIC = re.compile(r"UnknownTopicOrPartitionException|does not host this topic-partition")
_NO_BROKER = re.compile(r"Timed out waiting for a node assignment|No resolvable bootstrap urls")
_LOST = re.compile(r"KAFKA_DATA_LOSS|may have been lost because they are not available in Kafka")

# In words, or for a partition in Spark's JSON.
_LATEST = re.compile(r"^\s*latest\s*$|:\s*-1\b", re.IGNORECASE)


def in_batch(options: Mapping[str, str]) -> dict[str, str]:
    """Options to read a topic with as a table.

    A stream may begin with the messages that come next. A table of those would have no rows, so Spark refuses it:
    it begins with the oldest.

    >>> in_batch({"subscribe": "bids", "startingOffsets": "latest"})
    {'subscribe': 'bids'}
    >>> in_batch({"startingOffsets": '{"bids": {"0": 23}}'})
    {'startingOffsets': '{"bids": {"0": 23}}'}
    """
    return {
        name: value
        for name, value in options.items()
        if name.lower() != "startingoffsets" or not _LATEST.search(value)
    }


def advice(problem: str) -> str:
    """What to do about a topic that can't be read."""
    if "DATA_SOURCE_NOT_FOUND" not in problem and "Failed to find" not in problem:
        return problem
    return f"Spark's connector for Kafka is missing. Name it under 'packages' in the profile: {CONNECTOR}"


_MACHINERY = re.compile(
    r"['!+:]|\s*at [\w.$/<>-]+\(|\s*Suppressed: |JVM stacktrace|Driver stacktrace|Traceback|\s*\.\.\. \d+ more"
)


def is_machinery(line: str) -> bool:
    """Returns whether a line of a message is of a query plan or a stack trace. A list may begin with a TAB as well.

    >>> [is_machinery(f"\t{each}") for each in ("at java.base/java.lang.Thread.run(Thread.java:840)", "- cents: at most 2")]
    [True, False]
    """
    return _MACHINERY.match(line) is not None


_INTERNAL = re.compile(r"(?<![\w`.])`?(?:rows?|input|step|windows|[a-z_]+_[0-9a-f]{8,}(?:_\w+)?)`?\.(?=`)")


def without_internal_names(text: str) -> str:
    """Returns a message in which columns stand without the names that generated SQL has for relations.

    >>> without_internal_names("`rows`.`orderd_at` cannot be resolved. One of [`rows`.`at`, `top_04cc1f9a`.`id`]?")
    '`orderd_at` cannot be resolved. One of [`at`, `id`]?'
    """
    return _INTERNAL.sub("", text)


def said(problem: BaseException) -> str:
    """The text of an exception. One of Java's asks the JVM for it, and where that has ended, this is what tells so."""
    try:
        return str(problem)
    except Exception as why:
        return f"{type(why).__name__}: {why}"


def unreachable(text: str) -> str | None:
    """Why a topic can't be reached and what to do, from what Kafka's client says; None if that is about something else.

    >>> unreachable("No resolvable bootstrap urls given in bootstrap.servers")
    "no broker answers. Check 'kafka.bootstrap.servers' under the source's 'options', and the network."
    """
    if _NO_TOPIC.search(text):
        return "there is no such topic. Create it, or correct its name under the source's 'options'."
    if _NO_BROKER.search(text):
        return "no broker answers. Check 'kafka.bootstrap.servers' under the source's 'options', and the network."
    return None


def is_lost(text: str) -> bool:
    """Whether Spark says that messages a stream would read next are gone."""
    return _LOST.search(text) is not None


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
