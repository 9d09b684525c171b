"""Publishes the metrics of streams in Spark's metrics system, from which Prometheus, Graphite or JMX sinks read them.

Each Spark application has one metrics source, ``stream``. Rows, bytes and lookups are counters since the start of the
application, sizes are gauges. They are Java objects, so a sink reads them without calling Python.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..common.session import java_class
from .state_metrics import PartMetrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = "stream"

_lock = threading.Lock()
_of_applications: dict[str, Metrics] = {}


class _Source:
    """A source of Spark's metrics system: a name and a registry."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def sourceName(self) -> str:
        """Returns the prefix of each metric's name."""
        return SOURCE

    def metricRegistry(self) -> Any:
        """Returns the registry, to which metrics can be added later."""
        return self._registry

    class Java:
        """Names the Java interface that py4j implements with this class."""

        implements = ("org.apache.spark.metrics.source.Source",)


class Metrics:
    """The counters and gauges of an application."""

    def __init__(self, spark: SparkSession) -> None:
        self._registry = java_class(spark, "com.codahale.metrics.MetricRegistry")()
        self._gauge = java_class(spark, "com.codahale.metrics.DefaultSettableGauge")
        self._counters: dict[str, Any] = {}
        self._gauges: dict[str, Any] = {}
        self._shown: dict[str, int] = {}
        self._source = _Source(self._registry)
        spark._jsc.sc().env().metricsSystem().registerSource(self._source)

    def increment(self, name: str, number: int) -> None:
        """Adds a number to a counter."""
        if name not in self._counters:
            self._counters[name] = self._registry.counter(name)
        if number:
            self._counters[name].inc(number)

    def set_gauge(self, name: str, value: int) -> None:
        """Sets a gauge."""
        if name not in self._gauges:
            self._gauges[name] = self._registry.register(name, self._gauge(value))
        elif self._shown[name] != value:
            self._gauges[name].setValue(value)
        self._shown[name] = value


def publish(
    spark: SparkSession,
    model: str,
    counts: Mapping[str, int],
    sizes: Mapping[str, int],
    parts: Iterable[PartMetrics] = (),
) -> None:
    """Publishes the metrics of a micro-batch: increments of the model's counters, and values of its gauges."""
    metrics = _application_metrics(spark)
    for name, number in counts.items():
        metrics.increment(f"{model}.{name}", number)
    for name, value in sizes.items():
        metrics.set_gauge(f"{model}.{name}", value)
    for each in parts:
        state = f"{model}.state.{each.part or 'several'}"
        for name, number in each.figures.counts().items():
            if number or each.part:
                metrics.increment(f"{state}.{name}", number)
        if each.part:
            for name, value in asdict(each.size).items():
                metrics.set_gauge(f"{state}.{name}", value)


def _application_metrics(spark: SparkSession) -> Metrics:
    application = str(spark.sparkContext.applicationId)
    with _lock:
        if application not in _of_applications:
            _of_applications[application] = Metrics(spark)
        return _of_applications[application]
