"""A micro-batch's session settings end with it."""

from __future__ import annotations

from typing import Any

from dbt.adapters.spark_streaming.stream.common.session import SessionDefaults, session_defaults
from dbt.adapters.spark_streaming.stream.microbatch.loop import Batches
from tests.stream.common.test_session import FEW, MANY, POSITION, Session, _memory, work

__all__ = ["_memory"]  # a fixture


def test_no_step_leaves_its_settings_to_the_next() -> None:
    spark: Any = Session()
    spark.settings.update(MANY)
    batches = Batches(spark, work(), POSITION, lambda: "")
    for end in ("well", "badly"):
        try:
            with batches._open_micro_batch(spark, POSITION) as step:
                assert spark.settings == MANY
                step._set_shuffle_partitions(1)
                assert spark.settings == FEW
                if end == "badly":
                    raise RuntimeError
        except RuntimeError:
            pass
        assert spark.settings == MANY
        assert session_defaults(spark) == SessionDefaults(8, "true", 32 << 20)
