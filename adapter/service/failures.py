"""Classifies failures of a stream: transient ones are retried, those that need a change by the user are not."""

from __future__ import annotations

import re
from enum import Enum

from dbt_common.exceptions import CompilationError, DbtDatabaseError, DbtRuntimeError

from ..query.errors import QueryError
from ..stream.common.errors import StreamError, TransientError, exception_chain, full_message
from .preparation import PreparationError

_OURS = (DbtRuntimeError, QueryError)
_EXPLAINED = (StreamError, QueryError, CompilationError)
_OUTAGES = (ConnectionError, TimeoutError)


class Failure(Enum):
    """Kinds of failures."""

    TRANSIENT = "transient"
    """A retry may succeed: a service was unavailable, a disk full, or another commit came first."""
    PERMANENT = "permanent"
    """The failure recurs until somebody changes the query, the configuration or the data."""


# Spark's SQLSTATE classes of errors in a query, a value, a constraint or a type, and of errors that the query raises.
_SQLSTATE = re.compile(r"SQLSTATE: (?P<state>[0-9A-Z]{5})")
_AUTHORS_STATES = ("0A", "21", "22", "23", "42", "44", "P0")
# Error classes for messages that were cut to their first line, so that they have no SQLSTATE.
_AUTHORS_CLASSES = re.compile(
    r"\[(?:USER_RAISED_EXCEPTION|DIVIDE_BY_ZERO|CAST_\w+|ARITHMETIC_OVERFLOW|NUMERIC_\w+|UNRESOLVED_\w+|"
    r"TABLE_OR_VIEW_NOT_FOUND|DATATYPE_MISMATCH|PARSE_SYNTAX_ERROR|INVALID_\w+|UNSUPPORTED_\w+|NOT_NULL_\w+|"
    r"DELTA_\w+|MERGE_CARDINALITY_VIOLATION|CANNOT_PARSE_\w+|MALFORMED_\w+|NULL_\w+|COLUMN_\w+|AMBIGUOUS_\w+)"
)

_NOT_INSTALLED = re.compile(r"ClassNotFoundException|NoClassDefFoundError|No FileSystem for scheme")
# Checked before SQLSTATE: Spark gives one of these errors the SQLSTATE of an unsupported feature.
_TWO_RUNS = re.compile(
    r"\[(?:CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY)\b|"
    r"^\s*Model \S+: another run of it is (?:in progress|writing)",
    re.MULTILINE,
)

# Values, names and files in a message. They may contain any words, so they are removed before the message is searched.
# Quoted text of another exception doesn't match, so it is searched.
_QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|(?<!\w)'(?![^'\n]*(?:Errno|Error|Exception|https?:))[^'\n]*'(?!\w)|\{[^{}\n]*\}|"
    r"\bfile:/[^:,;\n]*/[^\s:,;]*|For input string: .*|(?:NumberFormat|DateTimeParse)Exception: .*"
)

_OUTAGE_TEXT = re.compile(
    "|".join(
        (
            # The network.
            r"connection (?:was |is |has been )?(?:refused|reset|closed|aborted|timed out|shut ?down|lost)",
            r"refused to connect|failed to connect|could not connect|can't connect|unable to connect",
            r"connect(?:ion)?timeout|connectexception|sockettimeout|socketexception",
            r"timed out|timeoutexception|timeout expired",
            r"broken pipe|no route to host|noroutetohost|unknownhost|network is unreachable|nohttpresponse",
            r"temporary failure in name resolution|name or service not known|premature end of|unexpected end of stream",
            r"connection pool shut down|disconnectexception|terminated the handshake",
            # Answers of an overloaded or unavailable service.
            r"(?:status(?: code)?|code|http(?:/\d\.\d)?|error)[:=\s(]{1,3}(?:429|5\d\d)\b",
            r"\b5\d\d (?:internal server error|bad gateway|service unavailable|gateway time-?out)",
            r"service ?unavailable|slow ?down|too ?many ?requests|throttl|internal server error|bad gateway|servicefailure",
            r"serverexception|internalerror\b|request limit exceeded|temporarily unavailable|try again later",
            # Disks and memory.
            r"no space left on device|disk quota exceeded|enospc|not enough space|out ?of ?memory|java heap space",
            r"gc overhead limit|_execution_memory|unable_to_acquire_memory|too many open files|input/output error",
            # Conflicts with a commit of another writer.
            r"commitfailedexception|commitstateunknown|cannot commit|found conflicting files|found new conflicting",
            r"missing required files to delete|concurrent (?:update|modification|append|commit)",
            r"database is locked|sqlite_busy",
            r"could not serialize access|deadlock|serialization failure",
            # Kafka.
            r"no broker answers|timed out waiting for a node assignment|no resolvable bootstrap urls|leader_?not_?available",
            r"unknowntopicorpartition|not_?leader_?(?:or_?follower|for_?partition)",
            r"coordinator (?:is )?not available|retriableexception",
            # The cluster.
            r"executorlost|fetchfailed|executor heartbeat timed out|worker lost|master removed|lost executor",
            # A table that `deploy promote` swapped.
            r"table uuid does not match",
        )
    ),
    re.IGNORECASE,
)


def classify_failure(problem: BaseException) -> Failure:
    """Returns whether a failure is transient or permanent.

    An error of this package is permanent, whatever words it quotes, unless it is a `TransientError` or was caused by an
    exception of Spark, Java or the operating system. Only the text of these foreign exceptions is searched for outages.
    An error that Spark attributes to the query or its values is permanent. Any other error is transient.
    """
    links = list(exception_chain(problem, with_hidden=False))
    if any(
        isinstance(link, TransientError) or says_model_runs_elsewhere(_exception_message(link))
        for link in links
    ):
        return Failure.TRANSIENT
    foreign = [link for link in links if not _is_own_message(link)]
    found = classify_message("\n".join(map(_exception_message, foreign)))
    if found is not None:
        return found
    if any(isinstance(link, _OUTAGES) for link in foreign):
        return Failure.TRANSIENT
    explained = any(isinstance(link, _EXPLAINED) and not getattr(link, "is_unknown", False) for link in links)
    return Failure.PERMANENT if explained or not foreign else Failure.TRANSIENT


def _is_own_message(link: BaseException) -> bool:
    """Returns whether the text of an exception was written by this package. A `PreparationError` quotes dbt; it counts as
    written here if the exception that dbt caught is known, because that exception is classified then."""
    if isinstance(link, PreparationError):
        return link.__cause__ is not None
    return isinstance(link, _OURS) and not isinstance(link, DbtDatabaseError)


def _exception_message(link: BaseException) -> str:
    return str(link.msg) if isinstance(link, DbtRuntimeError) else full_message(link)


def says_model_runs_elsewhere(text: str) -> bool:
    """Returns whether an error says that another run of the model is in progress."""
    return _TWO_RUNS.search(text) is not None


def classify_message(text: str) -> Failure | None:
    """Classifies the text of an exception and its causes. Returns None if no rule matches."""
    states = {found["state"] for found in _SQLSTATE.finditer(text)}
    if any(state.startswith(_AUTHORS_STATES) for state in states) or _AUTHORS_CLASSES.search(text):
        return Failure.PERMANENT
    if _NOT_INSTALLED.search(text):
        return Failure.PERMANENT
    return Failure.TRANSIENT if _OUTAGE_TEXT.search(_QUOTED.sub(" ", text)) else None
