"""Explains exceptions of a stream to the model's author, in sentences."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbt_common.exceptions import DbtRuntimeError

from ...environment.memory import out_of_memory_message
from ...environment.storage import StorageError
from ...sources.file_types import explain_file_error
from ...sources.messages import (
    exception_text,
    is_plan_or_stack_line,
    says_messages_are_lost,
    unreachable_path_message,
    unreachable_topic_message,
    without_internal_names,
)
from ...sources.stream_source import with_declared_names
from ...sources.unreadable import refusal_text
from ...util.redaction import Cause, without_secrets
from .identifiers import parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .model import StreamModel


# Longest exception_chain of causes to follow: Java allows cycles.
_DEPTH = 30


class StreamError(DbtRuntimeError):
    """A stream can't start or continue. `msg` names the model, what was found and what to do."""

    is_unknown = False
    """Whether `msg` is the message of a library's error that has no explanation here."""

    def __init__(self, msg: str) -> None:
        super().__init__(with_declared_names(without_secrets(msg)))

    def without_name(self, model: str) -> str:
        """Returns the message without the name of a model at its beginning, for a message that has it already."""
        return self.msg.removeprefix(f"Model {model}: ")


class TransientError(StreamError):
    """A stream can't continue now, but the next run can without a change of the model."""


def explain(model: StreamModel, problem: BaseException) -> StreamError:
    """Converts an exception of a running stream to an error with a sentence for the model's author, about the innermost
    cause: Spark wraps an error of a micro-batch several times (the stream, the callback, the job, the task)."""
    link = next(
        (each for each in exception_chain(problem) if isinstance(each, StreamError | StorageError)), None
    )
    if link is not None:
        # A new error, because `link` may be a cause of `problem` and must not become its own cause.
        found = StreamError(link.msg)
        found.is_unknown = getattr(link, "is_unknown", True)
    else:
        text = cause_text(problem)
        known = _explain_known(model, text)
        found = StreamError(known or f"Model {model.name}: {_first_cause(text)}")
        found.is_unknown = known is None
    found.__cause__ = problem
    return found


def cause_text(problem: BaseException) -> str:
    """Returns the messages of an exception and of its causes, including those in the JVM."""
    return "\n".join(full_message(link) for link in exception_chain(problem))


@contextmanager
def readable_errors(model: StreamModel) -> Iterator[None]:
    """Raises the exceptions of a block as `StreamError`."""
    try:
        yield
    except StreamError:
        raise
    except Exception as problem:
        raise explain(model, problem) from problem


def exception_chain(problem: BaseException | None, with_hidden: bool = True) -> Iterator[BaseException]:
    """Yields an exception and its causes, outermost first. A `Cause` is replaced by the exception that it wraps.
    `with_hidden`: whether to include exceptions that `raise … from None` hides in a traceback."""
    seen: set[int] = set()  # `raise x from y` inside `except` of y makes a cycle
    while problem is not None and id(problem) not in seen:
        seen.add(id(problem))
        if isinstance(problem, Cause):
            problem = problem.problem
            continue
        yield problem
        is_hidden = problem.__suppress_context__ and not with_hidden
        problem = problem.__cause__ or (None if is_hidden else problem.__context__)


def full_message(problem: BaseException) -> str:
    """Returns the message, and a "Caused by" line for each exception of the JVM."""
    java = getattr(problem, "java_exception", None) or getattr(problem, "_origin", None)
    messages = [exception_text(problem)]
    try:
        while java is not None and len(messages) < _DEPTH:
            messages.append(f"Caused by: {java.toString()}")
            java = java.getCause()
    except Exception as why:
        # The JVM has ended, so the other causes can't be read.
        messages.append(exception_text(why))
    return "\n".join(messages)


_FILE = re.compile(r"(?P<file>\b[A-Za-z][\w+.-]*:/[^\s,;'\"`]+)")
_UNREADABLE = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|is not a Parquet file|Malformed ORC|MALFORMED_RECORD"
)
_NOT_APPENDED = re.compile(r"Cannot process (?P<kind>overwrite|delete) snapshot", re.IGNORECASE)
_SNAPSHOT_GONE = re.compile(
    r"Cannot load current offset at snapshot|[Cc]annot find (?:next )?snapshot|Snapshot\.parentId\(\)\" is null"
)
_OTHER_TABLE = re.compile(r"Table UUID does not match")
_DROPPED = re.compile(r"Failed to load table (?P<table>\S+) from catalog \S+ dropped by another process")
_OTHER_SOURCES = re.compile(
    r"Did not find value which can be converted into long|number of sources in the checkpoint|Cannot parse offset"
)
_TWO_WRITERS = re.compile(
    r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|Multiple streaming queries are concurrently using"
)


_USES_MAP = re.compile(
    r"INVALID_ORDERING_TYPE[^\n]*MAP<|HASH_MAP_TYPE|SET_OPERATION_ON_MAP_TYPE|GROUP_BY[^\n]*MAP TYPE",
    re.IGNORECASE,
)
_COLLATED = re.compile(
    r"INDETERMINATE_COLLATION|INCOMPATIBLE_COLUMN_TYPE\]? UNION can only be performed [^\n]*STRING COLLATE"
)
_OTHER_COLUMNS = re.compile(
    r"INCOMPATIBLE_COLUMN_TYPE\]? UNION can only be performed [^\n]*STRUCT<|column \S+ has other fields in it than it had"
)
_PYTHON_ERROR = re.compile(
    r"PythonException:[^\0]{0,300}?Traceback \(most recent call last\):\n(?:[ \t].*\n|\s*\n)+"
    r"(?P<said>[A-Za-z_][\w.]*(?::.*)?)"
)


def collation_message(model: StreamModel) -> str:
    """Returns the message for a query whose state stores, or is compared with, strings that have a collation."""
    return (
        f"Model {model.name}: its query keeps texts with a collation in its state: as a key, as the value of an aggregate, "
        "in the order of a ranking, or in stored rows. Tables of Iceberg have no collations, so these texts would be "
        "compared byte by byte from then on. Write lower(…) instead of COLLATE UTF8_LCASE, or add COLLATE UTF8_BINARY to "
        "what is kept; in WHERE, a collation is allowed."
    )


def _explain_known(model: StreamModel, text: str) -> str | None:
    found = _explain_values(model, text) or _explain_query(model, text) or _explain_tables(model, text)
    if found is None and (why := out_of_memory_message(text)):
        return (
            f"Model {model.name}: {why} What was committed is in its table, and the next run continues from there; it "
            "ingests a large micro-batch in smaller pieces if the stream has an event time."
        )
    return found or _explain_kafka(model, text)


def _explain_values(model: StreamModel, text: str) -> str | None:
    """Returns the message for values or files that can't be read."""
    if why := unreachable_path_message(text):
        return f"Model {model.name}: {why}"
    if unread := refusal_text(text):
        return f"Model {model.name}: {unread} No row of this micro-batch was ingested."
    if raised := _PYTHON_ERROR.search(text):
        return f"Model {model.name}: a Python function of the query raised {raised['said'].strip()}"
    if other := explain_file_error(text):
        return f"Model {model.name}: {_file_source_phrase(model, text)}{other} No row of this micro-batch was ingested."
    found = _FILE.search(text) if _UNREADABLE.search(text) else None
    if found is None:
        return None
    file = found["file"].rstrip(".")
    source = next((s for s in model.sources if s.is_files and s.holds(file)), None)
    what = f"as {source.format}, as source {source.relation} says it is" if source else "by Spark"
    return (
        f"Model {model.name}: the file {file} can't be read {what}{_reason_in_brackets(text, file)}. Correct the "
        "source's format or options; or remove the file, and set the source's option 'ignoreMissingFiles: true'. No row "
        "of this micro-batch was ingested."
    )


def _reason_in_brackets(text: str, file: str) -> str:
    """Returns the reason why a file can't be read, in brackets; empty if the exceptions only name the file."""
    why = _first_cause(text).rstrip(".")
    return "" if not why or file in why or _UNREADABLE.search(why) else f" ({why})"


def _explain_query(model: StreamModel, text: str) -> str | None:
    """Returns the message for a query that Spark or Iceberg can't execute."""
    if _USES_MAP.search(text):
        return (
            f"Model {model.name}: its query compares or orders MAPs, which Spark can't: in an aggregate such as "
            "max_by(), a key, a join, or an updating input. Write map_entries(…) or to_json(…) of the MAP "
            "instead, as in max_by(map_entries(m), ts)."
        )
    if _COLLATED.search(text):
        return collation_message(model)
    if _OTHER_COLUMNS.search(text):
        return (
            f"Model {model.name}: the rows in its state have other columns than those that arrive now; most likely a "
            "source that the query reads with '*' has gained or lost a column, or one of its structs a field. Name the "
            "earlier columns instead of the '*', or restore the earlier fields, and the state is continued; or rebuild the "
            f"model: {model.rebuild}."
        )
    return None


def _explain_tables(model: StreamModel, text: str) -> str | None:
    """Returns the message for a table or checkpoint that was changed, replaced or dropped."""
    if changed := _NOT_APPENDED.search(text):
        kind = changed["kind"].lower()
        return rows_changed_message(
            model, kind, [source.location for source in model.sources if source.is_table]
        )
    if _SNAPSHOT_GONE.search(text):
        return (
            f"Model {model.name}: a source no longer has the snapshots after the last one that was read (the table was "
            f"replaced, or its snapshots expired). Rebuild the model with {model.rebuild}."
        )
    if _OTHER_TABLE.search(text):
        return (
            f"Model {model.name}: a table that it reads or writes was replaced while it ran (as by `dbt-stream deploy "
            f"promote`). What was committed is in its table. `dbt run --select {model.name}` continues, or says what to do."
        )
    if gone := _DROPPED.search(text):
        if parts(gone["table"])[-2:] == parts(model.target)[-2:]:
            return (
                f"Model {model.name}: its own table {gone['table']} was dropped while the model ran. Rebuild it: "
                f"{model.rebuild}."
            )
        return (
            f"Model {model.name}: the table {gone['table']} was dropped while the model ran. What was committed is in "
            f"its table. Create it again, then rebuild this model: {model.rebuild}."
        )
    if _OTHER_SOURCES.search(text):
        return (
            f"Model {model.name}: its checkpoint was made for other sources than it has now (a table in place of a "
            f"folder, or more of them). Rebuild it with {model.rebuild}."
        )
    if _TWO_WRITERS.search(text):
        return (
            f"Model {model.name}: another run of it is writing to {model.checkpoint}. Wait until it ends, or "
            f"stop it with `dbt-stream stop {model.name}`."
        )
    return None


def _file_source_phrase(model: StreamModel, text: str) -> str:
    """Returns the beginning of a sentence about a file: the source whose folder contains it, or an empty text."""
    found = _FILE.search(text)
    source = found and next((s for s in model.sources if s.is_files and s.holds(found["file"])), None)
    return f"of its source {source.name or source.relation} " if source else ""


def _explain_kafka(model: StreamModel, text: str) -> str | None:
    topics = " or ".join(source.relation for source in model.sources if source.format == "kafka")
    if not topics:
        return None
    if why := unreachable_topic_message(text):
        return f"Model {model.name}: its stream {topics} can't be read from Kafka: {why}"
    if says_messages_are_lost(text):
        return (
            f"Model {model.name}: messages that come next in its stream {topics} are no longer in Kafka (they were "
            f"deleted before they were read, or the topic was recreated). Rebuild the model with {model.rebuild}, or "
            "skip what is lost with the source's option 'failOnDataLoss: false'."
        )
    return None


def rows_changed_message(model: StreamModel, kind: str, tables: Iterable[str]) -> str:
    """Returns the message for a source table with an ``overwrite`` or ``delete`` snapshot. A stream reads only appends."""
    tables = [*tables]
    # Nodes have no options of streams.
    can_skip = not all(map(model.is_node, tables))
    skip = (
        f" Such changes are skipped with the source's option 'streaming-skip-{kind}-snapshots'."
        if can_skip
        else ""
    )
    return (
        f"Model {model.name}: rows of a source were changed or deleted (an Iceberg {kind} snapshot), and a stream "
        "reads only appended rows, from the table's first snapshot on. Rebuild the table from scratch and this model "
        f"with it ({' or '.join(map(model.rebuild_command, tables))}).{skip}"
    )


_CAUSE = re.compile(r"^(?:Caused by:\s*)?(?:[\w$]+\.)*(?P<name>[\w$]+(?:Exception|Error)):\s*(?P<text>.+)$")
# Exceptions that only wrap another one.
_WRAPPERS = {
    "StreamingQueryException",
    "ForeachBatchUserFuncException",
    "Py4JException",
    "Py4JJavaError",
    "SparkException",
    "ExecutionException",
    "RuntimeException",
}


def cause(problem: BaseException) -> str:
    """Returns the message of the innermost cause, as a sentence."""
    text = without_secrets(_first_cause(cause_text(problem)).strip())
    return text if text.endswith((".", "!")) else f"{text}."


def _first_cause(text: str) -> str:
    """Returns the message of the innermost exception that isn't a wrapper, from the messages of a exception_chain."""
    best, listed = "", False
    for line in text.splitlines():
        found = _CAUSE.match(line.strip())
        if found and (found["name"] not in _WRAPPERS or not best):
            best, listed = _shorten(found["text"]), True
        elif listed and line.startswith("\t") and not is_plan_or_stack_line(line):
            # Some messages continue with a list, one indented entry a line.
            best += f"\n{line.strip()}"
        elif line.strip():
            listed = False
    first = next((line.strip() for line in text.splitlines() if line.strip()), "the stream stopped")
    return _shorten(best or first)


def _shorten(message: str) -> str:
    return without_internal_names(re.sub(r"\s*SQLSTATE: \w+.*$", "", message).strip())
