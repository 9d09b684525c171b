"""What Spark says of its own, in a message that can be read."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment import java
from dbt.adapters.spark_streaming.environment.spark_errors import readable
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
    assert readable(problem) == (
        "A source can't be read from Kafka: no broker answers. Check 'kafka.bootstrap.servers' under the source's "
        "'options', and the network."
    )


def test_a_jvm_that_ended_before_it_was_asked() -> None:
    with (
        pytest.raises(DbtRuntimeError, match="Spark's JVM has ended"),
        streaming.sentences(),
    ):
        raise ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(ValueError, match="anything else"), streaming.sentences():
        raise ValueError("anything else")


def test_a_position_in_generated_sql_is_left_out() -> None:
    found = readable(
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
    found = readable(
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
