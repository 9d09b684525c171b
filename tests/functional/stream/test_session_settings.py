"""A state goes with the settings of the session that it was made under."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common.errors import StreamError

from . import programs
from .harness import TUMBLE, Stream
from .programs import SECOND

ZONE = "spark.sql.session.timeZone"


def signature(s: Stream) -> dict[str, Any]:
    properties = {
        row["key"]: row["value"] for row in s.spark.sql(f"show tblproperties {s.model.state}").collect()
    }
    found: dict[str, Any] = json.loads(properties["stream.signature"])
    return found


def test_a_state_of_another_time_zone_is_not_gone_on_with(spark: Any, storage_root: Path) -> None:
    s = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    s.add((0, "a", 1))
    s.run()
    assert signature(s)["session"][ZONE] == "UTC"
    try:
        spark.conf.set(ZONE, "Etc/UTC")
        s.run()
        spark.conf.set(ZONE, "Europe/Berlin")
        for step in (s.run, s.flush):
            with pytest.raises(StreamError) as refusal:
                step()
            assert refusal.value.msg == (
                f"Model {s.model.name}: its state was made under other settings of the session ({ZONE} is "
                "'Europe/Berlin' and was 'UTC'), by which the same query gives other rows. Set them back, in the "
                "profile's server_side_parameters. "
                f"{s.model.rebuild_advice}"
            )
    finally:
        spark.conf.set(ZONE, "UTC")
    s.run()


def test_each_stream_has_a_fair_share(spark: Any, storage_root: Path) -> None:
    s = Stream(spark, storage_root, programs.tumble(SECOND), TUMBLE)
    s.add((0, "a", 1))
    s.run()
    scheduler = spark.sparkContext._jsc.sc()
    assert scheduler.getSchedulingMode().toString() == "FAIR"
    # A pool is there from the first job in it.
    assert scheduler.getPoolForName(s.model.key).isDefined()
    # What else runs in the thread that began it isn't the stream's.
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None
