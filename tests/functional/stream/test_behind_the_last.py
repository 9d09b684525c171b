"""Rankings of rows: those behind the last of a full ranking are left out where many come, before any are put in order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.program import Step
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.microbatch.micro_batch import MicroBatch
from tests.functional.quick import few_rows, many_rows  # noqa: F401
from tests.functional.stream.harness import Stream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

# NULL, NaN, the infinite, two zeros, and values that are there twice.
ROWS = (
    "(select ts, k, x, case pmod(v, 11) when 0 then null when 1 then double('NaN') when 2 then double('Infinity') "
    "when 3 then -0.0d when 4 then 0.0d else double(v div 3) end as d, v from (select /*+ STREAM */ * from events))"
)
RANKED = "select x, d, v, place from (select *, {} as place from {}) where place <= 3"
COLUMNS = "x bigint, d double, v bigint, place int"
OVER = {
    "descending": "row_number() over (partition by x order by d desc, v)",
    "ascending": "row_number() over (partition by x order by d, v)",
    "nulls first": "row_number() over (partition by x order by d desc nulls first, v)",
    "nulls last": "rank() over (partition by x order by d nulls last)",
    "ties": "rank() over (partition by x order by d desc)",
    "of all": "row_number() over (order by d desc, v desc)",
    "values": "dense_rank() over (partition by x order by d desc)",
}
LEFT_OUT = "__last_first"


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts that steps had."""
    texts: list[str] = []
    least = MicroBatch._with_cheapest_sql

    def noted(batch: MicroBatch, step: Step) -> Step:
        found = least(batch, step)
        texts.append(found.sql)
        return found

    monkeypatch.setattr(MicroBatch, "_with_cheapest_sql", noted)
    yield texts


def stream(spark: Any, root: Path, over: str, changelog: bool = False) -> Stream:
    text = RANKED.format(over, ROWS)
    program = generate.generate_program(plan_of(text, {"events": RelationInfo("ts")}))
    return Stream(spark, root, program, COLUMNS, changelog=changelog)


def in_batch(made: Stream, over: str) -> list[tuple[Any, ...]]:
    text = RANKED.format(over, ROWS).replace("/*+ STREAM */ * from events", f"* from {made.events}")
    return [tuple(row) for row in made.spark.sql(text).collect()]


def told(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows, to be compared: NaN is itself, and there is one zero."""
    return sorted(
        repr(tuple(value + 0.0 if isinstance(value, float) else value for value in row)) for row in rows
    )


@pytest.mark.parametrize("name", mostly_thorough([*OVER], []))
def test_as_in_batch(spark: Any, storage_root: Path, carried_out: list[str], name: str) -> None:
    made = stream(spark, storage_root, OVER[name])
    chance = random.Random(name)
    for step in range(4):
        rows = [(step, "a", chance.randrange(60 * (step + 1)), chance.randrange(4)) for _ in range(12)]
        made.add(*rows)
        made.run()
        assert told(made.rows()) == told(in_batch(made, OVER[name]))
    assert any(LEFT_OUT in text for text in carried_out) is (name != "values")


@pytest.mark.thorough
def test_a_crash_on_the_way_loses_nothing(spark: Any, storage_root: Path, carried_out: list[str]) -> None:
    made = stream(spark, storage_root, OVER["descending"], changelog=True)
    made.add(*((n, "a", 7 * n, n % 2) for n in range(20)))
    made.run()
    for number, point in enumerate(("state.append:written", "state.append:after", "table.overwrite:before")):
        made.add(*((100 + n, "a", 60 + 20 * number + n, n % 2) for n in range(20)))
        failpoints.arm(failpoints.parse(f"raise {point} 1 {made.model.name}"))
        with pytest.raises(StreamError):
            made.run()
        failpoints.arm(None)
        made.run()
        assert told(made.rows()) == told(in_batch(made, OVER["descending"]))
    assert any(LEFT_OUT in text for text in carried_out)
