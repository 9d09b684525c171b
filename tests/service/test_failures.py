"""What passes by itself, and what somebody has to mend."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from dbt_common.exceptions import CompilationError, DbtDatabaseError, DbtRuntimeError

from dbt.adapters.spark_streaming.environment.storage import Storage, StorageError
from dbt.adapters.spark_streaming.query.errors import (
    MissingKeyError,
    NotWithinWindows,
    QueryError,
    UnboundedStateError,
    UnintendedQueryError,
)
from dbt.adapters.spark_streaming.service.failures import Failure, classify_failure
from dbt.adapters.spark_streaming.service.preparation import PreparationError
from dbt.adapters.spark_streaming.stream.common.errors import StreamError, TransientError, explain
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.sources.source_schemas import SchemaChanged
from dbt.adapters.spark_streaming.util.redaction import redacted_cause

MODEL = StreamModel(
    "views",
    "shop.views",
    "shop.views__state",
    Storage("/nowhere", lambda: None),
    (StreamSource("raw.views", "", "kafka"),),
)


@pytest.mark.parametrize(
    "text",
    [
        "java.net.ConnectException: Connection refused",
        "java.net.SocketException: Connection reset",
        "org.apache.http.NoHttpResponseException: host failed to respond",
        "java.net.SocketTimeoutException: Read timed out",
        "java.net.UnknownHostException: broker-1",
        "S3Exception: Please reduce your request rate. (Service: S3, Status Code: 503)",
        "org.apache.iceberg.exceptions.ServiceFailureException: Server error: unknown",
        "org.apache.iceberg.exceptions.RESTException: Unable to process: HTTP/1.1 502 Bad Gateway",
        "java.io.IOException: No space left on device",
        "OSError: [Errno 28] No space left on device",
        "org.apache.iceberg.exceptions.CommitFailedException: Cannot commit: stale table metadata",
        "org.apache.iceberg.exceptions.ValidationException: Found conflicting files that can contain records",
        "org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked (database is locked)",
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.",
        "org.apache.kafka.common.KafkaException: No resolvable bootstrap urls given in bootstrap.servers",
        "java.lang.OutOfMemoryError: Java heap space",
        "[CONCURRENT_QUERY] Another instance of this query was just started. SQLSTATE: 0A000",
        "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)",
        "org.example.SomethingNobodyKnows: flux",
    ],
)
def test_what_passes_by_itself(text: str) -> None:
    for problem in (
        RuntimeError(text),
        explain(MODEL, RuntimeError(f"[STREAM_FAILED] x\nCaused by: {text}")),
    ):
        assert classify_failure(problem) is Failure.TRANSIENT
    sentence = explain(MODEL, RuntimeError(text))
    sentence.__cause__ = RuntimeError(text)
    assert classify_failure(sentence) is Failure.TRANSIENT


@pytest.mark.parametrize(
    "text",
    [
        "[USER_RAISED_EXCEPTION] bad row SQLSTATE: P0001",
        # A user's text that sounds like an outage.
        "[USER_RAISED_EXCEPTION] Connection refused SQLSTATE: P0001",
        '[CAST_INVALID_INPUT] The value \'timed out\' of the type "STRING" cannot be cast to "BIGINT". SQLSTATE: 22018',
        "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amount` cannot be resolved. SQLSTATE: 42703",
        "[NOT_NULL_CONSTRAINT_VIOLATION] NULL value appeared in non-nullable field SQLSTATE: 42000",
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        'pyspark.errors.exceptions.base.PythonException: x Traceback (most recent call last):\n  File "a"\nValueError: no',
    ],
)
def test_what_somebody_has_to_mend(text: str) -> None:
    sentence = explain(MODEL, RuntimeError(text))
    sentence.__cause__ = RuntimeError(text)
    assert classify_failure(sentence) is Failure.PERMANENT
    if "PythonException" not in text:
        assert (
            classify_failure(RuntimeError(f"[STREAM_FAILED] … SQLSTATE: XXKST\n{text}")) is Failure.PERMANENT
        )


@pytest.mark.parametrize(
    "problem",
    [
        StreamError("Model views: its query has changed in what its state depends on."),
        QueryError("config 'watermark' is wrong"),
        CompilationError("no such macro"),
        PreparationError("Model views: the state of this query grows without bound"),
    ],
)
def test_sentences_for_authors_are_not_retried(problem: Exception) -> None:
    assert classify_failure(problem) is Failure.PERMANENT


def test_a_sentence_about_an_outage_is_retried(tmp_path: Path) -> None:
    assert (
        classify_failure(PreparationError("Model views: no broker answers. Check 'kafka…'"))
        is Failure.TRANSIENT
    )
    assert (
        classify_failure(PreparationError("Unable to execute HTTP request: Connection reset"))
        is Failure.TRANSIENT
    )
    held = "Model views: another run of it is in progress (process 7 holds x.lock). Wait until it ends."
    assert classify_failure(StreamError(held)) is Failure.TRANSIENT


@pytest.mark.parametrize(
    "row", ["{timed out, -5}", "{Connection refused by issuer, 1}", "{deadlock, 2}", "{HTTP 503, status=500}"]
)
def test_words_of_a_row_that_breaks_a_contract_are_not_an_outage(row: str) -> None:
    text = (
        f"Model m: its table shop.m has a row that breaks its contract: v > 0. The row is {row}. Correct it in the "
        "table."
    )
    assert classify_failure(StreamError(text)) is Failure.PERMANENT
    assert classify_failure(PreparationError(f"Runtime Error in model m\n  {text}")) is Failure.PERMANENT


OUTAGES = (
    "its source /data/connection refused is gone. Correct its 'location'.",
    "config 'unique_key' names the column timed out, which its query doesn't have.",
    "the value 'payment timed out' in column v of a.json can't be read as BIGINT.",
    "the file no space left on device.json can't be read. Run it again. Throttling, HTTP 503, deadlock.",
)
SENTENCES = (
    StreamError,
    QueryError,
    UnintendedQueryError,
    NotWithinWindows,
    UnboundedStateError,
    MissingKeyError,
    CompilationError,
    DbtRuntimeError,
    StorageError,
)
# Exceptions that no user gets, for a caller handles them; ProjectError ends a command, NotReady waits.
HANDLED = "ProjectError ValueError TwoTypesError RuntimeError AttributeError AssertionError"
HANDLED += " Widened SharedFolder NotReady DataFilesGone FailPointError Untranslatable"
TRANSIENT = "SchemaChanged TransientError _ChangedDuringLoad DbtDatabaseError"


@pytest.mark.parametrize("text", OUTAGES)
@pytest.mark.parametrize("kind", SENTENCES)
def test_words_that_our_sentences_quote_are_not_an_outage(kind: type[Exception], text: str) -> None:
    problem = kind(f"Model views: {text}")
    prepared = PreparationError(f"Model views: {text}")
    prepared.__cause__ = problem
    # As dbt's statements raise it.
    again = DbtRuntimeError(str(problem))
    again.__cause__ = redacted_cause(problem)
    assert {classify_failure(each) for each in (problem, prepared, again)} == {Failure.PERMANENT}


def test_every_exception_that_we_raise_is_known_as_a_sentence_of_ours_or_never_seen() -> None:
    known = {each.__name__ for each in SENTENCES} | {*HANDLED.split(), *TRANSIENT.split()}
    raised = {
        node.exc.func.id
        for file in (Path(__file__).parents[2] / "adapter").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
    }
    assert {each for each in raised if each.strip("_")[0].isupper()} <= known


def test_errors_that_pass_say_so_by_their_type() -> None:
    for problem in (TransientError("Model m: later."), SchemaChanged("m", "shop.raw", ["a"])):
        prepared = PreparationError("Model m: …")
        prepared.__cause__ = problem
        assert classify_failure(problem) is classify_failure(prepared) is Failure.TRANSIENT


def test_the_cause_of_a_sentence_is_searched_for_an_outage() -> None:
    outage = RuntimeError("java.net.ConnectException: Connection refused")
    for cause in (
        outage,
        redacted_cause(outage),
        ConnectionRefusedError(),
        TimeoutError(),
        DbtDatabaseError("timed out"),
    ):
        for kind in (StreamError, DbtRuntimeError, StorageError, PreparationError):
            problem = kind("Model m: its source can't be read.")
            problem.__cause__ = cause
            assert classify_failure(problem) is Failure.TRANSIENT


@pytest.mark.parametrize(
    "text",
    [
        "java.io.FileNotFoundException: File file:/data/connection refused/a.json does not exist",
        'java.lang.NumberFormatException: For input string: "timed out"',
        "java.time.format.DateTimeParseException: Text 'timed out' could not be parsed at index 0",
        "java.lang.IllegalArgumentException: Field 'Connection reset' does not exist in `throttling`",
    ],
)
def test_what_spark_quotes_is_not_an_outage(text: str) -> None:
    sentence = StreamError("Model views: its files can't be read.")
    sentence.__cause__ = RuntimeError(text)
    assert classify_failure(sentence) is Failure.PERMANENT


def test_an_exception_in_quotes_is_an_outage() -> None:
    text = "HTTPSConnectionPool: Max retries exceeded (Caused by: 'NewConnectionError: [Errno 111] Connection refused')"
    assert classify_failure(RuntimeError(text)) is Failure.TRANSIENT


def test_words_after_from_none_are_no_cause() -> None:
    with pytest.raises(StreamError) as found:
        try:
            raise RuntimeError("Connection refused")
        except RuntimeError:
            raise StreamError("Model m: the value is wrong.") from None
    assert classify_failure(found.value) is Failure.PERMANENT
