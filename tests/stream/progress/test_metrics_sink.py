"""What a micro-batch publishes: counters grow, gauges are set, by model and by part of its state."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from dbt.adapters.spark_streaming.stream.progress import metrics_sink
from dbt.adapters.spark_streaming.stream.progress.state_metrics import PartFigures, PartMetrics, Size

APPLICATION: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="test_metrics_sink"))


class Recorded(metrics_sink.Metrics):
    """Counters and gauges without a registry of Java."""

    def __init__(self) -> None:
        self.counters, self.gauges = Counter[str](), dict[str, int]()

    def increment(self, name: str, number: int) -> None:
        self.counters[name] += number

    def set_gauge(self, name: str, value: int) -> None:
        self.gauges[name] = value


def test_counters_grow_and_gauges_are_set() -> None:
    found = Recorded()
    metrics_sink._of_applications["test_metrics_sink"] = found
    part = PartMetrics(
        "groups",
        "GroupAggregate",
        "partial aggregates",
        Size(rows=7, bytes=100, files=2),
        PartFigures(lookups=4, hits=3),
    )
    for lag in (5, 4):
        metrics_sink.publish(APPLICATION, "m", {"rows_in": 10}, {"lag": lag}, [part])
    assert found.counters["m.rows_in"] == 20
    assert (found.counters["m.state.groups.hits"], found.counters["m.state.groups.misses"]) == (6, 2)
    assert found.gauges == {
        "m.lag": 4,
        "m.state.groups.rows": 7,
        "m.state.groups.bytes": 100,
        "m.state.groups.files": 2,
    }


def test_what_is_of_no_one_part_is_counted_where_there_is_some() -> None:
    """One scan of several parts: `several` has counters only once they count."""
    found = Recorded()
    metrics_sink._of_applications["test_metrics_sink"] = found
    for scans in (0, 1):
        several = PartMetrics("", "", "", Size(rows=0, bytes=0, files=0), PartFigures(scans=scans))
        metrics_sink.publish(APPLICATION, "m", {}, {}, [several])
    assert found.counters == {"m.state.several.scans": 1}
    assert found.gauges == {}
