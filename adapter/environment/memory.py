"""Tells that Spark ran out of memory, or that its JVM ended, out of what it says."""

from __future__ import annotations

import re

_NO_MEMORY = re.compile(
    r"OutOfMemoryError|Java heap space|GC overhead limit|UNABLE_TO_ACQUIRE_MEMORY|_EXECUTION_MEMORY"
)


_JVM_GONE = re.compile(
    r"Answer from Java side is empty|Error while sending(?: or receiving|$)|py4j does not exist in the JVM|"
    r"occurred while trying to connect to the Java server|\[Errno (?:104|111)\] Connection re|Java gateway process exited|"
    # What py4j says of a call that the JVM didn't live to answer. Of one that failed, more follows.
    r"An error occurred while calling [\w.]*\w$",
    re.MULTILINE,
)


def out_of_memory(text: str) -> str | None:
    """What to do where Spark ran out of memory, or its JVM ended, as it does then; None if that isn't so.

    >>> out_of_memory("java.lang.OutOfMemoryError: Java heap space")[:29]
    "Spark's memory is used up. Gi"
    """
    more = (
        "'spark.driver.memory' under 'server_side_parameters' in the profile (2g where it says nothing), on a cluster "
        "'spark.executor.memory' too."
    )
    if _NO_MEMORY.search(text):
        return f"Spark's memory is used up. Give it more: {more}"
    if "PythonException" in text:
        return None  # of a Python function in the query, which may be connected with anything
    if _JVM_GONE.search(text):
        from ..environment.java import how_the_jvm_ended, jvm_answers

        if (ended := how_the_jvm_ended()) is not None:
            return ended
        if jvm_answers():
            return None  # of another connection: to a catalog, a broker, a store
        return f"Spark's JVM has ended. If that was for lack of memory, give it more: {more}"
    return None
