"""Reads the metrics that Spark collected while it ran a micro-batch, from its executed plans.

This needs no extra job. Each scan of a table counts its rows, Iceberg counts the files that it planned, and
`DataFrame.observe` counts a step's lookups in the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...query.program import StateLookup
from ..common.session import java_class, jvm
from .state_metrics import PartFigures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_plans: ContextVar[list[Any] | None] = ContextVar("plans", default=None)

_INVOKE = "java.lang.invoke"
_SCAN = "org.apache.spark.sql.execution.datasources.v2.BatchScanExec"
_OBSERVED = "org.apache.spark.sql.execution.CollectMetricsExec"


@contextmanager
def collect_plans() -> Iterator[list[Any]]:
    """Yields a list that collects the plans run inside the block by this thread."""
    plans: list[Any] = []
    before = _plans.set(plans)
    try:
        yield plans
    finally:
        _plans.reset(before)


def record_plan(plan: Any) -> None:
    """Adds a plan that is executed to the list of the surrounding `collect_plans`, if any."""
    plans = _plans.get()
    if plans is not None:
        plans.append(plan)


def append_and_record_plan(rows: DataFrame, table: str) -> None:
    """Runs `rows.writeTo(table).append()` and records its plan, which Spark's own method discards."""
    command = rows.writeTo(table)._jwriter.appendCommand()
    state = rows.sparkSession._jsparkSession.sessionState()
    run = state.executePlan(command, getattr(state, "executePlan$default$2")())
    run.assertCommandExecuted()
    record_plan(run.executedPlan().commandPhysicalPlan())


class Reader:
    """Reads metrics from executed plans."""

    def __init__(self, spark: SparkSession) -> None:
        handles = java_class(spark, f"{_INVOKE}.MethodHandles")
        self._each = _scala_function(spark, handles.identity(_java_lang_class(spark, "java.lang.Object")))
        self._is_scan, self._is_observed = (_instance_test(spark, name) for name in (_SCAN, _OBSERVED))

    def read(
        self,
        plans: Iterable[Any],
        table: str,
        parts: Iterable[str],
        observed_lookups: Mapping[str, tuple[StateLookup, ...]],
    ) -> dict[str, PartFigures]:
        """Returns the reads of a state and the lookups in it, by state table; scans of several state tables are under "".
        `observed_lookups`: the lookups of each step, by the name that `lookup_metrics_name` returns for it."""
        found: dict[str, PartFigures] = {}
        observed: dict[str, Any] = {}
        for plan in plans:
            # Cached relations aren't expanded, and their plans are recorded on their own, so each scan is counted once.
            nodes = plan.map(self._each)
            for scan in _scala_items(nodes.filter(self._is_scan)):
                if str(scan.table().name()) == table:
                    part = scanned_part(str(scan.scan().description()), parts)
                    found.setdefault(part, PartFigures()).add(_figures_of_scan(scan))
            if observed_lookups:
                # By name, because a view with two readers is in the plan twice, with the same counts.
                observed |= {str(each.name()): each for each in _scala_items(nodes.filter(self._is_observed))}
        for name, lookups in observed_lookups.items():
            if name in observed and (row := observed[name].collectedMetrics()).size():
                for place, each in enumerate(lookups):
                    asked, hits = (int(row.getLong(2 * place + which)) for which in range(2))
                    counted = PartFigures(lookups=asked, hits=hits)
                    found.setdefault(each.part, PartFigures()).add(counted)
        return {part: figures for part, figures in found.items() if figures != PartFigures()}


_readers: WeakKeyDictionary[Any, Reader] = WeakKeyDictionary()


def metrics_reader(spark: SparkSession) -> Reader:
    """Returns the reader of a session's plans."""
    packages = jvm(spark)
    if packages not in _readers:
        _readers[packages] = Reader(spark)
    return _readers[packages]


def with_observations(rows: DataFrame, name: str, asks: Iterable[StateLookup]) -> DataFrame:
    """Returns rows that, while they are computed, count their lookups in the state under a name."""
    from pyspark.sql import functions as F

    counts = []
    for each in asks:
        counts += [f"count_if({each.asked})", f"count_if({each.asked} and {each.found})"]
    return rows.observe(name, *(F.expr(text) for text in counts))


def lookup_metrics_name(step: str) -> str:
    """Returns the name under which a step's lookups are counted."""
    return f"lookups of {step}"


def scanned_part(scan: str, parts: Iterable[str]) -> str:
    """Returns the state table that a scan reads, from Iceberg's description; empty if it reads several or all of them.

    >>> scanned_part("IcebergScan(table=db.m__state, filters=part = 'a_groups')", ["a", "a_groups"])
    'a_groups'
    """
    named = [part for part in parts if f"'{part}'" in scan or f'"{part}"' in scan]
    return named[0] if len(named) == 1 else ""


def _figures_of_scan(scan: Any) -> PartFigures:
    metrics = scan.metrics()

    def number(name: str) -> int:
        return int(metrics.apply(name).value()) if metrics.contains(name) else 0

    files = number("resultDataFiles")
    if not files:
        return PartFigures()  # the scan wasn't run, or there was nothing to read
    return PartFigures(
        scans=1,
        rows_read=number("numOutputRows"),
        bytes_read=number("totalDataFileSize"),
        files_read=files,
        planning_seconds=number("totalPlanningDuration") / 1000,
    )


def _scala_items(found: Any) -> Iterator[Any]:
    return (found.apply(place) for place in range(found.size()))


def _java_lang_class(spark: SparkSession, name: str) -> Any:
    return java_class(spark, "java.lang.Class").forName(name)


def _instance_test(spark: SparkSession, name: str) -> Any:
    """Returns a Scala function that tests for instances of a class, to filter plan nodes in Java: transferring one node to
    Python takes as long as testing a hundred in Java."""
    types = java_class(spark, f"{_INVOKE}.MethodType")
    signature = types.fromMethodDescriptorString("(Ljava/lang/Object;)Z", None)
    lookup = java_class(spark, f"{_INVOKE}.MethodHandles").publicLookup()
    found = lookup.findVirtual(_java_lang_class(spark, "java.lang.Class"), "isInstance", signature)
    return _scala_function(spark, found.bindTo(_java_lang_class(spark, name)))


def _scala_function(spark: SparkSession, handle: Any) -> Any:
    proxies = java_class(spark, f"{_INVOKE}.MethodHandleProxies")
    return proxies.asInterfaceInstance(_java_lang_class(spark, "scala.Function1"), handle)
