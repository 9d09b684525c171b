"""Rankings by sums of doubles, which depend on the order of adding: a member is taken away though what it was is another
value now, to the last digit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from tests.functional.stream.harness import Stream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

EVENTS = "(select /*+ STREAM */ * from events)"
SUMS = f"(select x, k, sum(cast(v as double) / 1000) as s, count(*) as n from {EVENTS} group by x, k)"
RANKED = "select x, k from (select *, row_number() over (partition by x order by s desc, k) as rn from {}) where rn <= 1"
RANKINGS = 100


@pytest.mark.parametrize("falls_twice", mostly_thorough([False, True], []))
def test_a_member_that_falls_is_taken_away(spark: Any, storage_root: Path, falls_twice: bool) -> None:
    of = f"(select * from {SUMS} where s > -5000)" if falls_twice else SUMS
    program = generate.generate_program(plan_of(RANKED.format(of), {"events": RelationInfo("ts")}))
    s = Stream(spark, storage_root, program, "x bigint, k string")
    chance = random.Random(1)
    s.add(*((0, k, v, x) for x in range(RANKINGS) for k, v in (("b", 1), ("c", 100_000_000 * falls_twice))))
    s.run()
    # Values whose sum depends on their order, in files of their own.
    for at in range(1, 6):
        s.add(*((at, "a", chance.randrange(100_000, 200_000), x) for x in range(RANKINGS) for _ in range(2)))
        s.run()
    if falls_twice:
        # Whoever moves up is read out of the state.
        s.add(*((10, "c", -200_000_000, x) for x in range(RANKINGS)))
        s.run()
    assert {row[1] for row in s.rows()} == {"a"}
    s.add(*((11, "a", -4_000_000, x) for x in range(RANKINGS)))
    s.run()
    assert s.rows() == sorted(((x, "b") for x in range(RANKINGS)), key=repr)
