"""The Spark session of a model's micro-batches: a clone of the project's, configured for many small queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FEW_ROWS = 50_000
_ROWS_OF_A_TASK = 500_000
_PARTITIONS, _WHOLE_STAGE = "spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage"
_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


@dataclass(frozen=True)
class SessionDefaults:
    """Settings of the project's Spark session."""

    partitions: int
    """Number of shuffle partitions: one per core, or fewer if the project sets fewer."""
    whole_stage: str
    """Value of Spark's setting for whole-stage code generation."""
    broadcast: int
    """Maximum bytes of a relation that Spark broadcasts for a join."""


def session_defaults(spark: SparkSession) -> SessionDefaults:
    """Reads the defaults from the project's session."""
    wanted = int(spark.conf.get(_PARTITIONS) or 200)
    return SessionDefaults(
        partitions=max(1, min(wanted, spark.sparkContext.defaultParallelism)),
        whole_stage=spark.conf.get(_WHOLE_STAGE) or "true",
        # Rows of a micro-batch are cached, so their size is known, and broadcasting them avoids a shuffle of the state.
        # A broadcast relation takes several times its size, as a hash table and as serialized chunks.
        broadcast=min(64 << 20, driver_memory(spark) // 64),
    )


def working_session(spark: SparkSession) -> SparkSession:
    """Returns a clone of a session, with its settings, views and functions, prepared for micro-batches."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark.sparkContext, jsparkSession=spark._jsparkSession.cloneSession())
    prepare(session, session_defaults(spark))
    return session


def prepare(session: SparkSession, session_defaults: SessionDefaults) -> None:
    """Configures a session for micro-batches. Structured Streaming clones the session and applies settings of the
    checkpoint's first run to the clone, so the clone is configured too."""
    settings = {
        # Without AQE, a query is planned once, not once per shuffle. Measured: 5 jobs instead of 19; AQE takes 1.7 x the
        # time.
        "spark.sql.adaptive.enabled": "false",
        # For a condition over n columns that a SELECT renames, Spark derives 2^n constraints, one for each choice of old
        # and new names. The comparison of rows with a table has twice as many columns as the table.
        "spark.sql.constraintPropagation.enabled": "false",
        # Cached rows are read once or twice, so compressing each column doesn't pay.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # Cached rows are never recomputed: the table has to get the same rows as the state.
        "spark.sql.defaultCacheStorageLevel": "MEMORY_AND_DISK",
        # If one of these is enabled, Spark clones the session for each cached relation.
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
        "spark.sql.adaptive.applyFinalStageShuffleOptimizations": "false",
        # About 500,000 rows a task: its hash table is small enough to fit in memory with the cached rows.
        "spark.sql.files.maxPartitionBytes": "8m",
    }
    for key, value in settings.items():
        session.conf.set(key, value)
    set_shuffle_partitions(session, session_defaults)


def are_few(rows: int) -> bool:
    """Returns whether `rows` rows fit into one task and one file."""
    return rows <= _FEW_ROWS


def set_shuffle_partitions(
    session: SparkSession, session_defaults: SessionDefaults, rows: int = 0, few: bool = False
) -> None:
    """Sets shuffle partitions, code generation and the broadcast threshold for a micro-batch.

    For a few rows, computing them takes less time than generating and compiling code for whole stages.

    Args:
        session_defaults: the project's settings, used for more than a few rows.
        few: whether all rows that are read `are_few`.
    """
    wanted = 1 if few else max(session_defaults.partitions, rows // _ROWS_OF_A_TASK)
    session.conf.set(_PARTITIONS, str(wanted))
    session.conf.set(_WHOLE_STAGE, "false" if few else session_defaults.whole_stage)
    # A broadcast takes an additional job, which a single task doesn't need.
    session.conf.set(_BROADCAST, "-1" if few else str(session_defaults.broadcast))


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Returns the DataFrame of a query. `spark.sql` is slower: it searches a Java class in all packages on each call."""
    from pyspark.sql import DataFrame

    return DataFrame(spark._jsparkSession.sql(text), spark)


def register_view(rows: DataFrame, view: str) -> None:
    """Registers rows as a temporary view of their session, replacing the view of that name.

    `createOrReplaceTempView` is not used: when it replaces a view, Spark uncaches all rows computed from a view of that
    name in all sessions, including those of other models. A view with the same columns is replaced in the catalog
    directly, because Spark plans a command, and reports it to listeners with the whole plan of the rows.
    """
    catalog = rows.sparkSession._jsparkSession.sessionState().catalog()
    found, plan = catalog.getRawTempView(view), rows._jdf.queryExecution().analyzed()
    if found.isDefined() and found.get().tableMeta().schema().equals(plan.schema()):
        some = java_class(rows.sparkSession, "scala.Some")
        catalog.createTempView(view, found.get().copy(found.get().tableMeta(), some(plan)), True)
        return
    catalog.dropTempView(view)
    rows.createTempView(view)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Makes a session the active one of the thread. Without one, parts of Spark look up catalogs in default settings."""
    sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def driver_memory(spark: SparkSession) -> int:
    """Returns the maximum heap of the driver's JVM, in bytes."""
    return int(java_class(spark, "java.lang.Runtime").getRuntime().maxMemory())


def jvm(spark: SparkSession) -> Any:
    """Returns py4j's view of the JVM."""
    return spark._jvm


_classes: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def java_class(spark: SparkSession, name: str) -> Any:
    """Returns a Java class by its full name. Cached, because py4j makes a request for each part of the name."""
    packages = jvm(spark)
    found = _classes.setdefault(packages, {})
    if name not in found:
        found[name] = reduce(getattr, name.split("."), packages)
    return found[name]


def static_method(spark: SparkSession, name: str, method: str) -> Any:
    """Returns a static method of a Java class that may have an instance method of the same name.

    For an attribute of a class, py4j takes the first method of that name in Java's list, and reports no method if this is an
    instance method. The order of the list depends on the JVM and its class data archive.
    """
    from py4j.java_gateway import JavaMember  # type: ignore[import-untyped]
    from py4j.protocol import STATIC_PREFIX  # type: ignore[import-untyped]

    return JavaMember(method, None, STATIC_PREFIX + name, jvm(spark)._gateway_client)
