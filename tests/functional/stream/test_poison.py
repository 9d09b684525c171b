"""A row that can't be computed: a sentence, nothing half-written, and after its author's cure the stream goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.program import Program
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from tests.functional.stream.harness import Stream, sorted_rows
from tests.planned import plan_of

WINDOW = expansion.expand_window("clean", window_arguments.make_window("tumble", "ts", "1 hour"))
COLUMNS = "window_start timestamp, window_end timestamp, k string, n bigint, y string"
CASES = [
    ("cast(k as int)", "try_cast(k as int)", "CAST_INVALID_INPUT"),
    ("100 / (v - 13)", "100 / nullif(v - 13, 0)", "Division by zero"),
    ("fails_on_bad(k)", "fails_on_bad(if(k = 'bad', '', k))", "ValueError: no such key: bad"),
    ("to_date(if(k = 'bad', k, '2020-01-01'))", "try_to_date(if(k = 'bad', k, '2020-01-01'))", "bad"),
    ("if(k = 'bad', raise_error('not that one'), 1)", "if(k = 'bad', 0, 1)", "not that one"),
]


def text(made: str) -> str:
    return (
        f"with clean as (select *, cast({made} as string) as y from events)\n"
        f"select window_start, window_end, k, count(*) as n, max(y) as y from {WINDOW} group by window_start, window_end, k"
    )


def program(made: str) -> Program:
    return generate.generate_program(plan_of(text(made), {"events": RelationInfo("ts")}))


@pytest.fixture
def strict(spark: Any) -> Iterator[None]:
    """Spark as it comes: what can't be computed is an error."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    yield
    spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.thorough
def test_a_poison_row_is_no_dead_end(spark: Any, storage_root: Path, strict: None) -> None:
    # In here, so that it is sent to Spark's workers as it is: where they were begun they may not find this module.
    def fails_on_bad(key: str) -> int:
        if key == "bad":
            raise ValueError(f"no such key: {key}")
        return len(key)

    spark.udf.register("fails_on_bad", fails_on_bad, "int")
    s = Stream(spark, storage_root, program("length(k)"), COLUMNS)
    s.add((0, "1", 1))
    s.run()
    for hour, (poisoned, cure, said) in enumerate(CASES):
        s.model, s.program = replace(s.model, keep_state=True), program(poisoned)
        s.add((hour * 3_600_000, "1", 1), (hour * 3_600_000 + 1, "bad", 13), (hour * 3_600_000 + 2, "22", 2))
        commits = len(s.snapshots(s.model.state)), len(s.snapshots(s.model.target))
        # Again and again, whatever it was; asked of the first, as what else doesn't depend on the row.
        for _ in range(1 if hour else 2):
            with pytest.raises(StreamError) as raised:
                s.run()
            message = str(raised.value.msg)
            assert message.startswith(f"Model {s.model.name}: ") and said in message
            assert "\tat " not in message and "Traceback" not in message and len(message) < 500
        assert commits == (len(s.snapshots(s.model.state)), len(s.snapshots(s.model.target)))
        s.model, s.program = replace(s.model, keep_state=False), program(cure)
        if hour == 0:
            with pytest.raises(StreamError, match=r"To keep the state.*keep_state: true"):
                s.run()
        s.model = replace(s.model, keep_state=True)
        assert s.run().rows_in == 3
        if hour == 0:
            # Said once, it holds.
            s.model = replace(s.model, keep_state=False)
            assert s.run().batches == 0
    s.flush()
    counted = {(row[0], row[2]): row[3] for row in s.rows()}
    spark.table(s.events).createOrReplaceTempView("events")
    expected = sorted_rows(spark.sql(text("1")).collect())
    assert counted == {(row[0], row[2]): row[3] for row in expected}
