"""What Spark says of its own, in a message that can be read."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment import java
from dbt.adapters.spark_streaming.environment.spark_errors import readable_error
from dbt.adapters.spark_streaming.project import streaming


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No JVM that another test of this process started is asked whether it answers."""
    monkeypatch.setattr(java, "_latest", None)
    monkeypatch.setattr(java, "jvm_answers", lambda: False)


def test_kafka_in_batch() -> None:
    problem = RuntimeError(
        "Failed to create new KafkaAdminClient\nCaused by: No resolvable bootstrap urls given …"
    )
    assert readable_error(problem) == (
        "A source can't be read from Kafka: no broker answers. Check 'kafka.bootstrap.servers' under the source's "
        "'options', and the network."
    )


def test_a_jvm_that_ended_before_it_was_asked() -> None:
    with (
        pytest.raises(DbtRuntimeError, match="Spark's JVM has ended"),
        streaming.raising_dbt_errors(),
    ):
        raise ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(ValueError, match="anything else"), streaming.raising_dbt_errors():
        raise ValueError("anything else")


def test_a_position_in_generated_sql_is_left_out() -> None:
    found = readable_error(
        Exception(
            "[UNRESOLVED_COLUMN] `amount` cannot be resolved. SQLSTATE: 42703; line 1 pos 132;\n'Project"
        )
    )
    assert found == "[UNRESOLVED_COLUMN] `amount` cannot be resolved. SQLSTATE: 42703"


@pytest.mark.parametrize(
    ("name", "advice"),
    [("`orders`", "no CTE above has this name"), ("`raw`.`orders`", "config: {meta: {stream:")],
)
def test_a_table_that_is_not_there_comes_with_what_it_may_be(name: str, advice: str) -> None:
    found = readable_error(
        Exception(
            f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {name} cannot be found. Verify the spelling and correctness of "
            "the schema and catalog.\nIf you did not qualify the name with a schema, verify the current_schema() output.\n"
            "To tolerate the error on drop use DROP VIEW IF EXISTS or DROP TABLE IF EXISTS. "
            "SQLSTATE: 42P01; line 1 pos 14;\n'Project"
        )
    )
    assert found.startswith(f"[TABLE_OR_VIEW_NOT_FOUND] There is no table or view {name}: ")
    assert advice in found
    assert found.endswith(". SQLSTATE: 42P01")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not "
            "found\n\tat org.apache.hadoop.conf.Configuration.getClass(Configuration.java:2688)",
            "Spark's connector for S3 is missing. Name it in the profile: packages: [s3]",
        ),
        (
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "foo"\n\tat x.Y.z(Y.java:1)',
            "No file system is known for paths that begin with foo://.",
        ),
        (
            "java.lang.IllegalArgumentException: java.net.UnknownHostException: nosuch\n\tat x.Y.z(Y.java:1)",
            "There is no host 'nosuch'.",
        ),
        (
            "java.lang.IllegalArgumentException: Couldn't find column nope in:\nroot\n |-- page: string (nullable = true)\n",
            "Config 'partition_by' names nope, which isn't a column of the query; its columns are page.",
        ),
        (
            "org.apache.iceberg.exceptions.ValidationException: Cannot find source column for partition field: 1000: "
            "at_day: day(2)",
            "The table is partitioned by at_day, whose column the query no longer gives, and Iceberg can't drop it. Keep",
        ),
        (
            "java.lang.UnsupportedOperationException: Transform is not supported: dayz(ts)",
            "Config 'partition_by' has dayz(ts), which is no transform of Iceberg;",
        ),
    ],
)
def test_what_is_to_be_corrected_is_named(said: str, told: str) -> None:
    assert readable_error(Exception(said)).startswith(told)


def test_plans_jobs_and_generated_sql_are_left_out() -> None:
    plan = "CreateTable [columndefinition(id, LongType)], TableSpec(Map(), Some(iceberg)), false"
    kind = 'Cannot use "INTERVAL" type in the table schema.'
    assert readable_error(Exception(f"{kind};\n{plan}")) == kind
    syntax = "[PARSE_SYNTAX_ERROR] Syntax error at or near 'HOR'. SQLSTATE: 42601"
    marked = "(line 1, pos 9)\n\n== SQL ==\nexplain extended select /*+ STREAM */ hor\n---------^^^"
    assert readable_error(Exception(f"{syntax} {marked}")) == syntax
    own = f"{syntax} (line 1, pos 3)\n\n== SQL ==\nid bigint ts timestamp\n---^^^"
    assert readable_error(Exception(own)) == own
    job = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent "
        "failure: Lost task 0.0 in stage 3.0 (TID 3) (host executor driver): java.lang.IllegalArgumentException: odd\n"
        "\tat x.Y.z(Y.java:1)\nCaused by: java.lang.IllegalArgumentException: odd number of them\n\tat x.Y.z(Y.java:2)"
    )
    assert readable_error(Exception(job)) == "odd number of them"
    raised = "[USER_RAISED_EXCEPTION] one;\nand two"
    assert readable_error(Exception(raised)) == raised
