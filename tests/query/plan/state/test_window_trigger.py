"""At which times windows fire."""

from __future__ import annotations

from dbt.adapters.spark_streaming.query.plan.state.window_trigger import WindowTrigger
from dbt.adapters.spark_streaming.query.program import Boundaries
from dbt.adapters.spark_streaming.query.sql.intervals import MINUTE
from dbt.adapters.spark_streaming.query.windows import emission, window_arguments


def test_a_batch_without_a_logical_time_in_it_puts_nothing_out() -> None:
    half_hours = window_arguments.make_window("tumble", "ts", "30 minutes")
    config = {
        "first_result_offset": "-15 minutes",
        "update_rate": "5 minutes",
        "complete_result_offset": "2 minutes",
    }
    found = WindowTrigger(half_hours, emission.emission_from_configs(config)).boundaries
    assert found == (Boundaries(30 * MINUTE, 2 * MINUTE), Boundaries(5 * MINUTE, 0))
    assert (
        WindowTrigger(
            half_hours, emission.emission_from_configs({"late_updates": True, "last_result_offset": "1 hour"})
        ).boundaries
        is None
    )
