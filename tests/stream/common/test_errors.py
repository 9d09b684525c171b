"""What Spark says, as sentences for the model's author."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]

from dbt.adapters.spark_streaming.environment import java
from dbt.adapters.spark_streaming.environment.spark_errors import readable_error
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError, explain
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource

MODEL = StreamModel(
    "curves",
    "db.curves",
    "db.curves__state",
    Storage("/root", lambda: None),
    (StreamSource("raw.events", "/data/events", "parquet"), StreamSource("db.pages", "lake.db.pages")),
)


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No JVM that another test of this process started is asked whether it answers."""
    monkeypatch.setattr(java, "_latest", None)
    monkeypatch.setattr(java, "jvm_answers", lambda: False)


def sentence(message: str) -> str:
    return explain(MODEL, RuntimeError(message)).msg


def test_a_sentence_of_ours_is_kept() -> None:
    try:
        try:
            raise StreamError("Model curves: no.")
        except StreamError as problem:
            raise RuntimeError("the callback failed") from problem
    except RuntimeError as problem:
        assert explain(MODEL, problem).msg == "Model curves: no."


def test_exceptions_that_go_round_in_circles_end() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    assert explain(MODEL, one).msg == "Model curves: one"


def test_a_file_that_is_not_what_the_source_says() -> None:
    assert sentence(
        "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while reading file "
        "file:///data/events/x.parquet. Could not read footer."
    ) == (
        "Model curves: the file file:///data/events/x.parquet can't be read as parquet, as source raw.events says it "
        "is. Correct the source's format or options; or remove the file, and set the source's option 'ignoreMissingFiles: "
        "true'. No row of this micro-batch was ingested."
    )


def test_the_cause_of_a_file_that_cannot_be_read_is_told() -> None:
    found = sentence(
        "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
        "file:///data/events/x.csv.  SQLSTATE: KD001\n"
        "Caused by: java.lang.IllegalArgumentException: Delimiter cannot be empty"
    )
    assert found.startswith(
        "Model curves: the file file:///data/events/x.csv can't be read as parquet, as source raw.events says it is "
        "(Delimiter cannot be empty). Correct the source's format"
    )


def test_a_path_that_leads_nowhere() -> None:
    said = "java.lang.IllegalArgumentException: java.net.UnknownHostException: nosuch"
    assert sentence(said) == "Model curves: there is no host 'nosuch'. Check the address, and the network."


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (
            "db.curves",
            "its own table db.curves was dropped while the model ran. Rebuild it: `dbt run --full-refresh",
        ),
        (
            "db.pages",
            "the table db.pages was dropped while the model ran. What was committed is in its table.",
        ),
    ],
)
def test_a_table_that_is_dropped_during_a_run(table: str, says: str) -> None:
    found = sentence(f"Failed to load table {table} from catalog lake dropped by another process")
    assert found.startswith(f"Model curves: {says}")


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.EOFException: Unexpected end of input stream",  # gzip, deflate
        "java.io.IOException: unexpected end of stream",  # bzip2
        "java.io.EOFException: Unexpected end of block in input stream",  # snappy, lz4
        "java.io.IOException: Truncated source",  # zstd
    ],
)
def test_a_file_that_is_cut_short(cause: str) -> None:
    said = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/events/a.json.gz.  SQLSTATE: KD001"
    found = sentence(f"{said}\nCaused by: {cause}")
    assert found == (
        "Model curves: of its source raw.events the file file:///data/events/a.json.gz is truncated, or still being "
        "written. Write files elsewhere, or under a name that begins with '_' or '.', and move them into the folder "
        "when they are complete; the next run reads this one once it is. No row of this micro-batch was ingested."
    )
    in_batch = readable_error(RuntimeError(f"{said}\nCaused by: {cause}"))
    assert in_batch.startswith(
        "The file file:///data/events/a.json.gz is truncated, or still being written. Write files"
    )


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("a is not a Parquet file. Expected magic number at tail, but found [1, 2, 3, 4]", "a Parquet"),
        ("a is not a Parquet file (length is too low: 1)", "a Parquet"),
        ("Malformed ORC file file:/d/a. Invalid postscript.", "an ORC"),
        ("Not a valid ORC file file:/d/a (maxFileLength= 9223372036854775807)", "an ORC"),
    ],
)
def test_a_file_without_its_footer(cause: str, kind: str) -> None:
    found = sentence(
        f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/events/a.  SQLSTATE: KD001\n"
        f"Caused by: java.lang.RuntimeException: {cause}"
    )
    assert (
        f"the file file:///data/events/a doesn't end as {kind} file does: it is truncated, or still being"
        in found
    )
    assert "Write files elsewhere" in found and "Remove" not in found


@pytest.mark.parametrize(
    "said",
    [
        '[DATATYPE_MISMATCH.INVALID_ORDERING_TYPE] Cannot resolve "max(x)" due to data type mismatch: The `max` does not '
        'support ordering on type "STRUCT<k: TIMESTAMP, v: MAP<STRING, BIGINT>>". SQLSTATE: 42K09',
        '[DATATYPE_MISMATCH.HASH_MAP_TYPE] Cannot resolve "hash(m)"',
        "[UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE] The feature is not supported",
    ],
)
def test_maps_that_spark_cannot_compare(said: str) -> None:
    found = sentence(said)
    assert found.startswith("Model curves: its query compares or orders MAPs, which Spark can't")
    assert found.endswith("of the MAP instead, as in max_by(map_entries(m), ts).")


@pytest.mark.parametrize("kind", ["overwrite", "delete"])
def test_a_source_whose_rows_were_changed(kind: str) -> None:
    found = sentence(f"java.lang.IllegalStateException: Cannot process {kind} snapshot: 17, to ignore …")
    assert f"an Iceberg {kind} snapshot" in found
    assert f"'streaming-skip-{kind}-snapshots'" in found
    assert (
        "Rebuild the table from scratch and this model with it (`dbt run --full-refresh --select pages+`)"
        in found
    )


def test_advice_on_changed_rows_of_a_model_names_no_option_of_sources() -> None:
    model = replace(MODEL, upstream={"db.pages": "pages"})
    problem = RuntimeError(
        "java.lang.IllegalStateException: Cannot process overwrite snapshot: 17, to ignore …"
    )
    assert explain(model, problem).msg.endswith("(`dbt run --full-refresh --select pages+`).")


@pytest.mark.parametrize(
    "message",
    [
        "Cannot load current offset at snapshot 17, the snapshot was expired or removed",
        'Cannot invoke "java.lang.Long.longValue()" because the return value of "org.apache.iceberg.Snapshot'
        '.parentId()" is null',
    ],
)
def test_a_source_that_was_replaced(message: str) -> None:
    assert "no longer has the snapshots after the last one that was read" in sentence(message)


@pytest.mark.parametrize(
    "message",
    [
        "[INCOMPATIBLE_COLUMN_TYPE] UNION can only be performed on tables with compatible column types. The second column "
        'of the second table is "STRUCT<k: STRING, x: INT>" type which is not compatible with "STRUCT<k: STRING, x: INT, '
        'z: INT>" at the same column of the first table. SQLSTATE: 42825',
        "ValueError: column window_1_row has other fields in it than it had. To rebuild it: `dbt run`.",
    ],
)
def test_rows_that_are_kept_and_a_column_more(message: str) -> None:
    found = sentence(message)
    assert (
        "a source that the query reads with '*' has gained or lost a column, or one of its structs a field"
        in found
    )
    assert "Name the earlier columns" in found


def test_two_writers_of_a_checkpoint() -> None:
    found = sentence("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs …")
    assert found.startswith("Model curves: another run of it is writing to /root/checkpoints/db.curves.")


def test_a_source_of_another_kind_than_the_checkpoints() -> None:
    found = sentence(
        "java.lang.IllegalArgumentException: Did not find value which can be converted into long"
    )
    assert found.startswith("Model curves: its checkpoint was made for other sources")


def test_the_innermost_cause_is_told() -> None:
    assert (
        sentence(
            "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated\n"
            "Caused by: org.apache.spark.SparkException: Job aborted\n"
            "Caused by: org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
        )
        == "Model curves: [DIVIDE_BY_ZERO] Division by zero."
    )


def test_a_function_that_raises() -> None:
    said = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception\n"
        "Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "/models/udf.py", line 3, in price\n    raise KeyError(code)\n'
        "KeyError: 'EUR'\n\n\tat org.apache.spark.api.python.BasePythonRunner"
    )
    explained = said.replace(
        "Exception: Trace", "Exception: \n  An exception was thrown from the worker.\nTrace"
    )
    for each in (said, explained):
        assert sentence(each) == "Model curves: a Python function of the query raised KeyError: 'EUR'"


class _OfADeadJvm(Exception):
    """What py4j's exceptions do: they ask the JVM what they say, and that has ended."""

    def __init__(self, why: Exception) -> None:
        self._why = why

    def __str__(self) -> str:
        raise self._why

    @property
    def java_exception(self) -> Any:
        def ask() -> str:
            raise self._why

        return SimpleNamespace(toString=ask, getMessage=ask, getCause=ask)


@pytest.mark.parametrize(
    "why",
    [
        ConnectionRefusedError(111, "Connection refused"),
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling None.None"),
    ],
)
def test_a_jvm_that_ended(why: Exception) -> None:
    for problem in (why, _OfADeadJvm(why)):
        assert explain(MODEL, problem).msg.startswith("Model curves: Spark's JVM has ended")
        assert readable_error(problem).startswith("Spark's JVM has ended")
    said = "An error occurred while calling o17.commit.\nCaused by: java.lang.IllegalStateException: the table is full"
    assert sentence(said) == "Model curves: the table is full"


def test_kafka() -> None:
    model = replace(MODEL, sources=(StreamSource("raw.views", "", "kafka"),))
    said = "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
    assert explain(model, RuntimeError(said + "UnknownTopicOrPartitionException: This server …")).msg == (
        "Model curves: its stream raw.views can't be read from Kafka: there is no such topic. Create it, or correct its "
        "name under the source's 'options'."
    )
    assert explain(model, RuntimeError("[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data …")).msg.startswith(
        "Model curves: messages that come next in its stream raw.views are no longer in Kafka"
    )


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "Spark's memory is used up"),
        ("An error occurred while calling o1.x\nAnswer from Java side is empty", "Spark's JVM has ended"),
        ("[Errno 111] Connection refused", "Spark's JVM has ended"),
        ("Error while sending", "Spark's JVM has ended"),
        ("py4j does not exist in the JVM", "Spark's JVM has ended"),
    ],
)
def test_a_jvm_without_memory(message: str, what: str) -> None:
    told = sentence(message)
    assert told.startswith(f"Model curves: {what}")
    assert "'spark.driver.memory' under 'server_side_parameters' in the profile" in told
    assert "the next run continues from there" in told
    assert readable_error(RuntimeError(message)).startswith(what)


def test_another_connection_that_is_refused() -> None:
    assert "memory" not in sentence("org.postgresql.util.PSQLException: Connection to crm:5432 refused.")
    assert "memory" not in sentence("java.net.ConnectException: Connection refused")


def test_a_connection_of_python_that_is_reset_while_the_jvm_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "jvm_answers", lambda: True)
    for problem in (
        ConnectionResetError(104, "Connection reset by peer"),
        ConnectionRefusedError(111, "Connection refused"),
    ):
        assert str(problem) in sentence(str(problem))
        assert "JVM" not in sentence(str(problem))


def test_a_list_in_a_cause_stays() -> None:
    said = (
        "Caused by: java.lang.IllegalArgumentException: Cannot write incompatible dataset to table with schema:\n"
        "\t* cents: double cannot be promoted to long\n\t* ts: is required\n"
        "\tat org.apache.iceberg.Schema.check(Schema.java:1)\n\t... 12 more"
    )
    text = sentence(said)
    assert "cents: double cannot be promoted to long" in text and "ts: is required" in text
    assert "Schema.java" not in text and "12 more" not in text
    assert "* ts: is required" in readable_error(Exception(said)) and "Schema.java" not in readable_error(
        Exception(said)
    )


def test_a_table_replaced_under_a_run_is_told() -> None:
    said = sentence("Table UUID does not match: current=1 != refreshed=2")
    assert "was replaced while it ran (as by `dbt-stream deploy promote`)" in said
