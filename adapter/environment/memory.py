"""Recognizes from an error's text that Spark ran out of memory, or that its JVM ended."""

from __future__ import annotations

import re

_NO_MEMORY = re.compile(
    r"OutOfMemoryError|Java heap space|GC overhead limit|UNABLE_TO_ACQUIRE_MEMORY|_EXECUTION_MEMORY"
)

_JVM_GONE = re.compile(
    r"Answer from Java side is empty|Error while sending(?: or receiving|$)|py4j does not exist in the JVM|"
    r"occurred while trying to connect to the Java server|\[Errno (?:104|111)\] Connection re|Java gateway process exited|"
    # py4j's message of a call that the JVM didn't answer. For a call that failed, more text follows.
    r"An error occurred while calling [\w.]*\w$",
    re.MULTILINE,
)


def out_of_memory_message(text: str) -> str | None:
    """Returns a sentence if an error says that Spark ran out of memory or that its JVM ended, else None.

    >>> out_of_memory_message("java.lang.OutOfMemoryError: Java heap space")[:29]
    "Spark's memory is used up. Gi"
    """
    more = (
        "'spark.driver.memory' under 'server_side_parameters' in the profile (2g where it says nothing), on a cluster "
        "'spark.executor.memory' too."
    )
    if _NO_MEMORY.search(text):
        return f"Spark's memory is used up. Give it more: {more}"
    if "PythonException" in text:
        return None  # a Python function in the query lost a connection
    if _JVM_GONE.search(text):
        from .java import jvm_answers, jvm_end_message

        if (ended := jvm_end_message()) is not None:
            return ended
        if jvm_answers():
            return None  # another connection failed: to a catalog, a broker, a store
        return f"Spark's JVM has ended. If that was for lack of memory, give it more: {more}"
    return None
