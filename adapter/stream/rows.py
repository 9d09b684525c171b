"""The rows of a micro-batch: counted as they come, judged by the watermark, and kept for its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..query.program import Rows, StreamInput
from .errors import StreamError
from .model import StreamModel
from .sources import is_time
from .writing import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_JUDGED = "__late"
_WATERMARK = "__watermark"


class Meter:
    """Counts a stream's rows while something else reads them: no pass of its own."""

    def __init__(self, rows: DataFrame, stream: StreamInput) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        self._observation = Observation()
        newest = (
            "cast(null as bigint)"
            if stream.event_time is None
            else f"unix_micros(cast(max({quoted(stream.event_time)}) as timestamp))"
        )
        self.rows = rows.observe(
            self._observation, F.expr("count(*)").alias("rows"), F.expr(newest).alias("newest")
        )

    def read(self) -> tuple[int, int | None]:
        """Number of rows and the newest event time (microseconds since 1970).

        To be called after the rows were read.
        """
        found = self._observation.get
        return found["rows"], found["newest"]


@dataclass(frozen=True)
class Judged:
    """What became of the rows of a `Rows` step."""

    streams: tuple[str, ...]
    """The views of the streams they come from."""
    null_time_rows: int
    late_rows: int
    live_rows: int
    newest: int | None
    """The newest event time, in microseconds since 1970."""


def judge(
    spark: SparkSession, model: StreamModel, steps: Sequence[Rows], kept: list[DataFrame]
) -> list[Judged]:
    """Compute the rows of the steps in one job, and make those that live a view under each step's name.

    Args:
        spark: the session of the micro-batch, with the views of the streams and ``clock``.
        model: for messages.
        steps: all rows that go into one level.
        kept: what was persisted is added to it.

    Raises:
        StreamError: ``event_time`` isn't a time.
    """
    from pyspark.sql import functions as F

    if not steps:
        return []
    # Joined in, not written in: a literal would make other code, to be compiled, of each watermark.
    clock = F.broadcast(spark.table("clock").selectExpr(f"watermark_before as {_WATERMARK}"))
    counts: DataFrame | None = None
    for step in steps:
        rows = spark.sql(step.sql)
        _check_times(model, rows)
        columns = [quoted(name) for name in rows.columns]
        judged = rows.crossJoin(clock).selectExpr(
            *columns, f"coalesce(expires_at <= {_WATERMARK}, false) as {_JUDGED}"
        )
        judged.persist()
        kept.append(judged)
        live = judged.where(f"event_time is not null and not {_JUDGED}").drop(_JUDGED)
        live.createOrReplaceTempView(step.name)
        count = judged.selectExpr(
            "count_if(event_time is null) as null_time_rows",
            f"count_if(event_time is not null and {_JUDGED}) as late_rows",
            f"count_if(event_time is not null and not {_JUDGED}) as live_rows",
            "unix_micros(max(event_time)) as newest",
        )
        counts = count if counts is None else counts.unionAll(count)
    assert counts is not None
    found: list[Any] = counts.collect()
    return [Judged(step.streams, **row.asDict()) for step, row in zip(steps, found, strict=True)]


def _check_times(model: StreamModel, rows: DataFrame) -> None:
    for field in rows.schema.fields:
        if field.name in ("event_time", "expires_at") and not is_time(field.dataType):
            raise StreamError(
                f"Model {model.name}: the time of its window is a {field.dataType.simpleString()}, and has "
                "to be a TIMESTAMP. Convert it below the window."
            )


def keep(rows: DataFrame, kept: list[DataFrame]) -> None:
    """Compute rows and hold them until the end of the micro-batch.

    One job without a shuffle. Their size is known afterwards, so that joins with them are planned well.
    """
    rows.persist()
    kept.append(rows)
    rows._jdf.queryExecution().withCachedData().cacheBuilder().cachedColumnBuffers().count()
