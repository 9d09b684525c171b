"""The session a model's micro-batches run in: a copy of the project's, set for many small queries."""

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
    """What the project asks of Spark."""

    partitions: int
    """Into how many pieces rows are shuffled: as many as there are cores, unless it says fewer."""
    whole_stage: str
    """Whether Spark makes code for whole stages."""
    broadcast: int
    """Bytes of a relation that is sent around for a join, instead of shuffling both sides."""


def asked(spark: SparkSession) -> SessionDefaults:
    """What the project's session asks."""
    wanted = int(spark.conf.get(_PARTITIONS) or 200)
    return SessionDefaults(
        partitions=max(1, min(wanted, spark.sparkContext.defaultParallelism)),
        whole_stage=spark.conf.get(_WHOLE_STAGE) or "true",
        # The rows of a micro-batch are kept, so their size is known; state is read past them, not shuffled. As a hash
        # table, and in the pieces it is sent in, a relation is several times as large.
        broadcast=min(64 << 20, driver_memory(spark) // 64),
    )


def working_session(spark: SparkSession) -> SparkSession:
    """A session with the same settings, views and functions, whose own changes stay in it."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark.sparkContext, jsparkSession=spark._jsparkSession.cloneSession())
    prepare(session, asked(spark))
    return session


def prepare(session: SparkSession, asked: SessionDefaults) -> None:
    """Set a session for micro-batches.

    Structured Streaming copies sessions and puts settings of the checkpoint's first run into the copy,
    so this is done in the copy too.
    """
    settings = {
        # Plans each query once, instead of once per shuffle: measured 19 jobs against 5, and 1.7 x the time.
        "spark.sql.adaptive.enabled": "false",
        # Of a condition over many columns that a SELECT renames Spark makes a constraint for each choice of old and new
        # names: of the rows that a table is compared with, twice its columns, 2 to the power of that.
        "spark.sql.constraintPropagation.enabled": "false",
        # What is kept is read once or twice and let go: trying out encodings on each column doesn't pay.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # What is kept is computed once: a row that went to the state must not be made anew for the table.
        "spark.sql.defaultCacheStorageLevel": "MEMORY_AND_DISK",
        # Where one of these is on, Spark copies the session for whatever is kept.
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
        "spark.sql.adaptive.applyFinalStageShuffleOptimizations": "false",
        # Some 500,000 rows: the hash table of a task stays small, and fits beside what is kept.
        "spark.sql.files.maxPartitionBytes": "8m",
    }
    for key, value in settings.items():
        session.conf.set(key, value)
    spread(session, asked)


def are_few(rows: int) -> bool:
    """Whether so many rows are computed by one task, and written into one file."""
    return rows <= _FEW_ROWS


def spread(session: SparkSession, asked: SessionDefaults, rows: int = 0, few: bool = False) -> None:
    """Set how Spark computes: in how many tasks, and by which code.

    A few rows are computed by the time that code for whole stages is written, let alone compiled.

    Args:
        session: of the micro-batch.
        asked: what the project asks, for more than a few rows.
        rows: how many come.
        few: whether all rows that are read `are_few`.
    """
    wanted = 1 if few else max(asked.partitions, rows // _ROWS_OF_A_TASK)
    session.conf.set(_PARTITIONS, str(wanted))
    session.conf.set(_WHOLE_STAGE, "false" if few else asked.whole_stage)
    # To send a relation around takes a job, which one task is done without.
    session.conf.set(_BROADCAST, "-1" if few else str(asked.broadcast))


def sql(spark: SparkSession, text: str) -> DataFrame:
    """The rows of a query. Not by `spark.sql`, which looks for one of Java's classes in all packages each time."""
    from pyspark.sql import DataFrame

    return DataFrame(spark._jsparkSession.sql(text), spark)


def show(rows: DataFrame, view: str) -> None:
    """Make rows a view of their session, in the place of the one of that name.

    Not by `createOrReplaceTempView`: when that replaces a view, Spark forgets what was kept of any rows
    made from a view of that name, in all sessions, so also what another model keeps. And where there was one with the
    same columns, not by a command either: Spark would plan it, and tell of it with all that the rows are made from.
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
    """Make a session the thread's own. Where a thread has none, some of Spark looks for catalogs in settings that nobody
    has made."""
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
    """Bytes that the JVM of Spark's driver may use."""
    return int(java_class(spark, "java.lang.Runtime").getRuntime().maxMemory())


def jvm(spark: SparkSession) -> Any:
    """Java's packages, as Python sees them."""
    return spark._jvm


_classes: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of Java's by its full name. To find one, Python asks Java about each part of that; so it does so once."""
    packages = jvm(spark)
    found = _classes.setdefault(packages, {})
    if name not in found:
        found[name] = reduce(getattr, name.split("."), packages)
    return found[name]


def static_method(spark: SparkSession, name: str, method: str) -> Any:
    """A static method of a class of Java's, of which objects may have one of the same name.

    Asked for an attribute of a class, py4j looks at whichever method of that name Java lists first, and says there is none
    if that is an object's. The order is the JVM's to choose: it changes with its class data archive.
    """
    from py4j.java_gateway import JavaMember  # type: ignore[import-untyped]
    from py4j.protocol import STATIC_PREFIX  # type: ignore[import-untyped]

    return JavaMember(method, None, STATIC_PREFIX + name, jvm(spark)._gateway_client)
