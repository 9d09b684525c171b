"""`current_timestamp()` in a predicate on event time, below a window: how far a row lies behind when it comes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import emission, expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from tests.planned import plan_of, tree_of

from .harness import Stream, replayed, sorted_rows


@pytest.mark.thorough
def test_a_row_is_judged_by_the_watermark_before_its_micro_batch(spark: Any, storage_root: Path) -> None:
    of = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 minute"))
    text = f"""select window_start, window_end, count(*) as n from {of}
        where ts > current_timestamp() - interval '5' seconds group by window_start, window_end"""
    # The state is kept longer than the window; how old a row is doesn't depend on it.
    late = emission.emission_from_configs({"late_updates": True, "last_result_offset": "1 hour"})
    program = generate.generate_program(plan_of(text), late)
    s = Stream(spark, storage_root, program, "window_start timestamp, window_end timestamp, n bigint")
    s.add((0, "a", 1), (20_000, "a", 1))  # no watermark yet
    s.run()
    s.add((15_000, "too old", 1), (15_001, "a", 1), (40_000, "a", 1))
    s.run()
    s.add((30_000, "too old", 1), (36_000, "a", 1))
    assert s.run().late_rows == 0
    s.flush()
    assert s.rows() == [(0, 60_000, 5)]


def test_without_state_the_watermark_goes_on_with_the_next_run(spark: Any, storage_root: Path) -> None:
    """The table's commit is all there is to carry it."""
    of = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 minute"))
    text = f"select window_start, k, v from {of} where ts > current_timestamp() - interval '5' seconds"
    program = generate.generate_program(plan_of(text))
    assert not program.keeps_state
    s = Stream(spark, storage_root, program, "window_start timestamp, k string, v bigint")
    s.add((60_000, "a", 1))
    s.run()
    s.add((20_000, "too old", 1), (56_000, "a", 2))
    s.run()
    s.add((54_000, "too old", 1), (61_000, "a", 3))
    s.run()
    assert s.rows() == [(0, "a", 2), (60_000, "a", 1), (60_000, "a", 3)]


@pytest.mark.thorough
def test_rows_leave_a_tree_of_operators_also_after_a_crash(spark: Any, storage_root: Path) -> None:
    of = expansion.expand_stream("events")
    groups = (
        f"select k, count(*) as n from {of} where ts >= current_timestamp() - interval '5' seconds group by k"
    )
    text = f"select n, count(*) as c from ({groups}) group by n"
    program = generate.generate_program(tree_of(text, {"events": RelationInfo("ts")}))
    s = Stream(spark, storage_root, program, "n bigint, c bigint", changelog=True)
    s.add((0, "a", 1), (20_000, "a", 1), (15_000, "b", 1), (14_999, "c", 1), (None, "d", 1))
    assert s.run().null_time_rows == 1
    assert s.rows() == [(1, 2)]
    s.add((20_000, "b", 1), (20_001, "b", 2), (5_000, "c", 1))
    try:
        failpoints.arm(failpoints.parse(f"raise state.append:after 1 {s.model.name}"))
        with pytest.raises(StreamError, match="at state"):
            s.run()
    finally:
        failpoints.arm(None)
    assert s.rows() == [(1, 2)]
    s.run()
    assert s.rows() == [(1, 1), (2, 1)]  # b's first row has left
    s.add((40_000, "z", 1))
    s.run()
    s.flush()
    assert s.rows() == [(1, 1)] == sorted_rows(replayed(spark, s.model))
