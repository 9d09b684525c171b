"""By how many rows are read it goes how Spark computes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.stream.common import session
from dbt.adapters.spark_streaming.stream.common.session import session_defaults
from dbt.adapters.spark_streaming.stream.microbatch.micro_batch import MicroBatch
from dbt.adapters.spark_streaming.stream.progress.position import Position

BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
FEW = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false", BROADCAST: "-1"}
MANY = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.codegen.wholeStage": "true",
    BROADCAST: str(32 << 20),
}
POSITION = Position("m", query_id="", batch=0, signature="")


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "driver_memory", lambda _: 2 << 30)


class Session:
    """Settings."""

    def __init__(self) -> None:
        self.settings = {**MANY, "spark.sql.shuffle.partitions": "200"}
        self.conf = SimpleNamespace(get=self.settings.get, set=self.settings.__setitem__)
        scheduler = SimpleNamespace(numTotalJobs=lambda: 0)
        self._jsc = SimpleNamespace(
            sc=lambda: SimpleNamespace(dagScheduler=lambda: scheduler, env=MagicMock())
        )
        self.sparkContext = SimpleNamespace(defaultParallelism=8, applicationId="of few rows")
        self._jvm = MagicMock()


def work(state: int = 0, table: int = 0, **program: Any) -> Any:
    sink = SimpleNamespace(rows=table, changes=program.pop("changes", None), maintain=lambda _: 0)
    model = MagicMock(watermark_delay=0, idle_timeout=None)
    return SimpleNamespace(
        program=Program(inputs=(), items=(), output="", boundaries=None, **program),
        state=SimpleNamespace(rows=state),
        sink=sink,
        model=model,
    )


@pytest.mark.parametrize(
    ("rows", "of", "found"),
    [
        (1, work(), FEW),
        (50_000, work(), FEW),
        (50_001, work(), MANY),
        (None, work(), MANY),
        (1, work(state=49_999), FEW),
        (1, work(state=50_000), MANY),
        (1, work(table=10**9), FEW),
        (1, work(table=10**9, upsert="…"), MANY),
        (1, work(table=10**9, changes="…"), MANY),
        (1, work(tables=("routes",)), MANY),
    ],
)
def test_few_are_computed_by_one_task_without_code(rows: int | None, of: Any, found: dict[str, str]) -> None:
    spark: Any = Session()
    MicroBatch(of, spark, POSITION, session_defaults(spark))._set_shuffle_partitions(rows)
    assert spark.settings == found


def test_very_many_are_spread_wider() -> None:
    spark: Any = Session()
    MicroBatch(work(), spark, POSITION, session_defaults(spark))._set_shuffle_partitions(10_000_000)
    assert spark.settings == {**MANY, "spark.sql.shuffle.partitions": "20"}


@pytest.mark.parametrize(
    ("state", "windows", "found"), [(1_000, 40, FEW), (1_000, 50, MANY), (16_000_000, 1, MANY)]
)
def test_each_row_may_come_out_in_several_windows(state: int, windows: int, found: dict[str, str]) -> None:
    """As many tasks as for what came: a large state alone makes no more of them."""
    spark: Any = Session()
    MicroBatch(work(state), spark, POSITION, session_defaults(spark))._set_shuffle_partitions(1_000, windows)
    assert spark.settings == found
