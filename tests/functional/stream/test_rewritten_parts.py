"""A part of the state of which a micro-batch touches much is written as a whole, in the commit of all else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.state import table
from tests.functional.stream.harness import Stream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

E = "(select /*+ STREAM */ * from events)"
RANKING = (
    "select x, k, s, rn from (select *, row_number() over (partition by x order by s desc, k) as rn from "
    f"(select x, k, sum(v) as s from {E} group by x, k)) where rn <= 2"
)
COLUMNS = "x bigint, k string, s bigint, rn int"
FIRST = tuple((n * 10, f"k{n}", n, n % 2) for n in range(8))
MOST = tuple((1000 + n, f"k{n}", 100 - 20 * n, n % 2) for n in range(7))
ONE = ((2000, "k7", -50, 1),)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_ROWS", 4)


@pytest.fixture
def stream(spark: Any, storage_root: Path) -> Stream:
    """A ranking over eight groups."""
    made = Stream(
        spark,
        storage_root,
        generate.generate_program(plan_of(RANKING, {"events": RelationInfo("ts")})),
        COLUMNS,
    )
    made.add(*FIRST)
    made.run()
    return made


def groups(stream: Stream) -> list[tuple[Any, ...]]:
    """What the state says of groups: a key, the step and the sum."""
    rows = stream.spark.sql(f"select * from {stream.model.state} where part = '{stream.part('groups')}'")
    (total,) = (name for name in rows.columns if name.startswith("sum_"))
    return sorted((tuple(row) for row in rows.select("k", "step", total).collect()), key=repr)


def best(*rows: tuple[int, str, int, int]) -> list[tuple[Any, ...]]:
    """The ranking of some events."""
    sums: dict[tuple[int, str], int] = {}
    for _, k, v, x in rows:
        sums[x, k] = sums.get((x, k), 0) + v
    found = []
    for x in (0, 1):
        ranked = sorted((-total, k) for (of, k), total in sums.items() if of == x)[:2]
        found += [(x, k, -total, place) for place, (total, k) in enumerate(ranked, 1)]
    return found


def test_a_part_is_written_as_a_whole_where_much_is_touched(stream: Stream) -> None:
    assert [step for _, step, _ in groups(stream)] == [0] * 8
    stream.add(*MOST)
    stream.run()
    assert stream.rows() == best(*FIRST, *MOST)
    # What wasn't touched is as if it was folded.
    assert [(k, step) for k, step, _ in groups(stream)] == [
        *((f"k{n}", 1000) for n in range(7)),
        ("k7", None),
    ]
    stream.add(*ONE)
    stream.run()
    assert stream.rows() == best(*FIRST, *MOST, *ONE)
    assert len(groups(stream)) == 9
    assert sum(total for _, _, total in groups(stream)) == sum(v for _, _, v, _ in (*FIRST, *MOST, *ONE))


@pytest.mark.parametrize(
    "point",
    mostly_thorough(["state.append:written", "state.append:after", "table.overwrite:before"], []),
)
def test_a_crash_on_the_way_loses_nothing(stream: Stream, point: str) -> None:
    stream.add(*MOST)
    failpoints.arm(failpoints.parse(f"raise {point} 1 {stream.model.name}"))
    with pytest.raises(StreamError):
        stream.run()
    failpoints.arm(None)
    stream.run()
    assert stream.rows() == best(*FIRST, *MOST)
    assert len(groups(stream)) == 8
    stream.add(*FIRST)
    stream.run()
    assert stream.rows() == best(*FIRST, *MOST, *FIRST)
    assert len(groups(stream)) == 8
