"""Texts with a collation: what is kept of them would be compared byte by byte, which nobody would be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from tests.functional.quick import few_rows  # noqa: F401
from tests.functional.stream.harness import Stream
from tests.planned import plan_of
from tests.thorough import mostly_thorough

EVENTS = "(select /*+ STREAM */ * from events)"
COLLATED = f"(select *, k collate utf8_lcase as c from {EVENTS})"
TUMBLE = expansion.expand_window(COLLATED, window_arguments.make_window("tumble", "ts", "1 minute"))
PLACED = "select x, v from (select *, row_number() over (partition by {}) as n from {}) where n <= 2"
KEPT = {
    "greatest": f"select x, max(c) as m from {COLLATED} group by x",
    "values": f"select x, count(distinct c) as n from {COLLATED} group by x",
    "keys": f"select c, count(*) as n from {COLLATED} group by c",
    "keys of windows": f"select window_start, c, count(*) as n from {TUMBLE} group by window_start, window_end, c",
    "greatest of windows": f"select window_start, max(c) as m from {TUMBLE} group by window_start, window_end",
    "order": PLACED.format("x order by k collate utf8_lcase, v", EVENTS),
    "order of groups": PLACED.format(
        "x order by c", f"(select x, c, count(*) as v from {COLLATED} group by x, c)"
    ),
    "within": PLACED.format("c order by v", COLLATED),
    "join": f"select a.x, b.v from {COLLATED} as a join {COLLATED} as b on a.c = b.c and a.ts = b.ts",
}


@pytest.mark.parametrize("name", mostly_thorough(KEPT, ["greatest", "keys", "greatest of windows", "order"]))
def test_refused_before_anything_is_kept(spark: Any, storage_root: Path, name: str) -> None:
    program = generate.generate_program(plan_of(KEPT[name], {"events": RelationInfo("ts")}))
    made = Stream(spark, storage_root, program, "x bigint, m string")
    made.add((0, "c", 1, 1))
    with pytest.raises(StreamError, match=r"keeps texts with a collation.*lower\(…\)"):
        made.run()
    assert not spark.catalog.tableExists(made.model.state)


@pytest.mark.thorough
def test_what_is_not_kept_may_have_one(spark: Any, storage_root: Path) -> None:
    text = f"select c collate utf8_binary as c, count(*) as n from {COLLATED} where c = 'a' group by c collate utf8_binary"
    made = Stream(
        spark,
        storage_root,
        generate.generate_program(plan_of(text, {"events": RelationInfo("ts")})),
        "c string, n bigint",
    )
    for step in range(2):
        made.add((step, "a", 1, 1), (step, "A", 1, 1), (step, "b", 1, 1))
        made.run()
    assert made.rows() == [("A", 2), ("a", 2)]
