"""Counts the rows of a micro-batch, drops late rows, and caches rows for the steps that read them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...query.program import Rows, StreamInput, clock_column, clock_sql
from ...query.sql.instants import usable_time_condition
from ...sources.unreadable import DROPPED, UNREADABLE
from ...util.quoting import quote as quoted
from ..common.errors import StreamError
from ..common.model import StreamModel
from ..common.session import java_class, register_view, sql
from ..iceberg.table import java_elements
from ..progress import query_metrics
from .readers import event_time_column, is_timestamp_type
from .records import without_unreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LATE = "__stream_late"
_UNREADABLE = "unreadable:"
_PATIENCE = 30.0
"""Seconds to wait for Spark's metrics of written rows."""


@dataclass(frozen=True)
class Counted:
    """Counts of a stream's rows in a micro-batch."""

    rows: int
    newest: int | None
    """The newest event time, in microseconds since 1970."""
    unreadable: Mapping[str, int] = field(default_factory=dict)
    """Column → number of rows with an unreadable value; all such rows under an empty name."""


@dataclass(frozen=True)
class FilteredCounts:
    """Counts of a `Rows` step after the late-row filter."""

    streams: tuple[str, ...]
    """The views of the streams that the rows come from."""
    null_time_rows: int
    late_rows: int
    live_rows: int
    newest: int | None
    """The newest event time, in microseconds since 1970."""


class BatchCache:
    """DataFrames cached for one micro-batch, or for a ``with`` block.

    Read a cached DataFrame through its `scan_cached`. Spark finds cached data by its plan, and invalidates it when any
    session writes to a table in that plan: the rows would then be recomputed from the new table.
    """

    def __init__(self) -> None:
        self._rows: list[DataFrame] = []
        self._observed: dict[str, Any] = {}

    def persist(self, rows: DataFrame) -> int:
        """Computes and caches rows; returns their number. Runs one job without a shuffle. Spark knows the size of cached
        rows, so it plans joins with them well."""
        rows._jdf.persist()
        self._rows.append(rows)
        cache = rows._jdf.queryExecution().withCachedData().cacheBuilder()
        cache.cachedColumnBuffers().count()
        plan = cache.cachedPlan()
        query_metrics.record_plan(plan)
        # A Scala object; `Observation` would wait for a separate query.
        collector = java_class(rows.sparkSession, "org.apache.spark.sql.execution.CollectMetricsExec$")
        found = getattr(collector, "MODULE$").collect(plan)
        for name in java_elements(found.keysIterator()):
            self._observed[name] = found.apply(name)
        return int(cache.rowCountStats().value())

    def persist_lazily(self, rows: DataFrame) -> DataFrame:
        """Caches rows when they are first computed; returns a relation without their lineage. Without this, Spark analyses
        the whole lineage of a view each time that a query reads it."""
        rows._jdf.persist()
        self._rows.append(rows)
        query_metrics.record_plan(rows._jdf.queryExecution().withCachedData().cacheBuilder().cachedPlan())
        return scan_cached(rows)

    def observed_metrics(self, name: str) -> tuple[int | None, ...]:
        """Returns the metrics that `DataFrame.observe` collected under a name while rows were computed."""
        row = self._observed[name]
        return tuple(None if row.isNullAt(place) else row.getLong(place) for place in range(row.size()))

    def observed_by_name(self, name: str) -> dict[str, int | None]:
        """Returns the metrics collected under a name, by their own names."""
        return dict(zip(self._observed[name].schema().fieldNames(), self.observed_metrics(name), strict=True))

    def observed_texts(self, name: str) -> tuple[str, ...]:
        """Returns the texts that an array metric collected under a name. They must not contain line breaks."""
        found = self._observed[name].getSeq(0).mkString("\n")
        return tuple(found.split("\n")) if found else ()

    def has_observed(self, name: str) -> bool:
        """Returns whether metrics were collected under a name. Spark doesn't compute rows below a condition that is always
        false (``where 1 = 0``)."""
        return name in self._observed

    def __enter__(self) -> BatchCache:
        return self

    def __exit__(self, *problem: object) -> None:
        self.release()

    def release(self) -> None:
        """Releases the cached rows."""
        for rows in self._rows:
            rows._jdf.unpersist()
        self._rows.clear()


def scan_cached(rows: DataFrame) -> DataFrame:
    """Returns a relation over cached rows, without their lineage."""
    return _dataframe_of_plan(rows, rows._jdf.queryExecution().withCachedData())


def truncate_lineage(rows: DataFrame) -> DataFrame:
    """Returns a relation over computed, cached rows without any lineage in Spark's plans. A `scan_cached` still has the
    cached plan, which Spark traverses and prints with each query."""
    held = scan_cached(rows)
    relation = getattr(java_class(rows.sparkSession, "org.apache.spark.sql.execution.LogicalRDD$"), "MODULE$")
    # Gets the size of `held`, which is known by now.
    return _dataframe_of_plan(
        rows, relation.fromDataset(held._jdf.queryExecution().toRdd(), held._jdf, False)
    )


def _dataframe_of_plan(rows: DataFrame, plan: Any) -> DataFrame:
    """Returns a DataFrame with a plan of Spark's, in the session of `rows`."""
    from pyspark.sql import DataFrame

    spark = rows.sparkSession
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset$")
    return DataFrame(getattr(dataset, "MODULE$").ofRows(spark._jsparkSession, plan), spark)


def with_row_counts(rows: DataFrame, stream: StreamInput) -> DataFrame:
    """Counts the rows of a stream under its view's name while they are read, without an extra pass."""
    return without_unreadable(rows.observe(stream.view, *_count_metrics(rows, stream)))


def count_rows(cache: BatchCache, stream: StreamInput) -> Counted:
    """Returns the counts of a stream, after its rows were cached or computed for cached rows."""
    return _parse_counts(cache.observed_by_name(stream.view))


def count_again(rows: DataFrame, stream: StreamInput) -> Counted:
    """Counts the rows of a stream in an extra pass."""
    (row,) = rows.agg(*_count_metrics(rows, stream)).collect()
    return _parse_counts(row.asDict())


def _parse_counts(found: Mapping[str, int | None]) -> Counted:
    numbers = {name: number or 0 for name, number in found.items()}
    unreadable = {
        name.removeprefix(_UNREADABLE): number
        for name, number in numbers.items()
        if name.startswith(_UNREADABLE) and number
    }
    return Counted(numbers["rows"], found["newest"], unreadable)


class Observed:
    """Metrics of rows collected while they are written, without caching them."""

    def __init__(self, rows: DataFrame, *numbers: Any) -> None:
        from pyspark.sql import Observation

        self._observation = Observation()
        self.rows = rows.observe(self._observation, *numbers)

    def read(self) -> dict[str, Any] | None:
        """Returns the metrics, after the rows were written; None if Spark doesn't report them."""
        assert self._observation._jo is not None
        result = self._observation._jo.future()
        deadline = time.monotonic() + _PATIENCE
        while not result.isCompleted() and time.monotonic() < deadline:
            time.sleep(0.002)
        # Spark doesn't compute rows below an always-false condition, and drops events if its queue is full.
        if not result.isCompleted() or self._observation._jo.getRow().size() == 0:
            return None
        return dict(self._observation.get)


class Meter:
    """Counts a stream's rows while they are written, without caching them."""

    def __init__(self, rows: DataFrame, stream: StreamInput) -> None:
        self._unobserved, self._stream = rows, stream
        self._observed = Observed(rows, *_count_metrics(rows, stream))
        self.rows = without_unreadable(self._observed.rows)

    def read(self) -> Counted:
        """Returns the counts, after the rows were written."""
        found = self._observed.read()
        return count_again(self._unobserved, self._stream) if found is None else _parse_counts(found)


def _count_metrics(rows: DataFrame, stream: StreamInput) -> Sequence[Any]:
    from pyspark.sql import functions as F

    numbers = {"rows": "count(*)", "newest": "cast(null as bigint)"}
    hidden = next((name for name in rows.columns if name in (UNREADABLE, DROPPED)), None)
    if (found := event_time_column(stream, rows.schema)) is not None:
        time = found[0]
        # Dropped rows don't count for the newest time.
        numbers["newest"] = _newest_time_sql(
            time if hidden != DROPPED else f"if({hidden} is null, {time}, null)"
        )
    if hidden is not None:
        kind: Any = rows.schema[hidden].dataType
        numbers[_UNREADABLE] = f"count({hidden})"
        numbers |= {f"{_UNREADABLE}{name}": f"count({hidden}.{quoted(name)})" for name in kind.fieldNames()}
    return [F.expr(number).alias(name) for name, number in numbers.items()]


def _newest_time_sql(column: str) -> str:
    # Observed metrics don't support FILTER.
    return f"unix_micros(cast(max(case when {usable_time_condition(column)} then {column} end) as timestamp))"


def filter_late_rows(spark: SparkSession, model: StreamModel, step: Rows) -> DataFrame:
    """Registers a step's rows under its name, without those that lack a usable time and, if `expires`, without late
    rows. All are counted when they are computed (see `filtered_counts`)."""
    from pyspark.sql import functions as F

    watermark, is_late = clock_column("watermark_before", step.time_zone), "false"
    if step.expires:
        is_late = f"coalesce(step.expires_at <= {clock_sql(watermark)}, false)"
    elif step.forgets:
        is_late = f"coalesce(cast(step.event_time as timestamp) < {clock_sql('watermark_before')}, false)"
    rows = sql(spark, f"select step.*, {is_late} as {_LATE}\nfrom (\n{step.sql}\n) as step")
    _check_times(model, {field.name: field.dataType for field in rows.schema.fields})
    # Beyond SQL's range a time counts as missing: the window's end would exceed TIMESTAMP.
    no_time = f"not coalesce({usable_time_condition('event_time')}, false)" if step.timed else "false"
    latest = _newest_time_sql("event_time") if step.timed else "cast(null as bigint)"
    is_live = f"not ({no_time}) and not {_LATE}" if step.expires else f"not ({no_time})"
    observed = rows.observe(
        step.name,
        F.expr(f"count_if({no_time})"),
        F.expr(f"count_if(not ({no_time}) and {_LATE})"),
        F.expr(f"count_if({is_live})"),
        F.expr(latest),
    )
    live = observed.where(is_live).drop(_LATE, "event_time")
    register_view(live, step.name)
    return live


def filtered_counts(cache: BatchCache, step: Rows) -> FilteredCounts:
    """Returns the counts of a step's rows, after they were cached or computed for cached rows."""
    if not cache.has_observed(step.name):
        return FilteredCounts(step.streams, 0, 0, 0, None)  # Spark has removed the rows as unused
    null_times, late, alive, newest = cache.observed_metrics(step.name)
    return FilteredCounts(step.streams, null_times or 0, late or 0, alive or 0, newest)


def _check_times(model: StreamModel, types: Mapping[str, Any]) -> None:
    for name in ("event_time", "expires_at"):
        if name in types and not is_timestamp_type(types[name]):
            raise StreamError(
                f"Model {model.name}: the time of its window is a {types[name].simpleString()}, and has to be a "
                "TIMESTAMP. Convert it below the window."
            )
